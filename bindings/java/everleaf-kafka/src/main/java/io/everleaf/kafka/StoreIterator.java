package io.everleaf.kafka;

import io.everleaf.EverleafException;
import java.util.NoSuchElementException;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.state.KeyValueIterator;

/** An iterator of a store. It is closed with the store; then it says so. */
final class StoreIterator implements KeyValueIterator<Bytes, byte[]> {
    private final EverleafStore store;
    private final Walk walk;
    private KeyValue<Bytes, byte[]> ahead;

    StoreIterator(EverleafStore store, Walk walk) {
        this.store = store;
        this.walk = walk;
    }

    @Override
    public boolean hasNext() {
        if (walk.isClosed()) {
            throw new InvalidStateStoreException("Iterator of store " + store.name + " has closed");
        }
        try {
            if (ahead == null && walk.next()) {
                ahead = KeyValue.pair(Bytes.wrap(walk.key()), walk.value());
            }
        } catch (DamagedException damage) {
            throw store.damaged("iterating over", damage);
        } catch (EverleafException failure) {
            if (walk.isClosed()) {
                throw new InvalidStateStoreException("Iterator of store " + store.name + " has closed", failure);
            }
            throw new ProcessorStateException("Error while iterating over store " + store.name, failure);
        }
        return ahead != null;
    }

    @Override
    public KeyValue<Bytes, byte[]> next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        KeyValue<Bytes, byte[]> pair = ahead;
        ahead = null;
        return pair;
    }

    @Override
    public Bytes peekNextKey() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        return ahead.key;
    }

    @Override
    public void close() {
        store.forget(this);
        walk.close();
    }
}
