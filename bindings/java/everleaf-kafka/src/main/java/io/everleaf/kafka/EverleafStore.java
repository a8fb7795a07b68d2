package io.everleaf.kafka;

import io.everleaf.ClosedException;
import io.everleaf.CorruptException;
import io.everleaf.EverleafException;
import java.util.ArrayList;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.processor.BatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.KeyValueIterator;

/**
 * All that the stores have in common. One thread writes; any thread may query, also while the store is closed: it gets an exception
 * then. No lock is held while anything of Streams is called.
 *
 * <p>Methods that an older Kafka does not have are not marked as overrides.
 */
abstract class EverleafStore implements StateStore {
    private static final String TRANSACTIONAL = "enable.transactional.statestores";
    private static final String GUARANTEE = "processing.guarantee";
    private static final String ISOLATION = "default.interactive.query.isolation.level";

    final String name;
    private final Layout layout;
    /** Iterators that nobody has closed yet. */
    private final Set<KeyValueIterator<?, ?>> iterators = ConcurrentHashMap.newKeySet();

    /** A store may be opened again after a close, and then what was not committed is gone from this, too. */
    private volatile Position position = Position.emptyPosition();

    volatile StorePool pool;
    private volatile boolean isOpen;
    private StoreMetrics metrics;
    private boolean isTransactional;
    private boolean isExactlyOnce;
    /** A changelog has all that the store has. */
    boolean isLogged;
    /** The thread that has written last: that of the task. */
    private volatile Thread writer;
    /** The first damage that anybody has met since the open, or null. */
    private volatile ProcessorStateException damage;

    StateStoreContext context;

    EverleafStore(String name, Layout layout) {
        this.name = name;
        this.layout = layout;
    }

    /** Takes records of the changelog. */
    abstract void restore(Iterable<KeyValue<byte[], byte[]>> records);

    /** The pool has been opened, and nothing else has happened. */
    void opened() {}

    @Override
    public String name() {
        return name;
    }

    @Override
    public boolean persistent() {
        return true;
    }

    @Override
    public boolean isOpen() {
        return isOpen;
    }

    @Override
    @Deprecated
    public boolean managesOffsets() {
        return true;
    }

    @Override
    public void init(StateStoreContext context, StateStore root) {
        this.context = context;
        isTransactional = Boolean.parseBoolean(String.valueOf(context.appConfigs().get(TRANSACTIONAL)));
        isExactlyOnce = String.valueOf(context.appConfigs().get(GUARANTEE)).startsWith("exactly_once");
        isLogged = Internals.isLogged(context, name);
        damage = null;
        writer = null;
        try {
            pool = openSound();
        } catch (EverleafException failure) {
            throw new ProcessorStateException("Error opening store " + name + " in " + context.stateDir(), failure);
        }
        try {
            begin(root);
        } catch (RuntimeException failure) {
            // Streams closes what it has registered, and nothing else.
            try {
                if (isOpen) {
                    close();
                } else {
                    pool.close();
                }
            } catch (RuntimeException another) {
                failure.addSuppressed(another);
            }
            throw failure;
        }
    }

    private void begin(StateStore root) {
        opened();
        metrics = new StoreMetrics(context, layout.kind().scope, name, pool);
        isOpen = true;
        context.register(root, (BatchingStateRestoreCallback) records -> run("restoring", () -> {
            restore(records);
            return null;
        }));
    }

    /** Opens the pool, or a new one if it is damaged and the changelog has all of it. */
    private StorePool openSound() {
        try {
            return open(StorePool.open(name, context, layout));
        } catch (CorruptException corruption) {
            if (!isLogged) {
                throw corruption;
            }
            StorePool.setAside(name, context, corruption.getMessage());
            return open(StorePool.open(name, context, layout));
        }
    }

    /** Reads what the last commit has left; closes the pool if that fails. */
    private StorePool open(StorePool opened) {
        try {
            position = opened.position();
            if (isTransactional && "read_committed".equalsIgnoreCase(level())) {
                opened.keepCommitted(positionNow());
            }
            return opened;
        } catch (RuntimeException failure) {
            opened.close();
            throw failure;
        }
    }

    private String level() {
        return String.valueOf(context.appConfigs().get(ISOLATION));
    }

    /** Does something, and has its exceptions be those that Streams knows. */
    final <T> T run(String what, Supplier<T> body) {
        expectOpen();
        expectSound();
        try {
            return body.get();
        } catch (DamagedException met) {
            throw damaged(what, met);
        } catch (CorruptException corruption) {
            throw damaged(what, corruption, "");
        } catch (ClosedException closed) {
            // By another thread, in between.
            expectOpen();
            throw new InvalidStateStoreException("Error while " + what + " store " + name, closed);
        } catch (EverleafException failure) {
            throw new ProcessorStateException("Error while " + what + " store " + name, failure);
        }
    }

    /** The same, in the thread of the task. */
    final <T> T write(String what, Supplier<T> body) {
        if (writer != Thread.currentThread()) {
            writer = Thread.currentThread();
        }
        return run(what, body);
    }

    /** The task is built anew as soon as its thread comes here, also if a query has met the damage. */
    private void expectSound() {
        ProcessorStateException known = damage;
        if (known != null && mayRebuild()) {
            throw rebuild(known);
        }
    }

    private boolean mayRebuild() {
        return isLogged && (Thread.currentThread() == writer || Internals.isOfTasks(Thread.currentThread()));
    }

    /**
     * Streams closes the task then, and restores it from the changelog. Under exactly-once Kafka 4.4.0 goes on behind the records that
     * it had read and not committed (it joins its group again, and forgets to go back), whatever the store is: there the exception ends
     * the thread, and the next one restores the task and loses nothing.
     */
    private RuntimeException rebuild(ProcessorStateException known) {
        return isExactlyOnce
                ? new ProcessorStateException(known.getMessage(), known)
                : new TaskCorruptedException(Set.of(context.taskId()), known);
    }

    /** An operation has met damage: says which keys cannot be read, and has the task be built anew. */
    final RuntimeException damaged(String what, DamagedException met) {
        return damaged(what, met.corruption(), met.range());
    }

    private RuntimeException damaged(String what, CorruptException corruption, String range) {
        String told = "Error while " + what + " store " + name + ": its file " + pool.file() + " is damaged" + range;
        // Streams takes it for a format.
        ProcessorStateException met = new ProcessorStateException(told.replace("%", "%%"), corruption);
        if (damage == null) {
            damage = met;
        }
        return mayRebuild() ? rebuild(met) : met;
    }

    private void expectOpen() {
        if (!isOpen) {
            throw new InvalidStateStoreException("Store " + name + " is currently closed");
        }
    }

    /** Notes where the record comes from that is worked on. */
    final void updatePosition() {
        // Before the lock: this is a callback of Streams.
        RecordMetadata record = context.recordMetadata().orElse(null);
        if (record != null && record.topic() != null) {
            Position now = position;
            synchronized (now) {
                now.withComponent(record.topic(), record.partition(), record.offset());
            }
        }
    }

    private Position positionNow() {
        Position now = position;
        synchronized (now) {
            return now.copy();
        }
    }

    @Override
    public Position getPosition() {
        return position;
    }

    @Override
    public void commit(Map<TopicPartition, Long> offsets) {
        Position now = positionNow();
        long begun = System.nanoTime();
        write("committing", () -> {
            pool.commit(offsets, now);
            metrics.committed(System.nanoTime() - begun);
            return null;
        });
    }

    @Override
    public Long committedOffset(TopicPartition partition) {
        return run("reading an offset of", () -> pool.offset(partition));
    }

    /** Takes back what came after the last commit: Streams does not say whether the task ends well. */
    @Override
    public void close() {
        if (!isOpen) {
            return;
        }
        isOpen = false;
        for (KeyValueIterator<?, ?> iterator : new ArrayList<>(iterators)) {
            iterator.close();
        }
        try {
            closePool();
        } catch (EverleafException failure) {
            throw new ProcessorStateException("Error while closing store " + name, failure);
        } finally {
            metrics.close();
        }
    }

    private void closePool() {
        String known = damage == null ? null : damage.getMessage();
        try {
            pool.close();
        } catch (CorruptException met) {
            known = met.getMessage();
            throw met;
        } finally {
            // Also if the close has failed: the task would be built anew with the same file for ever.
            if (known != null && isLogged) {
                StorePool.setAside(name, context, known);
            }
        }
    }

    /** Without transactions of stores nothing acts on it. */
    public long approximateNumUncommittedBytes() {
        return isTransactional ? run("counting", () -> pool.db.pendingBytes()) : 0;
    }

    @Override
    public <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
        Position at = positionNow();
        if (isTransactional && Internals.asksForCommitted(config)) {
            at = run("querying", () -> lastCommit().position());
        }
        return Internals.answer(query, bound, config, this, at, context);
    }

    /** Whether this level is another one than that of the store itself. */
    final boolean isCommitted(IsolationLevel level) {
        expectOpen();
        return isTransactional && level == IsolationLevel.READ_COMMITTED;
    }

    private StorePool.Committed lastCommit() {
        StorePool.Committed last = pool.committed();
        if (last == null) {
            throw new InvalidStateStoreException("Store " + name + " has kept no committed state yet: the next commit does. Set "
                    + ISOLATION + " to have it kept from the start");
        }
        return last;
    }

    /** Reads the store as it is. */
    final <T> T read(String what, Function<Moment, T> body) {
        return run(what, () -> body.apply(pool));
    }

    /** Reads the store as the last commit has left it. */
    final <T> T readCommitted(String what, Function<Moment, T> body) {
        return run(what, () -> {
            while (true) {
                StorePool.Committed last = lastCommit();
                try {
                    return body.apply(last);
                } catch (ClosedException closed) {
                    if (pool.committed() == last) {
                        throw closed;
                    }
                    // A commit has put another one in its place.
                }
            }
        });
    }

    /** Has an iterator be closed with the store. */
    final <I extends KeyValueIterator<?, ?>> I keep(I iterator) {
        iterators.add(iterator);
        if (!isOpen) {
            // The close may have missed it.
            iterator.close();
            expectOpen();
        }
        return iterator;
    }

    /** An iterator has been closed. */
    final void forget(KeyValueIterator<?, ?> iterator) {
        iterators.remove(iterator);
    }
}
