package io.everleaf.kafka;

import java.time.Duration;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.state.DslKeyValueParams;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * The stores of tables, aggregates and joins that a topology does not name itself: the class for the setting {@code
 * dsl.store.suppliers.class}. Versioned tables have a supplier of their own in the topology.
 */
public class EverleafDslStoreSuppliers implements DslStoreSuppliers {
    /** For the setting, which needs a class that anybody can make. */
    public EverleafDslStoreSuppliers() {}

    @Override
    public KeyValueBytesStoreSupplier keyValueStore(DslKeyValueParams parameters) {
        String name = parameters.name();
        return switch (parameters.dslStoreFormat()) {
            case PLAIN -> EverleafStores.persistentKeyValueStore(name);
            case TIMESTAMPED -> EverleafStores.persistentTimestampedKeyValueStore(name);
            case HEADERS -> EverleafStores.persistentTimestampedKeyValueStoreWithHeaders(name);
        };
    }

    @Override
    public WindowBytesStoreSupplier windowStore(DslWindowParams parameters) {
        String name = parameters.name();
        Duration retention = parameters.retentionPeriod();
        Duration size = parameters.windowSize();
        boolean duplicates = parameters.retainDuplicates();
        DslStoreFormat format = parameters.dslStoreFormat();
        // Streams may leave the choice to the store.
        return switch (format == null ? DslStoreFormat.TIMESTAMPED : format) {
            case PLAIN -> EverleafStores.persistentWindowStore(name, retention, size, duplicates);
            case TIMESTAMPED -> EverleafStores.persistentTimestampedWindowStore(name, retention, size, duplicates);
            case HEADERS -> EverleafStores.persistentTimestampedWindowStoreWithHeaders(name, retention, size, duplicates);
        };
    }

    @Override
    public SessionBytesStoreSupplier sessionStore(DslSessionParams parameters) {
        return parameters.storeFormat() == DslStoreFormat.HEADERS
                ? EverleafStores.persistentSessionStoreWithHeaders(parameters.name(), parameters.retentionPeriod())
                : EverleafStores.persistentSessionStore(parameters.name(), parameters.retentionPeriod());
    }
}
