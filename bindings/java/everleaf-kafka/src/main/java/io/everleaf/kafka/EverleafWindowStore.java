package io.everleaf.kafka;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;
import java.util.function.Function;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** A store of windows, by the key of the record and the time at which the window begins. */
class EverleafWindowStore extends SegmentedStore implements WindowStore<Bytes, byte[]> {
    /** Behind the key of a record in the changelog: the time, and the number among duplicates. */
    private static final int LOGGED_TAIL = Long.BYTES + Integer.BYTES;

    /** Has Streams know that values begin with a timestamp. */
    static final class Timestamped extends EverleafWindowStore implements TimestampedBytesStore {
        Timestamped(EverleafStores.Windows windows) {
            super(windows);
        }
    }

    /** Has Streams know that values begin with headers, and then a timestamp. */
    static final class WithHeaders extends EverleafWindowStore implements TimestampedBytesStore, HeadersBytesStore {
        WithHeaders(EverleafStores.Windows windows) {
            super(windows);
        }
    }

    private final long size;
    private final boolean retainsDuplicates;
    /** The number of the last duplicate. It begins with each open, as the one in the changelog does. */
    private int number;

    EverleafWindowStore(EverleafStores.Windows windows) {
        super(
                windows.name(),
                new Layout(
                        Layout.Kind.WINDOWS, windows.format(), windows.retainDuplicates(), windows.segmentIntervalMs()),
                windows.retentionPeriod());
        size = windows.windowSize();
        retainsDuplicates = windows.retainDuplicates();
    }

    @Override
    void opened() {
        super.opened();
        number = 0;
    }

    @Override
    long timeOf(byte[] logged) {
        return ByteBuffer.wrap(logged).getLong(logged.length - LOGGED_TAIL);
    }

    @Override
    byte[] keyOf(byte[] logged) {
        byte[] key = Arrays.copyOf(logged, logged.length - LOGGED_TAIL);
        int duplicate = ByteBuffer.wrap(logged).getInt(logged.length - Integer.BYTES);
        return retainsDuplicates
                ? SegmentKey.duplicate(key, timeOf(logged), duplicate)
                : SegmentKey.window(key, timeOf(logged));
    }

    /** Bytes behind the key in a tree. */
    int tail() {
        return retainsDuplicates ? LOGGED_TAIL : Long.BYTES;
    }

    byte[] lowest(byte[] key, long start) {
        return SegmentKey.window(key, start);
    }

    byte[] highest(byte[] key, long start) {
        return retainsDuplicates ? SegmentKey.duplicate(key, start, -1) : SegmentKey.window(key, start);
    }

    /** The key of a window, or of the duplicate that was put last. */
    byte[] lastKey(byte[] key, long start) {
        return retainsDuplicates ? SegmentKey.duplicate(key, start, number) : SegmentKey.window(key, start);
    }

    /** The window of a key in a tree, or null if it is at another time. */
    Windowed<Bytes> windowOf(byte[] raw, long from, long to) {
        long start = SegmentKey.first(raw, tail());
        if (start < from || start > to) {
            return null;
        }
        return new Windowed<>(Bytes.wrap(SegmentKey.key(raw, tail())), Internals.window(start, size));
    }

    /** A null value removes the window; where duplicates are kept, it does nothing. */
    @Override
    public void put(Bytes key, byte[] value, long start) {
        Objects.requireNonNull(key, "key cannot be null");
        write("putting a window into", () -> {
            if (value != null || !retainsDuplicates) {
                if (retainsDuplicates) {
                    number = (number + 1) & Integer.MAX_VALUE;
                }
                set(start, lastKey(key.get(), start), value);
            }
            updatePosition();
            return null;
        });
    }

    @Override
    public byte[] fetch(Bytes key, long time) {
        return current.fetch(key, time);
    }

    @Override
    public WindowStoreIterator<byte[]> fetch(Bytes key, long from, long to) {
        return current.ofKey(key, from, to, true);
    }

    @Override
    public WindowStoreIterator<byte[]> backwardFetch(Bytes key, long from, long to) {
        return current.ofKey(key, from, to, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes least, Bytes most, long from, long to) {
        return current.ofKeys(least, most, from, to, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes least, Bytes most, long from, long to) {
        return current.ofKeys(least, most, from, to, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> all() {
        return current.all();
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardAll() {
        return current.backwardAll();
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetchAll(long from, long to) {
        return current.ofKeys(null, null, from, to, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetchAll(long from, long to) {
        return current.ofKeys(null, null, from, to, false);
    }

    /** The store as the last commit has left it, or as it is. */
    public ReadOnlyWindowStore<Bytes, byte[]> readOnly(IsolationLevel level) {
        Objects.requireNonNull(level, "isolation level cannot be null");
        return isCommitted(level) ? committed : this;
    }

    private final WindowView current = new WindowView(this) {
        @Override
        <T> T read(String what, Function<Moment, T> body) {
            return EverleafWindowStore.this.read(what, body);
        }
    };

    private final WindowView committed = new WindowView(this) {
        @Override
        <T> T read(String what, Function<Moment, T> body) {
            return readCommitted(what, body);
        }
    };
}
