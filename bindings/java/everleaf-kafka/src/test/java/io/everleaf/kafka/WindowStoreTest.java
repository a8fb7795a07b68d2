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
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests that Kafka's own for window stores leave out. A segment is a minute long, and the retention two. */
class WindowStoreTest {
    private static final TopicPartition LOG = new TopicPartition("application-w-changelog", 0);
    private static final long MINUTE = 60_000;

    @TempDir
    File folder;

    private Context context;
    private EverleafWindowStore store;

    @BeforeEach
    void begin() {
        context = new Context(folder);
        context.configs.put("enable.transactional.statestores", true);
        open(false);
    }

    @AfterEach
    void end() {
        store.close();
    }

    private void open(boolean retainDuplicates) {
        open(supplier(2 * MINUTE, retainDuplicates));
    }

    private void open(WindowBytesStoreSupplier supplier) {
        store = (EverleafWindowStore) supplier.get();
        store.init(context, store);
    }

    private static WindowBytesStoreSupplier supplier(long retention, boolean retainDuplicates) {
        return EverleafStores.persistentWindowStore(
                "w", Duration.ofMillis(retention), Duration.ofMillis(1_000), retainDuplicates);
    }

    private void reopen() {
        store.close();
        open(false);
    }

    private static Bytes k(String key) {
        return Bytes.wrap(key.getBytes(StandardCharsets.UTF_8));
    }

    private void put(String key, String value, long time) {
        store.put(k(key), value == null ? null : value.getBytes(StandardCharsets.UTF_8), time);
    }

    private static String s(byte[] value) {
        return value == null ? null : new String(value, StandardCharsets.UTF_8);
    }

    private static List<String> all(KeyValueIterator<Windowed<Bytes>, byte[]> iterator) {
        List<String> all = new ArrayList<>();
        try (iterator) {
            while (iterator.hasNext()) {
                Windowed<Bytes> peeked = iterator.peekNextKey();
                KeyValue<Windowed<Bytes>, byte[]> pair = iterator.next();
                assertEquals(peeked, pair.key);
                all.add(pair.key.key() + "@" + pair.key.window().start() + "=" + s(pair.value));
            }
        }
        return all;
    }

    private static List<String> values(KeyValueIterator<Long, byte[]> iterator) {
        List<String> all = new ArrayList<>();
        try (iterator) {
            while (iterator.hasNext()) {
                KeyValue<Long, byte[]> pair = iterator.next();
                all.add(pair.key + "=" + s(pair.value));
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
        put("a", "1", 10);
        store.commit(Map.of(LOG, 5L));
        context.record("input", 0, 8);
        put("a", "2", 10);
        put("b", "2", MINUTE);
        reopen();
        assertEquals(List.of("a@10=1"), all(store.all()));
        assertEquals(List.of("segment-0"), segments());
        assertEquals(5L, store.committedOffset(LOG));
        assertEquals(Position.emptyPosition().withComponent("input", 0, 7), store.getPosition());
    }

    @Test
    void expiryDropsTreesAndACloseBringsThemBack() {
        put("a", "1", 10);
        put("a", "2", MINUTE);
        put("a", "3", 2 * MINUTE);
        assertEquals(List.of("segment-0", "segment-1", "segment-2"), segments());
        store.commit(Map.of(LOG, 1L));
        put("a", "4", 5 * MINUTE);
        assertEquals(List.of("a@300000=4"), all(store.all()));
        // Trees go with the write after the one by which they expire.
        assertEquals(4, segments().size());
        put("b", null, 5 * MINUTE);
        assertEquals(List.of("segment-5"), segments());
        reopen();
        assertEquals(List.of("segment-0", "segment-1", "segment-2"), segments());
        // That of the first record has expired to reads, not to the trees.
        put("a", "5", 2 * MINUTE + 10);
        assertEquals(List.of("a@60000=2", "a@120000=3", "a@120010=5"), all(store.all()));
        put("a", "4", 5 * MINUTE);
        put("b", null, 5 * MINUTE);
        store.commit(Map.of(LOG, 2L));
        reopen();
        assertEquals(List.of("segment-5"), segments());
        assertEquals(List.of("a@300000=4"), all(store.all()));
    }

    @Test
    void recordsThatAreTooLateAreNotKept() {
        put("a", "now", 10 * MINUTE);
        put("a", "late", 8 * MINUTE);
        put("a", "just", 8 * MINUTE + 1);
        put("a", null, 3 * MINUTE);
        assertEquals(List.of("a@480001=just", "a@600000=now"), all(store.all()));
        assertNull(store.fetch(k("a"), 8 * MINUTE));
        assertEquals("just", s(store.fetch(k("a"), 8 * MINUTE + 1)));
        assertEquals(List.of(), values(store.fetch(k("a"), 0, 8 * MINUTE)));
        store.commit(Map.of(LOG, 1L));
        reopen();
        // The time of the latest record outlives a restart.
        put("b", "late", 8 * MINUTE);
        put("b", "just", 8 * MINUTE + 1);
        assertEquals(List.of("b@480001=just"), all(store.fetch(k("b"), k("b"), 0, 20 * MINUTE)));
        put("c", "1", 10 * MINUTE + 1);
        assertNull(store.fetch(k("b"), 8 * MINUTE + 1));
        assertEquals(List.of(), values(store.fetch(k("b"), 0, 8 * MINUTE + 1)));
    }

    @Test
    void recordsOutOfOrderAreFoundInOrderInBothDirections() {
        for (long time : List.of(100L, 70_000L, 50L, 69_000L, 110_000L)) {
            put("a", "" + time, time);
            put("aa", "" + time, time);
        }
        put("a", null, 69_000);
        assertEquals(List.of("50=50", "100=100", "70000=70000"), values(store.fetch(k("a"), 0, 70_000)));
        assertEquals(List.of("70000=70000", "100=100", "50=50"), values(store.backwardFetch(k("a"), 0, 70_000)));
        List<String> both = List.of("a@70000=70000", "aa@69000=69000", "aa@70000=70000");
        assertEquals(both, all(store.fetch(k("a"), k("aa"), 101, 70_000)));
        assertEquals(both, all(store.fetch(null, null, 101, 70_000)));
        List<String> back = new ArrayList<>(both);
        java.util.Collections.reverse(back);
        assertEquals(back, all(store.backwardFetch(k("a"), k("aa"), 101, 70_000)));
        assertEquals(back, all(store.backwardFetch(null, k("b"), 101, 70_000)));
        assertEquals(back, all(store.backwardFetchAll(101, 70_000)));
        assertEquals(List.of("aa@69000=69000", "aa@70000=70000"), all(store.fetch(k("aa"), null, 101, 70_000)));
        assertEquals(9, all(store.backwardAll()).size());
        assertEquals(both, all(store.fetchAll(101, 70_000)));
        assertEquals(List.of(), all(store.fetch(k("b"), k("a"), 0, 70_000)));
        assertEquals(List.of(), all(store.fetch(k("a"), k("b"), 70_000, 0)));
        assertThrows(IllegalArgumentException.class, () -> store.fetch(k("a"), Instant.MIN, Instant.MAX));
    }

    @Test
    void committedReadsSeeTheLastCommit() {
        ReadOnlyWindowStore<Bytes, byte[]> committed = store.readOnly(IsolationLevel.READ_COMMITTED);
        assertSame(store, store.readOnly(IsolationLevel.READ_UNCOMMITTED));
        put("a", "1", 10);
        put("b", "1", MINUTE);
        assertThrows(InvalidStateStoreException.class, committed::all);
        store.commit(Map.of());
        // All of it expires, but to those who read what was committed.
        put("c", "2", 9 * MINUTE);
        put("d", null, 9 * MINUTE);
        assertEquals(List.of("segment-9"), segments());
        assertEquals(List.of("a@10=1", "b@60000=1"), all(committed.all()));
        assertEquals(List.of("b@60000=1", "a@10=1"), all(committed.backwardAll()));
        assertEquals("1", s(committed.fetch(k("a"), 10)));
        Instant zero = Instant.EPOCH;
        Instant late = Instant.ofEpochMilli(MINUTE);
        assertEquals(List.of("10=1"), values(committed.fetch(k("a"), zero, late)));
        assertEquals(List.of("10=1"), values(committed.backwardFetch(k("a"), zero, late)));
        assertEquals(List.of("b@60000=1"), all(committed.fetch(k("aa"), k("c"), zero, late)));
        assertEquals(List.of("b@60000=1"), all(committed.backwardFetch(k("aa"), k("c"), zero, late)));
        assertEquals(List.of("a@10=1", "b@60000=1"), all(committed.fetchAll(zero, late)));
        assertEquals(List.of("b@60000=1", "a@10=1"), all(committed.backwardFetchAll(zero, late)));
        try (KeyValueIterator<Windowed<Bytes>, byte[]> before = committed.all()) {
            store.commit(Map.of());
            assertEquals(List.of("a@10=1", "b@60000=1"), all(before));
        }
        assertEquals(List.of("c@540000=2"), all(committed.all()));
        assertNull(committed.fetch(k("a"), 10));
    }

    @Test
    void aSegmentMayExpireUnderAnIterator() {
        put("a", "1", 10);
        put("a", "2", MINUTE);
        try (KeyValueIterator<Windowed<Bytes>, byte[]> iterator = store.all()) {
            put("a", "2", 9 * MINUTE);
            put("a", "3", 9 * MINUTE);
            List<String> seen = all(iterator);
            assertTrue(List.of(List.of(), List.of("a@10=1", "a@60000=2")).contains(seen), seen.toString());
        }
        assertEquals(List.of("a@540000=3"), all(store.all()));
    }

    @Test
    void iteratorsAreClosedWithTheStore() {
        put("a", "1", 10);
        put("a", "2", 20);
        KeyValueIterator<Windowed<Bytes>, byte[]> left = store.all();
        KeyValueIterator<Long, byte[]> other = store.fetch(k("a"), 0, 20);
        assertTrue(left.hasNext());
        store.close();
        assertFalse(left.hasNext());
        assertThrows(InvalidStateStoreException.class, left::next);
        assertThrows(InvalidStateStoreException.class, other::peekNextKey);
        for (Runnable call : List.<Runnable>of(
                () -> put("a", "1", 10),
                () -> store.fetch(k("a"), 10),
                () -> store.all(),
                () -> store.commit(Map.of()),
                () -> store.readOnly(IsolationLevel.READ_COMMITTED))) {
            assertThrows(InvalidStateStoreException.class, call::run);
        }
    }

    @Test
    void queriesMeetExpiryAndAClose() throws Exception {
        for (int round = 0; round < 20; round++) {
            AtomicReference<Throwable> bad = new AtomicReference<>();
            CountDownLatch begun = new CountDownLatch(2);
            EverleafWindowStore queried = store;
            put("a", "x", round * MINUTE * 100);
            store.readOnly(IsolationLevel.READ_COMMITTED);
            store.commit(Map.of());
            List<Thread> threads = new ArrayList<>();
            for (int t = 0; t < 2; t++) {
                Thread thread = new Thread(() -> query(queried, begun, bad));
                threads.add(thread);
                thread.start();
            }
            for (int n = 0; n < 200; n++) {
                put("a" + n, "x", (round * 100 + n / 4) * MINUTE);
                if (n % 20 == 0) {
                    store.commit(Map.of());
                }
            }
            begun.await();
            reopen();
            for (Thread thread : threads) {
                thread.join();
            }
            if (bad.get() != null) {
                throw new AssertionError("round " + round, bad.get());
            }
        }
    }

    private static void query(EverleafWindowStore store, CountDownLatch begun, AtomicReference<Throwable> bad) {
        try {
            while (true) {
                all(store.all());
                store.fetch(k("a1"), MINUTE);
                ReadOnlyWindowStore<Bytes, byte[]> committed = store.readOnly(IsolationLevel.READ_COMMITTED);
                assertFalse(all(committed.all()).isEmpty() && store.isOpen());
                begun.countDown();
            }
        } catch (InvalidStateStoreException closed) {
            begun.countDown();
        } catch (Throwable failure) {
            bad.set(failure);
            begun.countDown();
        }
    }

    private static KeyValue<byte[], byte[]> logged(String key, long time, int number, String value) {
        byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
        byte[] logged = ByteBuffer.allocate(bytes.length + 12).put(bytes).putLong(time).putInt(number).array();
        return KeyValue.pair(logged, value == null ? null : value.getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void theChangelogIsRestored() {
        context.restore(List.of(
                logged("a", 10, 0, "1"),
                logged("b", MINUTE, 0, "2"),
                logged("b", 3 * MINUTE, 0, "3"),
                logged("a", MINUTE + 1, 0, "gone"),
                logged("a", MINUTE + 1, 0, null),
                logged("a", MINUTE + 2, 0, "4")));
        assertEquals(List.of("a@60002=4", "b@180000=3"), all(store.all()));
        assertEquals(List.of("segment-1", "segment-3"), segments());
        store.commit(Map.of(LOG, 6L));
        context.restore(List.of(logged("c", 3 * MINUTE, 0, "5")));
        reopen();
        assertEquals(List.of("a@60002=4", "b@180000=3"), all(store.all()));
        assertEquals(6L, store.committedOffset(LOG));
    }

    @Test
    void duplicatesAreKept() {
        store.close();
        open(true);
        put("a", "1", 10);
        put("a", "2", 10);
        put("a", null, 10);
        put("b", "3", 11);
        assertEquals(List.of("10=1", "10=2"), values(store.fetch(k("a"), 0, 10)));
        assertEquals(List.of("10=2", "10=1"), values(store.backwardFetch(k("a"), 0, 10)));
        assertEquals(List.of("a@10=1", "a@10=2", "b@11=3"), all(store.all()));
        assertEquals("3", s(store.fetch(k("b"), 11)));
        context.restore(List.of(logged("c", 10, 1, "4"), logged("c", 10, 2, "5")));
        assertEquals(List.of("10=4", "10=5"), values(store.fetch(k("c"), 10, 10)));
        assertEquals(List.of("c@10=4", "c@10=5"), all(store.fetch(k("c"), k("c"), 10, 10)));
    }

    @Test
    void anotherLayoutIsRefused() {
        put("a", "1", 10);
        store.commit(Map.of());
        store.close();
        ProcessorStateException failure = assertThrows(ProcessorStateException.class, () -> open(true));
        assertTrue(failure.getMessage().contains("store w holds kind WINDOWS and format PLAIN,"), failure.getMessage());
        EverleafKeyValueStore keys = new EverleafKeyValueStore("w");
        failure = assertThrows(ProcessorStateException.class, () -> keys.init(context, keys));
        assertTrue(failure.getMessage().contains("one of kind KEYS and format PLAIN"), failure.getMessage());
        // Nothing was changed by that.
        open(false);
        assertEquals(List.of("a@10=1"), all(store.all()));
    }

    /** Its segments have another length than those of a new pool would have. */
    @Test
    void anotherRetentionFindsOldRecords() {
        put("a", "1", 70_000);
        store.commit(Map.of());
        store.close();
        open(supplier(20 * MINUTE, false));
        assertEquals("1", s(store.fetch(k("a"), 70_000)));
        put("a", "2", 19 * MINUTE);
        assertEquals(List.of("70000=1", "1140000=2"), values(store.fetch(k("a"), 0, 20 * MINUTE)));
        assertEquals(List.of("segment-1", "segment-19"), segments());
    }

    /** A crash between two ends would keep one half of a commit. */
    @Test
    void aCommitIsTheEndOfOneEpoch() {
        put("a", "1", 10);
        long before = store.pool.db.epoch();
        store.commit(Map.of(LOG, 1L));
        assertEquals(before + 1, store.pool.db.epoch());
    }

    @Test
    void bytesThatAreNotCommittedAreCounted() {
        store.commit(Map.of());
        assertEquals(0, store.approximateNumUncommittedBytes());
        for (int n = 0; n < 1_000; n++) {
            store.put(k("key " + n), new byte[100], n);
        }
        assertTrue(store.approximateNumUncommittedBytes() > 100_000);
        store.commit(Map.of());
        assertEquals(0, store.approximateNumUncommittedBytes());
    }

    @Test
    void suppliersSayWhatTheyMake() {
        Duration minute = Duration.ofMinutes(1);
        WindowBytesStoreSupplier plain = EverleafStores.persistentWindowStore("w", minute, minute, true);
        WindowBytesStoreSupplier timed = EverleafStores.persistentTimestampedWindowStore("w", minute, minute, false);
        WindowBytesStoreSupplier headed =
                EverleafStores.persistentTimestampedWindowStoreWithHeaders("w", minute, minute, false);
        assertFalse(plain.get() instanceof TimestampedBytesStore);
        assertTrue(timed.get() instanceof TimestampedBytesStore);
        assertFalse(timed.get() instanceof HeadersBytesStore);
        assertTrue(headed.get() instanceof HeadersBytesStore);
        assertTrue(headed instanceof HeadersBytesStoreSupplier);
        assertFalse(timed instanceof HeadersBytesStoreSupplier);
        assertTrue(plain.retainDuplicates());
        assertEquals(MINUTE, plain.segmentIntervalMs());
        assertEquals(MINUTE, plain.retentionPeriod());
        assertEquals(MINUTE, plain.windowSize());
        assertThrows(
                IllegalArgumentException.class,
                () -> EverleafStores.persistentWindowStore("w", minute, minute.plusMillis(1), true));
        assertThrows(
                IllegalArgumentException.class,
                () -> EverleafStores.persistentWindowStore("w", minute.negated(), minute, true));
    }
}
