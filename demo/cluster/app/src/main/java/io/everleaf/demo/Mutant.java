package io.everleaf.demo;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * A store with a defect that the checks of the cluster have to find. It stands between Streams and a store that is right.
 *
 * <p>The store is asked for keys one by one here: the demonstration needs no ranges while it looks for a defect.
 */
abstract class Mutant implements KeyValueStore<Bytes, byte[]> {
    final KeyValueStore<Bytes, byte[]> store;

    private Mutant(KeyValueStore<Bytes, byte[]> store) {
        this.store = store;
    }

    static KeyValueBytesStoreSupplier supplier(KeyValueBytesStoreSupplier right, int number) {
        return new KeyValueBytesStoreSupplier() {
            @Override
            public String name() {
                return right.name();
            }

            @Override
            public KeyValueStore<Bytes, byte[]> get() {
                return switch (number) {
                    case 1 -> new Drops(right.get());
                    case 2 -> new OffsetFirst(right.get());
                    case 3 -> new CloseKeeps(right.get());
                    default -> throw new IllegalArgumentException("mutant=1, 2 or 3");
                };
            }

            @Override
            public String metricsScope() {
                return right.metricsScope();
            }
        };
    }

    /** Loses one write in a thousand. */
    private static final class Drops extends Mutant {
        private static final AtomicLong WRITES = new AtomicLong();

        Drops(KeyValueStore<Bytes, byte[]> store) {
            super(store);
        }

        @Override
        public void put(Bytes key, byte[] value) {
            if (WRITES.incrementAndGet() % 1000 != 0) {
                store.put(key, value);
            }
        }
    }

    /** Commits an offset one commit before the data that it stands for. */
    private static final class OffsetFirst extends Mutant {
        private final Map<Bytes, Optional<byte[]>> held = new LinkedHashMap<>();

        OffsetFirst(KeyValueStore<Bytes, byte[]> store) {
            super(store);
        }

        @Override
        public byte[] get(Bytes key) {
            Optional<byte[]> newer = held.get(key);
            return newer == null ? store.get(key) : newer.orElse(null);
        }

        @Override
        public void put(Bytes key, byte[] value) {
            held.put(key, Optional.ofNullable(value));
        }

        @Override
        public void commit(Map<TopicPartition, Long> offsets) {
            store.commit(offsets);
            held.forEach((key, value) -> store.put(key, value.orElse(null)));
            held.clear();
        }

        @Override
        public void close() {
            held.clear();
            store.close();
        }
    }

    /** Keeps at a close what no commit has ended. */
    private static final class CloseKeeps extends Mutant {
        private Map<TopicPartition, Long> last = new HashMap<>();

        CloseKeeps(KeyValueStore<Bytes, byte[]> store) {
            super(store);
        }

        @Override
        public void commit(Map<TopicPartition, Long> offsets) {
            last = new HashMap<>(offsets);
            store.commit(offsets);
        }

        @Override
        public void close() {
            if (store.isOpen() && !last.isEmpty()) {
                store.commit(last);
            }
            store.close();
        }
    }

    @Override
    public String name() {
        return store.name();
    }

    @Override
    public void init(StateStoreContext context, StateStore root) {
        store.init(context, root);
    }

    @Override
    public void commit(Map<TopicPartition, Long> offsets) {
        store.commit(offsets);
    }

    @Override
    public Long committedOffset(TopicPartition partition) {
        return store.committedOffset(partition);
    }

    @Override
    @Deprecated
    public boolean managesOffsets() {
        return store.managesOffsets();
    }

    @Override
    public long approximateNumUncommittedBytes() {
        return store.approximateNumUncommittedBytes();
    }

    @Override
    public void close() {
        store.close();
    }

    @Override
    public boolean persistent() {
        return store.persistent();
    }

    @Override
    public boolean isOpen() {
        return store.isOpen();
    }

    @Override
    public Position getPosition() {
        return store.getPosition();
    }

    @Override
    public <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
        return store.query(query, bound, config);
    }

    @Override
    public byte[] get(Bytes key) {
        return store.get(key);
    }

    @Override
    public void put(Bytes key, byte[] value) {
        store.put(key, value);
    }

    @Override
    public byte[] putIfAbsent(Bytes key, byte[] value) {
        byte[] old = get(key);
        if (old == null) {
            put(key, value);
        }
        return old;
    }

    @Override
    public void putAll(List<KeyValue<Bytes, byte[]>> entries) {
        entries.forEach(entry -> put(entry.key, entry.value));
    }

    @Override
    public byte[] delete(Bytes key) {
        byte[] old = get(key);
        put(key, null);
        return old;
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
        return store.range(from, to);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> all() {
        return store.all();
    }

    @Override
    public long approximateNumEntries() {
        return store.approximateNumEntries();
    }
}
