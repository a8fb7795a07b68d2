package io.everleaf.kafka;

import io.everleaf.Range;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** Reads of a window store as it is, or as the last commit has left it. */
abstract class WindowView implements ReadOnlyWindowStore<Bytes, byte[]> {
    private final EverleafWindowStore store;

    WindowView(EverleafWindowStore store) {
        this.store = store;
    }

    /** Reads the store as it is now. */
    abstract <T> T read(String what, Function<Moment, T> body);

    @Override
    public byte[] fetch(Bytes key, long time) {
        Objects.requireNonNull(key, "key cannot be null");
        return read("getting a window from", moment -> store.get(moment, time, store.lastKey(key.get(), time)));
    }

    WindowStoreIterator<byte[]> ofKey(Bytes key, long from, long to, boolean forward) {
        Objects.requireNonNull(key, "key cannot be null");
        int tail = store.tail();
        return store.keep(read("iterating over", moment -> {
            long first = Math.max(from, store.firstLive(moment));
            Range range = Range.all().from(store.lowest(key.get(), first)).upTo(store.highest(key.get(), to));
            List<Walk> walks = store.walks(moment, first, to, range, forward);
            return new SegmentIterator.OfWindow(store, walks, raw -> SegmentKey.first(raw, tail));
        }));
    }

    KeyValueIterator<Windowed<Bytes>, byte[]> ofKeys(Bytes least, Bytes most, long from, long to, boolean forward) {
        if (StoreView.isWrong(least, most)) {
            return StoreView.empty();
        }
        return store.keep(read("iterating over", moment -> {
            long first = Math.max(from, store.firstLive(moment));
            Range range = Range.all();
            range = least == null ? range : range.from(store.lowest(least.get(), first));
            range = most == null ? range : range.upTo(store.highest(most.get(), to));
            List<Walk> walks = store.walks(moment, first, to, range, forward);
            return new SegmentIterator<>(store, walks, raw -> store.windowOf(raw, first, to));
        }));
    }

    private static long milliseconds(Instant time, String name) {
        try {
            return Objects.requireNonNull(time, name + " cannot be null").toEpochMilli();
        } catch (ArithmeticException overflow) {
            throw new IllegalArgumentException(name + " is " + time + ", which has no number of milliseconds", overflow);
        }
    }

    @Override
    public WindowStoreIterator<byte[]> fetch(Bytes key, Instant from, Instant to) {
        return ofKey(key, milliseconds(from, "timeFrom"), milliseconds(to, "timeTo"), true);
    }

    @Override
    public WindowStoreIterator<byte[]> backwardFetch(Bytes key, Instant from, Instant to) {
        return ofKey(key, milliseconds(from, "timeFrom"), milliseconds(to, "timeTo"), false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes least, Bytes most, Instant from, Instant to) {
        return ofKeys(least, most, milliseconds(from, "timeFrom"), milliseconds(to, "timeTo"), true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes least, Bytes most, Instant from, Instant to) {
        return ofKeys(least, most, milliseconds(from, "timeFrom"), milliseconds(to, "timeTo"), false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> all() {
        return ofKeys(null, null, Long.MIN_VALUE, Long.MAX_VALUE, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardAll() {
        return ofKeys(null, null, Long.MIN_VALUE, Long.MAX_VALUE, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetchAll(Instant from, Instant to) {
        return ofKeys(null, null, milliseconds(from, "timeFrom"), milliseconds(to, "timeTo"), true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetchAll(Instant from, Instant to) {
        return ofKeys(null, null, milliseconds(from, "timeFrom"), milliseconds(to, "timeTo"), false);
    }
}
