package io.everleaf.kafka;

import java.util.Objects;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * State stores of Kafka Streams on Everleaf, as {@link org.apache.kafka.streams.state.Stores} has them on RocksDB.
 *
 * <p>Each store has a pool of its own in the folder of its task. Its data, the changelog's offset and its position are one epoch,
 * which ends with the commit of the task and never before: after a crash the store is exactly as some commit has left it.
 *
 * <p>The setting {@value #MEMORY_CONFIG} of the application says how many bytes of memory each store may take.
 */
public final class EverleafStores {
    /** The setting for the most bytes of memory of a store, outside of the heap. Default: 64 MiB. */
    public static final String MEMORY_CONFIG = "everleaf.store.memory.bytes";

    private EverleafStores() {}

    /** A store of keys and values. */
    public static KeyValueBytesStoreSupplier persistentKeyValueStore(String name) {
        return new Supplier(Objects.requireNonNull(name, "name cannot be null"), false);
    }

    /** A store of keys and values with timestamps, such as a table of the DSL has. */
    public static KeyValueBytesStoreSupplier persistentTimestampedKeyValueStore(String name) {
        return new Supplier(Objects.requireNonNull(name, "name cannot be null"), true);
    }

    private record Supplier(String name, boolean isTimestamped) implements KeyValueBytesStoreSupplier {
        @Override
        public KeyValueStore<Bytes, byte[]> get() {
            return isTimestamped ? new EverleafKeyValueStore.Timestamped(name) : new EverleafKeyValueStore(name);
        }

        @Override
        public String metricsScope() {
            return "everleaf";
        }
    }
}
