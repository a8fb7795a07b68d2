package org.apache.kafka.streams.state.internals;

import io.everleaf.kafka.EverleafStores;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** The tests that Kafka has for window stores. They are in this package because the method that makes a store is. */
public class WindowSuiteTest extends AbstractWindowBytesStoreTest {
    /** Some tests have two stores in one folder, which needs two names. */
    private int made;

    @Override
    <K, V> WindowStore<K, V> buildWindowStore(
            long retention, long size, boolean retainDuplicates, Serde<K> keys, Serde<V> values) {
        return Stores.windowStoreBuilder(
                        EverleafStores.persistentWindowStore(
                                "window-store-" + made++, Duration.ofMillis(retention), Duration.ofMillis(size), retainDuplicates),
                        keys,
                        values)
                .build();
    }
}
