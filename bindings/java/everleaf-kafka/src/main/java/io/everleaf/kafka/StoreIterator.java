package io.everleaf.kafka;

import io.everleaf.EverleafException;
import io.everleaf.Scan;
import java.util.NoSuchElementException;
import java.util.Set;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.state.KeyValueIterator;

/** An iterator of a store. It is closed with the store; then it says so. */
final class StoreIterator implements KeyValueIterator<Bytes, byte[]> {
    private final String store;
    private final Scan scan;
    private final Set<StoreIterator> others;
    private KeyValue<Bytes, byte[]> ahead;

    StoreIterator(String store, Scan scan, Set<StoreIterator> others) {
        this.store = store;
        this.scan = scan;
        this.others = others;
    }

    @Override
    public boolean hasNext() {
        if (scan.isClosed()) {
            throw new InvalidStateStoreException("Iterator of store " + store + " has closed");
        }
        try {
            if (ahead == null && scan.next()) {
                ahead = KeyValue.pair(Bytes.wrap(scan.key()), scan.value());
            }
        } catch (EverleafException failure) {
            if (scan.isClosed()) {
                throw new InvalidStateStoreException("Iterator of store " + store + " has closed", failure);
            }
            throw new ProcessorStateException("Error while iterating over store " + store, failure);
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
        others.remove(this);
        scan.close();
    }
}
