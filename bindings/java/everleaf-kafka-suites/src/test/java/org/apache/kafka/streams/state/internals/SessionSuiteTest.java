package org.apache.kafka.streams.state.internals;

import io.everleaf.kafka.EverleafStores;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.junit.jupiter.api.Test;

/** The tests that Kafka has for session stores. */
public class SessionSuiteTest extends AbstractSessionBytesStoreTest {
    /** Some tests have two stores in one folder, which needs two names. */
    private int made;

    @Override
    <K, V> SessionStore<K, V> buildSessionStore(long retention, Serde<K> keys, Serde<V> values) {
        return Stores.sessionStoreBuilder(
                        EverleafStores.persistentSessionStore("session-store-" + made++, Duration.ofMillis(retention)),
                        keys,
                        values)
                .build();
    }

    /** The kind that finds sessions by time alone, as this store does. */
    @Override
    StoreType storeType() {
        return StoreType.InMemoryStore;
    }

    /**
     * It reads and restores a store that it has closed, which the stores of RocksDB and of the heap take for an empty one. This one
     * is opened again at each close: it is empty because nothing was committed.
     */
    @Override
    @Test
    @SuppressWarnings("unchecked")
    public void shouldRestore() {
        SessionStore<String, Long> store = sessionStore;
        sessionStore = (SessionStore<String, Long>) Proxy.newProxyInstance(
                getClass().getClassLoader(), new Class<?>[] {SessionStore.class}, (proxy, method, arguments) -> {
                    try {
                        Object answer = method.invoke(store, arguments);
                        if (method.getName().equals("close")) {
                            store.init((StateStoreContext) context, store);
                        }
                        return answer;
                    } catch (InvocationTargetException failure) {
                        throw failure.getCause();
                    }
                });
        super.shouldRestore();
        sessionStore = store;
    }
}
