package io.everleaf.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.AbstractList;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.query.KeyQuery;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests that Kafka's own leave out: commits, offsets, positions, isolation, and closes. */
class StoreTest {
    private static final TopicPartition LOG = new TopicPartition("application-s-changelog", 0);
    private static final TopicPartition OTHER = new TopicPartition("other", 3);

    @TempDir
    File folder;

    private Context context;
    private EverleafKeyValueStore store;

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
        store = new EverleafKeyValueStore("s");
        store.init(context, store);
    }

    private void reopen() {
        store.close();
        open();
    }

    private static Bytes k(String key) {
        return Bytes.wrap(key.getBytes(StandardCharsets.UTF_8));
    }

    private static byte[] v(String value) {
        return value.getBytes(StandardCharsets.UTF_8);
    }

    private static String s(byte[] value) {
        return value == null ? null : new String(value, StandardCharsets.UTF_8);
    }

    private void put(String key, String value) {
        store.put(k(key), value == null ? null : v(value));
    }

    private static List<String> all(KeyValueIterator<Bytes, byte[]> iterator) {
        List<String> all = new ArrayList<>();
        try (iterator) {
            while (iterator.hasNext()) {
                Bytes peeked = iterator.peekNextKey();
                KeyValue<Bytes, byte[]> pair = iterator.next();
                assertEquals(peeked, pair.key);
                all.add(pair.key + "=" + s(pair.value));
            }
        }
        return all;
    }

    @Test
    void dataOffsetAndPositionAreOneEpoch() {
        context.record("input", 0, 7);
        put("a", "1");
        store.commit(Map.of(LOG, 5L));
        context.record("input", 0, 8);
        put("a", "2");
        put("b", "2");
        assertEquals(8, store.getPosition().getPartitionPositions("input").get(0));
        reopen();
        assertEquals(List.of("a=1"), all(store.all()));
        assertEquals(5L, store.committedOffset(LOG));
        assertEquals(Position.emptyPosition().withComponent("input", 0, 7), store.getPosition());
    }

    @Test
    void aStoreThatIsOpenedAgainHasForgottenWhatWasNotCommitted() {
        context.record("input", 0, 1);
        put("a", "1");
        store.close();
        store.close();
        assertFalse(store.isOpen());
        store.init(context, store);
        assertTrue(store.isOpen());
        assertEquals(Position.emptyPosition(), store.getPosition());
        assertEquals(List.of(), all(store.all()));
    }

    /** Streams closes a store that it has registered, and no other. */
    @Test
    void aStoreThatCannotBeginLeavesNothingOpen() {
        EverleafKeyValueStore other = new EverleafKeyValueStore("other");
        context.onRegister = () -> {
            throw new IllegalStateException("registered twice");
        };
        assertThrows(IllegalStateException.class, () -> other.init(context, other));
        assertFalse(other.isOpen());
        context.onRegister = () -> {};
        // Another open of the same file would be refused.
        other.init(context, other);
        assertTrue(other.isOpen());
        other.close();
    }

    @Test
    void withoutOffsetsTheyAreForgotten() {
        put("a", "1");
        store.commit(Map.of(LOG, 5L, OTHER, 9L));
        Map<TopicPartition, Long> offsets = new HashMap<>();
        offsets.put(LOG, null);
        store.commit(offsets);
        assertNull(store.committedOffset(LOG));
        assertEquals(9L, store.committedOffset(OTHER));
        put("b", "2");
        store.commit(Map.of());
        reopen();
        assertNull(store.committedOffset(OTHER));
        assertEquals(List.of("a=1", "b=2"), all(store.all()));
    }

    /** A crash between two ends would keep one half of a commit. */
    @Test
    void aCommitIsTheEndOfOneEpoch() {
        put("a", "1");
        long before = store.pool.db.epoch();
        store.commit(Map.of(LOG, 1L));
        assertEquals(before + 1, store.pool.db.epoch());
    }

    @Test
    void bytesThatAreNotCommittedAreCounted() {
        store.commit(Map.of());
        assertEquals(0, store.approximateNumUncommittedBytes());
        for (int n = 0; n < 1_000; n++) {
            store.put(k("key " + n), new byte[100]);
        }
        assertTrue(store.approximateNumUncommittedBytes() > 100_000);
        store.commit(Map.of());
        assertEquals(0, store.approximateNumUncommittedBytes());
        store.close();
        context.configs.clear();
        open();
        for (int n = 0; n < 1_000; n++) {
            store.put(k("key " + n), new byte[100]);
        }
        assertEquals(0, store.approximateNumUncommittedBytes());
        assertSame(store, store.readOnly(IsolationLevel.READ_COMMITTED));
    }

    @Test
    void anEpochMayBeLargerThanMemory() {
        store.close();
        context.configs.put(EverleafStores.STORE_MEMORY_CONFIG, "" + (8 << 20));
        open();
        for (int n = 0; n < 30_000; n++) {
            store.put(k("key " + n), new byte[1_000]);
        }
        store.commit(Map.of(LOG, 30_000L));
        for (int n = 0; n < 30_000; n++) {
            store.delete(k("key " + n));
        }
        reopen();
        assertEquals(30_000, store.approximateNumEntries());
        assertEquals(30_000L, store.committedOffset(LOG));
    }

    @Test
    void committedReadsSeeTheLastCommit() {
        ReadOnlyKeyValueStore<Bytes, byte[]> committed = store.readOnly(IsolationLevel.READ_COMMITTED);
        assertSame(store, store.readOnly(IsolationLevel.READ_UNCOMMITTED));
        put("a", "1");
        // Nothing has kept it yet.
        assertThrows(InvalidStateStoreException.class, () -> committed.get(k("a")));
        store.commit(Map.of());
        put("a", "2");
        put("b", "2");
        assertEquals("1", s(committed.get(k("a"))));
        assertEquals(1, committed.approximateNumEntries());
        try (KeyValueIterator<Bytes, byte[]> before = committed.all()) {
            store.commit(Map.of());
            put("a", "3");
            assertEquals(List.of("a=1"), all(before));
        }
        assertEquals(List.of("a=2", "b=2"), all(committed.all()));
        assertEquals(List.of("b=2", "a=2"), all(committed.reverseAll()));
        assertEquals(List.of("b=2"), all(committed.range(k("aa"), null)));
        assertEquals(List.of("a=2"), all(committed.reverseRange(null, k("a"))));
        assertEquals(List.of("b=2"), all(committed.prefixScan("b", new StringSerializer())));
        assertEquals(List.of(), all(committed.range(k("b"), k("a"))));
        assertEquals("3", s(store.get(k("a"))));
        store.close();
        context.configs.put("default.interactive.query.isolation.level", "read_committed");
        open();
        put("a", "4");
        assertEquals("2", s(store.readOnly(IsolationLevel.READ_COMMITTED).get(k("a"))));
    }

    @Test
    void iteratorsAreClosedWithTheStore() {
        put("a", "1");
        KeyValueIterator<Bytes, byte[]> left = store.all();
        assertTrue(left.hasNext());
        store.close();
        assertThrows(InvalidStateStoreException.class, left::hasNext);
        assertThrows(InvalidStateStoreException.class, left::next);
        left.close();
        for (Runnable call : List.<Runnable>of(
                () -> put("a", "1"),
                () -> store.get(k("a")),
                () -> store.all(),
                () -> store.commit(Map.of()),
                () -> store.committedOffset(LOG),
                () -> store.readOnly(IsolationLevel.READ_COMMITTED),
                () -> store.approximateNumEntries())) {
            assertThrows(InvalidStateStoreException.class, call::run);
        }
    }

    @Test
    void queriesMeetAClose() throws Exception {
        for (int round = 0; round < 30; round++) {
            for (int n = 0; n < 200; n++) {
                put("key " + n, "value");
            }
            store.readOnly(IsolationLevel.READ_COMMITTED);
            store.commit(Map.of());
            AtomicReference<Throwable> bad = new AtomicReference<>();
            CountDownLatch begun = new CountDownLatch(2);
            List<Thread> threads = new ArrayList<>();
            EverleafKeyValueStore queried = store;
            for (int t = 0; t < 2; t++) {
                Thread thread = new Thread(() -> query(queried, begun, bad));
                threads.add(thread);
                thread.start();
            }
            begun.await();
            put("more", "value");
            store.commit(Map.of());
            reopen();
            for (Thread thread : threads) {
                thread.join();
            }
            if (bad.get() != null) {
                throw new AssertionError("round " + round, bad.get());
            }
        }
    }

    private static void query(EverleafKeyValueStore store, CountDownLatch begun, AtomicReference<Throwable> bad) {
        try {
            while (true) {
                store.get(k("key 7"));
                all(store.all());
                try {
                    all(store.readOnly(IsolationLevel.READ_COMMITTED).all());
                } catch (InvalidStateStoreException notKept) {
                    store.get(k("key 7"));
                }
                begun.countDown();
            }
        } catch (InvalidStateStoreException closed) {
            begun.countDown();
        } catch (Throwable failure) {
            bad.set(failure);
            begun.countDown();
        }
    }

    /** A callback may wait for a thread that queries: with a lock of ours held, that thread would wait for the callback. */
    @Test
    void noLockIsHeldInACallback() throws Exception {
        AtomicReference<Throwable> bad = new AtomicReference<>();
        AtomicInteger calls = new AtomicInteger();
        context.onCallback = () -> {
            Thread query = new Thread(() -> {
                try {
                    store.get(k("a"));
                    all(store.all());
                    store.query(
                            KeyQuery.<Bytes, byte[]>withKey(k("a")), PositionBound.unbounded(), new QueryConfig(false));
                    store.approximateNumUncommittedBytes();
                    store.committedOffset(LOG);
                } catch (Throwable failure) {
                    bad.compareAndSet(null, failure);
                }
            });
            query.start();
            try {
                query.join(10_000);
            } catch (InterruptedException interrupted) {
                bad.set(interrupted);
            }
            if (query.isAlive()) {
                bad.set(new AssertionError("a query waits for a callback"));
            }
            calls.incrementAndGet();
        };
        context.record("input", 0, 1);
        put("a", "1");
        store.putIfAbsent(k("b"), v("1"));
        store.delete(k("b"));
        List<KeyValue<byte[], byte[]>> records = List.of(KeyValue.pair(v("a"), v("2")));
        context.restore(new AbstractList<>() {
            @Override
            public KeyValue<byte[], byte[]> get(int index) {
                context.onCallback.run();
                return records.get(index);
            }

            @Override
            public int size() {
                return records.size();
            }
        });
        assertTrue(calls.get() >= 4, "" + calls);
        assertNull(bad.get());
        assertEquals(Position.emptyPosition().withComponent("input", 0, 1), store.getPosition());
    }

    @Test
    void recordsAreRestored() {
        List<KeyValue<byte[], byte[]>> records = new ArrayList<>();
        records.add(KeyValue.pair(v("a"), v("1")));
        records.add(KeyValue.pair(v("b"), v("1")));
        records.add(KeyValue.pair(v("a"), null));
        context.restore(records);
        store.commit(Map.of(LOG, 3L));
        context.restore(Collections.singletonList(KeyValue.pair(v("c"), v("1"))));
        reopen();
        assertEquals(List.of("b=1"), all(store.all()));
    }

    @Test
    void writesAnswer() {
        assertNull(store.putIfAbsent(k("a"), v("1")));
        assertEquals("1", s(store.putIfAbsent(k("a"), v("2"))));
        store.putAll(List.of(KeyValue.pair(k("b"), v("3")), KeyValue.pair(k("c"), v("4"))));
        assertEquals("3", s(store.delete(k("b"))));
        assertNull(store.delete(k("b")));
        put("c", null);
        put("", "");
        assertEquals(List.of("=", "a=1"), all(store.all()));
        ProcessorStateException tooLong =
                assertThrows(ProcessorStateException.class, () -> store.put(Bytes.wrap(new byte[65_537]), v("")));
        assertTrue(tooLong.getMessage().contains("store s"), tooLong.getMessage());
        assertTrue(tooLong.getCause().getMessage().contains("65,536"), tooLong.getCause().getMessage());
    }

    @Test
    void timestampsAreMarked() {
        assertTrue(EverleafStores.persistentTimestampedKeyValueStore("t").get() instanceof TimestampedBytesStore);
        assertFalse(EverleafStores.persistentKeyValueStore("t").get() instanceof TimestampedBytesStore);
        assertEquals("t", EverleafStores.persistentKeyValueStore("t").name());
        KeyValueBytesStoreSupplier headed = EverleafStores.persistentTimestampedKeyValueStoreWithHeaders("t");
        assertTrue(headed instanceof HeadersBytesStoreSupplier && headed.get() instanceof HeadersBytesStore);
        assertTrue(store.persistent());
    }

    @Test
    void twoStoresCannotShareAFolder() {
        EverleafKeyValueStore second = new EverleafKeyValueStore("s");
        ProcessorStateException failure =
                assertThrows(ProcessorStateException.class, () -> second.init(context, second));
        assertTrue(failure.getCause().getMessage().contains("open"), failure.getCause().getMessage());
        second.close();
    }

    @Test
    void aFolderOfSomethingElseIsRefused() throws Exception {
        Path pool = folder.toPath().resolve("everleaf/s/pool.ever");
        store.close();
        Files.write(pool, new byte[50_000]);
        assertThrows(ProcessorStateException.class, this::open);
        Files.delete(pool);
        open();
        assertEquals(List.of(), all(store.all()));
        assertNull(store.committedOffset(LOG));
    }
}
