package io.everleaf.kafka;

import io.everleaf.EverleafException;
import io.everleaf.Scan;
import java.util.NoSuchElementException;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.state.KeyValueIterator;

/** An iterator of a store. It is closed with the store; then it says so. */
final class StoreIterator implements KeyValueIterator<Bytes, byte[]> {
    private final EverleafStore store;
    private final Scan scan;
    private KeyValue<Bytes, byte[]> ahead;

    StoreIterator(EverleafStore store, Scan scan) {
        this.store = store;
        this.scan = scan;
    }

    @Override
    public boolean hasNext() {
        if (scan.isClosed()) {
            throw new InvalidStateStoreException("Iterator of store " + store.name + " has closed");
        }
        try {
            if (ahead == null && scan.next()) {
                ahead = KeyValue.pair(Bytes.wrap(scan.key()), scan.value());
            }
        } catch (EverleafException failure) {
            if (scan.isClosed()) {
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
        scan.close();
    }
}
