package io.everleaf.kafka;

import io.everleaf.EverleafException;
import io.everleaf.NoTreeException;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * An iterator over segments, one after the other. It is closed with the store: it has nothing then, and says so by an exception to
 * a caller that asks for more. A segment that expires meanwhile ends.
 */
class SegmentIterator<K> implements org.apache.kafka.streams.state.KeyValueIterator<K, byte[]> {
    private final EverleafStore store;
    private final List<Walk> walks;
    /** Makes a key of what a tree has, or null to pass it over. */
    private final Function<byte[], K> keys;

    private int at;
    private KeyValue<K, byte[]> ahead;
    private volatile boolean isClosed;

    SegmentIterator(EverleafStore store, List<Walk> walks, Function<byte[], K> keys) {
        this.store = store;
        this.walks = walks;
        this.keys = keys;
    }

    /** An iterator over the windows of one key. */
    static final class OfWindow extends SegmentIterator<Long> implements WindowStoreIterator<byte[]> {
        OfWindow(EverleafStore store, List<Walk> walks, Function<byte[], Long> keys) {
            super(store, walks, keys);
        }
    }

    @Override
    public boolean hasNext() {
        if (isClosed) {
            return false;
        }
        while (ahead == null && at < walks.size()) {
            Walk walk = walks.get(at);
            try {
                if (walk.next()) {
                    K key = keys.apply(walk.key());
                    ahead = key == null ? null : KeyValue.pair(key, walk.value());
                } else {
                    at++;
                }
            } catch (NoTreeException expired) {
                at++;
            } catch (DamagedException damage) {
                throw store.damaged("iterating over", damage);
            } catch (EverleafException | IllegalStateException failure) {
                if (isClosed) {
                    return false;
                }
                throw new ProcessorStateException("Error while iterating over store " + store.name, failure);
            }
        }
        return ahead != null;
    }

    private KeyValue<K, byte[]> expect() {
        if (hasNext()) {
            return ahead;
        }
        if (isClosed) {
            throw new InvalidStateStoreException("Iterator of store " + store.name + " has closed");
        }
        throw new NoSuchElementException();
    }

    @Override
    public KeyValue<K, byte[]> next() {
        KeyValue<K, byte[]> pair = expect();
        ahead = null;
        return pair;
    }

    @Override
    public K peekNextKey() {
        return expect().key;
    }

    @Override
    public void close() {
        isClosed = true;
        store.forget(this);
        walks.forEach(Walk::close);
    }
}
