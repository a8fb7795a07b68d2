package io.everleaf.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests that Kafka's own for session stores leave out. A segment is a minute long, and the retention two. */
class SessionStoreTest {
    private static final TopicPartition LOG = new TopicPartition("application-s-changelog", 0);
    private static final long MINUTE = 60_000;

    @TempDir
    File folder;

    private Context context;
    private EverleafSessionStore store;

    @BeforeEach
    void begin() {
        context = new Context(folder);
        context.configs.put("enable.transactional.statestores", true);
        open();
    }

    @AfterEach
    void end() {
        store.close();
    }

    private void open() {
        store = (EverleafSessionStore)
                EverleafStores.persistentSessionStore("s", Duration.ofMinutes(2)).get();
        store.init(context, store);
    }

    private void reopen() {
        store.close();
        open();
    }

    private static Bytes k(String key) {
        return Bytes.wrap(key.getBytes(StandardCharsets.UTF_8));
    }

    private static Windowed<Bytes> session(String key, long start, long end) {
        return new Windowed<>(k(key), Internals.session(start, end));
    }

    private void put(String key, long start, long end, String value) {
        store.put(session(key, start, end), value == null ? null : value.getBytes(StandardCharsets.UTF_8));
    }

    private static List<String> all(KeyValueIterator<Windowed<Bytes>, byte[]> iterator) {
        List<String> all = new ArrayList<>();
        try (iterator) {
            while (iterator.hasNext()) {
                KeyValue<Windowed<Bytes>, byte[]> pair = iterator.next();
                all.add(pair.key.key() + "@" + pair.key.window().start() + "-" + pair.key.window().end() + "="
                        + new String(pair.value, StandardCharsets.UTF_8));
            }
        }
        return all;
    }

    private List<String> segments() {
        return store.pool.db.treeNames().stream().filter(name -> name.startsWith("segment-")).toList();
    }

    @Test
    void dataOffsetAndPositionAreOneEpoch() {
        context.record("input", 0, 7);
        put("a", 10, 20, "1");
        store.commit(Map.of(LOG, 5L));
        context.record("input", 0, 8);
        // A session grows: the old one goes.
        store.remove(session("a", 10, 20));
        put("a", 10, MINUTE, "2");
        assertEquals(List.of("a@10-60000=2"), all(store.fetch(k("a"))));
        reopen();
        assertEquals(List.of("a@10-20=1"), all(store.fetch(k("a"))));
        assertEquals(List.of("segment-0"), segments());
        assertEquals(5L, store.committedOffset(LOG));
        assertEquals(Position.emptyPosition().withComponent("input", 0, 7), store.getPosition());
    }

    @Test
    void sessionsExpireByTheirEnd() {
        put("a", 0, 10, "1");
        put("a", 0, 2 * MINUTE, "2");
        put("b", 9 * MINUTE, 9 * MINUTE, "3");
        assertEquals(List.of("b@540000-540000=3"), all(store.fetch(null, null)));
        // It has just expired, and closed: so Streams asks for it.
        assertEquals(List.of("a@0-10=1", "a@0-120000=2"), all(store.findSessions(0, 9 * MINUTE - 1)));
        put("a", 0, 7 * MINUTE, "late");
        put("a", 0, 7 * MINUTE + 1, "just");
        assertEquals(List.of("segment-7", "segment-9"), segments());
        assertEquals(List.of("a@0-420001=just", "b@540000-540000=3"), all(store.fetch(null, null)));
        assertEquals("just", new String(store.fetchSession(k("a"), 0, 7 * MINUTE + 1), StandardCharsets.UTF_8));
        store.commit(Map.of());
        reopen();
        put("c", 0, 7 * MINUTE, "late");
        assertEquals(List.of(), all(store.fetch(k("c"))));
        put("c", 0, 9 * MINUTE + 1, "4");
        assertNull(store.fetchSession(k("a"), 0, 7 * MINUTE + 1));
        assertEquals(List.of("c@0-540001=4"), all(store.findSessions(k("a"), k("c"), 9 * MINUTE + 1, MINUTE)));
    }

    @Test
    void sessionsAreFoundInBothDirections() {
        put("a", 10, 20, "1");
        put("a", 30, MINUTE + 40, "2");
        put("aa", 5, 60, "3");
        put("a", 70, 70, "gone");
        put("a", 70, 70, null);
        assertEquals(List.of("a@10-20=1", "a@30-60040=2"), all(store.findSessions(k("a"), 20, 30)));
        assertEquals(List.of("a@30-60040=2", "a@10-20=1"), all(store.backwardFindSessions(k("a"), 20, 30)));
        assertEquals(List.of("a@10-20=1"), all(store.findSessions(k("a"), 0, 29)));
        assertEquals(List.of("a@30-60040=2"), all(store.findSessions(k("a"), 21, 30)));
        assertEquals(List.of("a@10-20=1", "aa@5-60=3", "a@30-60040=2"), all(store.fetch(k("a"), k("b"))));
        assertEquals(List.of("a@30-60040=2", "aa@5-60=3", "a@10-20=1"), all(store.backwardFetch(null, k("b"))));
        assertEquals(List.of("aa@5-60=3"), all(store.backwardFindSessions(k("aa"), null, 0, 100)));
        assertEquals(List.of("aa@5-60=3"), all(store.findSessions(21, MINUTE + 39)));
        assertEquals(List.of("a@30-60040=2", "a@10-20=1"), all(store.backwardFetch(k("a"))));
        assertEquals(List.of(), all(store.fetch(k("b"), k("a"))));
        assertThrows(NullPointerException.class, () -> store.fetch((Bytes) null));
    }

    @Test
    void committedReadsSeeTheLastCommit() {
        ReadOnlySessionStore<Bytes, byte[]> committed = store.readOnly(IsolationLevel.READ_COMMITTED);
        assertSame(store, store.readOnly(IsolationLevel.READ_UNCOMMITTED));
        put("a", 10, 20, "1");
        assertThrows(InvalidStateStoreException.class, () -> committed.fetch(k("a")));
        store.commit(Map.of());
        put("b", 9 * MINUTE, 9 * MINUTE, "2");
        List<String> one = List.of("a@10-20=1");
        Instant zero = Instant.EPOCH;
        Instant end = Instant.ofEpochMilli(20);
        assertEquals(one, all(committed.fetch(k("a"))));
        assertEquals(one, all(committed.backwardFetch(k("a"))));
        assertEquals(one, all(committed.fetch(k("a"), k("c"))));
        assertEquals(one, all(committed.backwardFetch(k("a"), k("c"))));
        assertEquals(one, all(committed.findSessions(k("a"), zero, end)));
        assertEquals(one, all(committed.backwardFindSessions(k("a"), zero, end)));
        assertEquals(one, all(committed.findSessions(null, null, zero, end)));
        assertEquals(one, all(committed.backwardFindSessions(null, null, zero, end)));
        assertEquals(1, committed.fetchSession(k("a"), Instant.ofEpochMilli(10), end).length);
        assertThrows(IllegalArgumentException.class, () -> committed.fetchSession(k("a"), Instant.MIN, end));
        store.commit(Map.of());
        assertEquals(List.of("b@540000-540000=2"), all(committed.fetch(null, null)));
    }

    @Test
    void theChangelogIsRestored() {
        byte[] late = ByteBuffer.allocate(17).put((byte) 'a').putLong(20).putLong(10).array();
        byte[] old = ByteBuffer.allocate(17).put((byte) 'a').putLong(5 * MINUTE).putLong(30).array();
        byte[] last = ByteBuffer.allocate(17).put((byte) 'b').putLong(6 * MINUTE).putLong(30).array();
        byte[] value = {'1'};
        context.restore(List.of(KeyValue.pair(late, value), KeyValue.pair(old, value), KeyValue.pair(last, value)));
        assertEquals(List.of("a@30-300000=1", "b@30-360000=1"), all(store.fetch(null, null)));
        context.restore(List.of(KeyValue.pair(old, value), new KeyValue<>(old, null)));
        assertEquals(List.of("b@30-360000=1"), all(store.fetch(null, null)));
        assertEquals(List.of("segment-5", "segment-6"), segments());
    }

    @Test
    void iteratorsAreClosedWithTheStore() {
        put("a", 10, 20, "1");
        KeyValueIterator<Windowed<Bytes>, byte[]> left = store.fetch(k("a"));
        store.close();
        assertFalse(left.hasNext());
        assertThrows(InvalidStateStoreException.class, left::next);
        assertThrows(InvalidStateStoreException.class, () -> store.fetch(k("a")));
        assertThrows(InvalidStateStoreException.class, () -> put("a", 10, 20, "1"));
    }

    @Test
    void suppliersSayWhatTheyMake() {
        SessionBytesStoreSupplier plain = EverleafStores.persistentSessionStore("s", Duration.ofMinutes(6));
        SessionBytesStoreSupplier headed = EverleafStores.persistentSessionStoreWithHeaders("s", Duration.ofMillis(1));
        assertFalse(plain.get() instanceof HeadersBytesStore);
        assertTrue(headed.get() instanceof HeadersBytesStore);
        assertTrue(headed instanceof HeadersBytesStoreSupplier);
        assertEquals(3 * MINUTE, plain.segmentIntervalMs());
        assertEquals(MINUTE, headed.segmentIntervalMs());
        assertEquals(1, headed.retentionPeriod());
    }
}
