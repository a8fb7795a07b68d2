package io.everleaf.kafka.bench;

import io.everleaf.kafka.EverleafStores;
import java.io.File;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.MockProcessorContext;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** The two stores. Both are as Streams makes them by default. */
enum Kind {
    EVERLEAF,
    ROCKSDB;

    /** Makes a store, or opens it again, in a folder of a task. */
    KeyValueStore<Bytes, byte[]> open(String name, File folder, Map<String, String> settings) {
        KeyValueBytesStoreSupplier supplier = this == EVERLEAF
                ? EverleafStores.persistentKeyValueStore(name)
                : Stores.persistentKeyValueStore(name);
        Properties properties = new Properties();
        properties.put("application.id", "bench");
        properties.put("bootstrap.servers", "nowhere:9092");
        properties.putAll(settings);
        KeyValueStore<Bytes, byte[]> store = supplier.get();
        var context = new MockProcessorContext<Bytes, byte[]>(properties, new TaskId(0, 0), folder);
        store.init(context.getStateStoreContext(), store);
        return store;
    }
}
