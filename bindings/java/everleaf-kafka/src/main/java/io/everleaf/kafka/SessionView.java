package io.everleaf.kafka;

import io.everleaf.Range;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlySessionStore;

/** Reads of a session store as it is, or as the last commit has left it. */
abstract class SessionView implements ReadOnlySessionStore<Bytes, byte[]> {
    private final EverleafSessionStore store;

    SessionView(EverleafSessionStore store) {
        this.store = store;
    }

    /** Reads the store as it is now. */
    abstract <T> T read(String what, Function<Moment, T> body);

    /** The sessions of a range of keys that end at a time or later, and begin at another one or before. */
    private KeyValueIterator<Windowed<Bytes>, byte[]> find(
            Bytes least, Bytes most, long earliestEnd, long latestStart, boolean forward) {
        if (StoreView.isWrong(least, most)) {
            return StoreView.empty();
        }
        return store.keep(read("iterating over", moment -> {
            long first = Math.max(earliestEnd, store.firstLive(moment));
            Range range = Range.all();
            range = least == null ? range : range.from(SegmentKey.session(least.get(), first, Long.MIN_VALUE));
            range = most == null ? range : range.upTo(SegmentKey.session(most.get(), Long.MAX_VALUE, Long.MAX_VALUE));
            List<Walk> walks = store.walks(moment, first, Long.MAX_VALUE, range, forward);
            return new SegmentIterator<>(
                    store, walks, raw -> EverleafSessionStore.sessionOf(raw, first, Long.MAX_VALUE, latestStart));
        }));
    }

    /**
     * The sessions of all keys that end from one time to another one. Those that have just expired are among them: Streams asks so
     * for sessions that have closed, which is when they expire.
     */
    KeyValueIterator<Windowed<Bytes>, byte[]> endingBetween(long earliestEnd, long latestEnd) {
        return store.keep(read("iterating over", moment -> {
            List<Walk> walks = store.walks(moment, earliestEnd, latestEnd, Range.all(), true);
            return new SegmentIterator<>(
                    store, walks, raw -> EverleafSessionStore.sessionOf(raw, earliestEnd, latestEnd, Long.MAX_VALUE));
        }));
    }

    private static Bytes notNull(Bytes key) {
        return Objects.requireNonNull(key, "key cannot be null");
    }

    private static long milliseconds(Instant time) {
        try {
            return Objects.requireNonNull(time, "time cannot be null").toEpochMilli();
        } catch (ArithmeticException overflow) {
            throw new IllegalArgumentException(time + " has no number of milliseconds", overflow);
        }
    }

    @Override
    public byte[] fetchSession(Bytes key, long start, long end) {
        notNull(key);
        return read(
                "getting a session from",
                moment -> store.get(moment, end, SegmentKey.session(key.get(), end, start)));
    }

    @Override
    public byte[] fetchSession(Bytes key, Instant start, Instant end) {
        return fetchSession(key, milliseconds(start), milliseconds(end));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes key, long earliestEnd, long latestStart) {
        return find(notNull(key), key, earliestEnd, latestStart, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes key, Instant earliestEnd, Instant latestStart) {
        return findSessions(key, milliseconds(earliestEnd), milliseconds(latestStart));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes key, long earliestEnd, long latestStart) {
        return find(notNull(key), key, earliestEnd, latestStart, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes key, Instant earliestEnd, Instant latestStart) {
        return backwardFindSessions(key, milliseconds(earliestEnd), milliseconds(latestStart));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(
            Bytes least, Bytes most, long earliestEnd, long latestStart) {
        return find(least, most, earliestEnd, latestStart, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(
            Bytes least, Bytes most, Instant earliestEnd, Instant latestStart) {
        return findSessions(least, most, milliseconds(earliestEnd), milliseconds(latestStart));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes least, Bytes most, long earliestEnd, long latestStart) {
        return find(least, most, earliestEnd, latestStart, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes least, Bytes most, Instant earliestEnd, Instant latestStart) {
        return backwardFindSessions(least, most, milliseconds(earliestEnd), milliseconds(latestStart));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes key) {
        return find(notNull(key), key, Long.MIN_VALUE, Long.MAX_VALUE, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes key) {
        return find(notNull(key), key, Long.MIN_VALUE, Long.MAX_VALUE, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes least, Bytes most) {
        return find(least, most, Long.MIN_VALUE, Long.MAX_VALUE, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes least, Bytes most) {
        return find(least, most, Long.MIN_VALUE, Long.MAX_VALUE, false);
    }
}
