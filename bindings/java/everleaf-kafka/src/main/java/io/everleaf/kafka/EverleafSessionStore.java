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
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.SessionStore;

/** A store of sessions. A session belongs to the segment in which it ends. */
class EverleafSessionStore extends SegmentedStore implements SessionStore<Bytes, byte[]> {
    /** Behind the key of the record: the end and the start, in the changelog as in a tree. */
    private static final int TAIL = 2 * Long.BYTES;

    /** Has Streams know that values begin with headers. */
    static final class WithHeaders extends EverleafSessionStore implements HeadersBytesStore {
        WithHeaders(EverleafStores.Sessions sessions) {
            super(sessions);
        }
    }

    EverleafSessionStore(EverleafStores.Sessions sessions) {
        super(
                sessions.name(),
                new Layout(Layout.Kind.SESSIONS, sessions.format(), false, sessions.segmentIntervalMs()),
                sessions.retentionPeriod());
    }

    @Override
    long timeOf(byte[] logged) {
        return ByteBuffer.wrap(logged).getLong(logged.length - TAIL);
    }

    @Override
    byte[] keyOf(byte[] logged) {
        long start = ByteBuffer.wrap(logged).getLong(logged.length - Long.BYTES);
        return SegmentKey.session(Arrays.copyOf(logged, logged.length - TAIL), timeOf(logged), start);
    }

    /** The session of a key in a tree, or null if it is at another time. */
    static Windowed<Bytes> sessionOf(byte[] raw, long earliestEnd, long latestEnd, long latestStart) {
        long end = SegmentKey.first(raw, TAIL);
        long start = SegmentKey.second(raw);
        if (end < earliestEnd || end > latestEnd || start > latestStart) {
            return null;
        }
        return new Windowed<>(Bytes.wrap(SegmentKey.key(raw, TAIL)), Internals.session(start, end));
    }

    @Override
    public void put(Windowed<Bytes> session, byte[] value) {
        Objects.requireNonNull(session, "sessionKey cannot be null");
        write("putting a session into", () -> {
            long end = session.window().end();
            set(end, SegmentKey.session(session.key().get(), end, session.window().start()), value);
            updatePosition();
            return null;
        });
    }

    @Override
    public void remove(Windowed<Bytes> session) {
        put(session, null);
    }

    @Override
    public byte[] fetchSession(Bytes key, long start, long end) {
        return current.fetchSession(key, start, end);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(long earliestEnd, long latestEnd) {
        return current.endingBetween(earliestEnd, latestEnd);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes key, long earliestEnd, long latestStart) {
        return current.findSessions(key, earliestEnd, latestStart);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes key, long earliestEnd, long latestStart) {
        return current.backwardFindSessions(key, earliestEnd, latestStart);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(
            Bytes least, Bytes most, long earliestEnd, long latestStart) {
        return current.findSessions(least, most, earliestEnd, latestStart);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes least, Bytes most, long earliestEnd, long latestStart) {
        return current.backwardFindSessions(least, most, earliestEnd, latestStart);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes key) {
        return current.fetch(key);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes key) {
        return current.backwardFetch(key);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes least, Bytes most) {
        return current.fetch(least, most);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes least, Bytes most) {
        return current.backwardFetch(least, most);
    }

    /** The store as the last commit has left it, or as it is. */
    public ReadOnlySessionStore<Bytes, byte[]> readOnly(IsolationLevel level) {
        Objects.requireNonNull(level, "isolation level cannot be null");
        return isCommitted(level) ? committed : this;
    }

    private final SessionView current = new SessionView(this) {
        @Override
        <T> T read(String what, Function<Moment, T> body) {
            return EverleafSessionStore.this.read(what, body);
        }
    };

    private final SessionView committed = new SessionView(this) {
        @Override
        <T> T read(String what, Function<Moment, T> body) {
            return readCommitted(what, body);
        }
    };
}
