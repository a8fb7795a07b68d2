package io.everleaf.kafka;

import io.everleaf.Range;
import io.everleaf.ReadTree;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Reads of one tree: that of the store, or the one that the last commit has left. */
abstract class StoreView implements ReadOnlyKeyValueStore<Bytes, byte[]> {
    private static final Logger LOG = LoggerFactory.getLogger(EverleafStores.class);

    private final EverleafStore store;

    StoreView(EverleafStore store) {
        this.store = store;
    }

    /** Reads the tree that it is of now. */
    abstract <T> T read(String what, Function<ReadTree, T> body);

    /** An iterator that is closed with the store. */
    private KeyValueIterator<Bytes, byte[]> iterate(Range range) {
        return store.keep(new StoreIterator(store, read("iterating over", tree -> new Walk(tree, range))));
    }

    @Override
    public byte[] get(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        return read("getting a key from", tree -> DamagedException.at(tree, key.get(), () -> tree.get(key.get())));
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
        return between(from, to, false);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
        return between(from, to, true);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> all() {
        return between(null, null, false);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseAll() {
        return between(null, null, true);
    }

    @Override
    public <PS extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(P prefix, PS serializer) {
        Objects.requireNonNull(prefix, "prefix cannot be null");
        Objects.requireNonNull(serializer, "prefixKeySerializer cannot be null");
        return iterate(Range.prefix(serializer.serialize(null, prefix)));
    }

    @Override
    public long approximateNumEntries() {
        return read("counting", ReadTree::size);
    }

    /** Both bounds are part of it, and null stands for none. */
    private KeyValueIterator<Bytes, byte[]> between(Bytes from, Bytes to, boolean reverse) {
        if (isWrong(from, to)) {
            return empty();
        }
        Range range = Range.all();
        range = from == null ? range : range.from(from.get());
        range = to == null ? range : range.upTo(to.get());
        return iterate(reverse ? range.reversed() : range);
    }

    /** Whether a range has its bounds in the wrong order; says so in the log, and in the words of the other stores. */
    static boolean isWrong(Bytes from, Bytes to) {
        boolean isWrong = from != null && to != null && from.compareTo(to) > 0;
        if (isWrong) {
            LOG.warn("Returning empty iterator for fetch with invalid key range: from > to. "
                    + "This may be due to range arguments set in the wrong order, "
                    + "or serdes that don't preserve ordering when lexicographically comparing the serialized bytes. "
                    + "Note that the built-in numerical serdes do not follow this for negative numbers");
        }
        return isWrong;
    }

    /** An iterator over nothing. */
    static <K> KeyValueIterator<K, byte[]> empty() {
        return new Empty<>();
    }

    private static final class Empty<K> implements KeyValueIterator<K, byte[]> {
        @Override
        public boolean hasNext() {
            return false;
        }

        @Override
        public KeyValue<K, byte[]> next() {
            throw new NoSuchElementException();
        }

        @Override
        public K peekNextKey() {
            throw new NoSuchElementException();
        }

        @Override
        public void close() {}
    }
}
