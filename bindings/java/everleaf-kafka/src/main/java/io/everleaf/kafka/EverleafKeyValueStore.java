package io.everleaf.kafka;

import io.everleaf.ClosedException;
import io.everleaf.EverleafException;
import io.everleaf.Range;
import io.everleaf.ReadTree;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.BatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;

/**
 * A store of keys and values. One thread writes; any thread may query, also while the store is closed: it gets an exception then.
 * No lock is held while anything of Streams is called.
 *
 * <p>Methods that an older Kafka does not have are not marked as overrides.
 */
class EverleafKeyValueStore implements KeyValueStore<Bytes, byte[]> {
    /** Has Streams know that values begin with a timestamp: without it they are lost without a word. */
    static final class Timestamped extends EverleafKeyValueStore implements TimestampedBytesStore {
        Timestamped(String name) {
            super(name);
        }
    }

    private static final String TRANSACTIONAL = "enable.transactional.statestores";
    private static final String ISOLATION = "default.interactive.query.isolation.level";

    private final String name;
    /** Iterators that nobody has closed yet. */
    private final Set<StoreIterator> iterators = ConcurrentHashMap.newKeySet();

    /** A store may be opened again after a close, and then what was not committed is gone from this, too. */
    private volatile Position position = Position.emptyPosition();

    private volatile StorePool pool;
    private volatile boolean isOpen;
    private boolean isTransactional;
    private StateStoreContext context;

    EverleafKeyValueStore(String name) {
        this.name = name;
    }

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
        try {
            pool = open(StorePool.open(name, context));
        } catch (EverleafException failure) {
            throw new ProcessorStateException("Error opening store " + name + " in " + context.stateDir(), failure);
        }
        isOpen = true;
        context.register(root, (BatchingStateRestoreCallback) this::restore);
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

    private void restore(Iterable<KeyValue<byte[], byte[]>> records) {
        run("restoring", () -> {
            for (KeyValue<byte[], byte[]> record : records) {
                set(record.key, record.value);
            }
            return null;
        });
    }

    /** Does something, and has its exceptions be those that Streams knows. */
    private <T> T run(String what, Supplier<T> body) {
        expectOpen();
        try {
            return body.get();
        } catch (ClosedException closed) {
            // By another thread, in between.
            expectOpen();
            throw new InvalidStateStoreException("Error while " + what + " store " + name, closed);
        } catch (EverleafException failure) {
            throw new ProcessorStateException("Error while " + what + " store " + name, failure);
        }
    }

    private void expectOpen() {
        if (!isOpen) {
            throw new InvalidStateStoreException("Store " + name + " is currently closed");
        }
    }

    private void set(byte[] key, byte[] value) {
        pool.touch();
        if (value == null) {
            pool.data.delete(key);
        } else {
            pool.data.put(key, value);
        }
    }

    private void updatePosition() {
        Position now = position;
        synchronized (now) {
            Internals.update(now, context);
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
    public void put(Bytes key, byte[] value) {
        Objects.requireNonNull(key, "key cannot be null");
        run("putting a key into", () -> {
            set(key.get(), value);
            updatePosition();
            return null;
        });
    }

    @Override
    public byte[] putIfAbsent(Bytes key, byte[] value) {
        Objects.requireNonNull(key, "key cannot be null");
        return run("putting a key into", () -> {
            byte[] old = pool.data.get(key.get());
            if (old == null) {
                set(key.get(), value);
                updatePosition();
            }
            return old;
        });
    }

    /** An epoch holds all of it in any case. */
    @Override
    public void putAll(List<KeyValue<Bytes, byte[]>> entries) {
        for (KeyValue<Bytes, byte[]> entry : entries) {
            put(entry.key, entry.value);
        }
    }

    @Override
    public byte[] delete(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        return run("deleting a key from", () -> {
            pool.touch();
            byte[] old = pool.data.take(key.get());
            updatePosition();
            return old;
        });
    }

    @Override
    public byte[] get(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        return run("getting a key from", () -> pool.data.get(key.get()));
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
        return current.range(from, to);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
        return current.reverseRange(from, to);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> all() {
        return current.all();
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseAll() {
        return current.reverseAll();
    }

    @Override
    public <PS extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(P prefix, PS serializer) {
        return current.prefixScan(prefix, serializer);
    }

    @Override
    public long approximateNumEntries() {
        return run("counting", pool.data::size);
    }

    @Override
    public void commit(Map<TopicPartition, Long> offsets) {
        Position now = positionNow();
        run("committing", () -> {
            pool.commit(offsets, now);
            return null;
        });
    }

    @Override
    public Long committedOffset(TopicPartition partition) {
        return run("reading an offset of", () -> pool.offset(partition));
    }

    /** What came after the last commit is taken back: Streams does not say whether the task ends well. */
    @Override
    public void close() {
        if (!isOpen) {
            return;
        }
        isOpen = false;
        for (StoreIterator iterator : new ArrayList<>(iterators)) {
            iterator.close();
        }
        try {
            pool.close();
        } catch (EverleafException failure) {
            throw new ProcessorStateException("Error while closing store " + name, failure);
        }
    }

    /** Without transactions of stores nothing acts on it. */
    public long approximateNumUncommittedBytes() {
        return isTransactional ? run("counting", () -> pool.db.pendingBytes()) : 0;
    }

    /** The store as the last commit has left it, or as it is. */
    public ReadOnlyKeyValueStore<Bytes, byte[]> readOnly(IsolationLevel level) {
        Objects.requireNonNull(level, "isolation level cannot be null");
        expectOpen();
        return isTransactional && level == IsolationLevel.READ_COMMITTED ? committed : this;
    }

    @Override
    public <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
        Position at = positionNow();
        if (isTransactional && Internals.asksForCommitted(config)) {
            at = run("querying", () -> lastCommit().position());
        }
        return Internals.answer(query, bound, config, this, at, context);
    }

    private StorePool.Committed lastCommit() {
        StorePool.Committed last = pool.committed();
        if (last == null) {
            throw new InvalidStateStoreException("Store " + name + " has kept no committed state yet: the next commit does. Set "
                    + ISOLATION + " to have it kept from the start");
        }
        return last;
    }

    private final StoreView current = new StoreView() {
        @Override
        <T> T read(String what, java.util.function.Function<ReadTree, T> body) {
            return run(what, () -> body.apply(pool.data));
        }

        @Override
        KeyValueIterator<Bytes, byte[]> iterate(Range range) {
            return iterator(this, range);
        }
    };

    private final StoreView committed = new StoreView() {
        @Override
        <T> T read(String what, java.util.function.Function<ReadTree, T> body) {
            return run(what, () -> {
                while (true) {
                    StorePool.Committed last = lastCommit();
                    try {
                        return body.apply(last.data());
                    } catch (ClosedException closed) {
                        if (pool.committed() == last) {
                            throw closed;
                        }
                        // A commit has put another one in its place.
                    }
                }
            });
        }

        @Override
        KeyValueIterator<Bytes, byte[]> iterate(Range range) {
            return iterator(this, range);
        }
    };

    private StoreIterator iterator(StoreView view, Range range) {
        StoreIterator iterator = new StoreIterator(name, view.read("iterating over", tree -> tree.scan(range)), iterators);
        iterators.add(iterator);
        if (!isOpen) {
            // The close may have missed it.
            iterator.close();
            expectOpen();
        }
        return iterator;
    }
}
