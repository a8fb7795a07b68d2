package io.everleaf.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.everleaf.CorruptException;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Bytes of a pool's file change, and the task is built anew. */
class DamageTest {
    private static final TopicPartition LOG = new TopicPartition("changelog", 0);
    private static final int KEYS = 8_000;
    /** A key in the middle, whose value is found in the file. */
    private static final int HIT = 4_000;

    @TempDir
    File folder;

    private EverleafStore open;

    @AfterEach
    void end() {
        if (open != null) {
            open.close();
        }
    }

    private <S extends EverleafStore> S init(S store) {
        store.init(new Context(folder), store);
        open = store;
        return store;
    }

    private EverleafKeyValueStore keys() {
        return init(new EverleafKeyValueStore("s"));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static Bytes key(int number) {
        return Bytes.wrap(bytes(String.format("key%06d", number)));
    }

    private static byte[] value(int number) {
        return bytes("[value " + number + "]" + " ".repeat(80));
    }

    private Path file() {
        return folder.toPath().resolve("everleaf/s/pool.ever");
    }

    private Path aside() {
        return folder.toPath().resolve("everleaf/s/damaged.ever");
    }

    /** Changes the first byte of each place with a text. */
    private static void damage(Path file, String text) throws IOException {
        String all = Files.readString(file, StandardCharsets.ISO_8859_1);
        int hits = 0;
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
            for (int at = all.indexOf(text); at >= 0; at = all.indexOf(text, at + 1)) {
                channel.write(ByteBuffer.wrap(new byte[] {(byte) (all.charAt(at) ^ 0x55)}), at);
                hits++;
            }
        }
        assertTrue(hits > 0, "it is not in the file");
    }

    /** A store whose file is damaged at the value of one key. It was closed and opened, so nothing of it is in memory. */
    private EverleafKeyValueStore damaged() throws IOException {
        EverleafKeyValueStore store = keys();
        for (int number = 0; number < KEYS; number++) {
            store.put(key(number), value(number));
        }
        store.commit(Map.of(LOG, (long) KEYS));
        store.close();
        damage(file(), "[value " + HIT + "]");
        return keys();
    }

    /** Reads as a query does, in another thread. */
    private static <T> T query(Supplier<T> read) {
        try {
            return CompletableFuture.supplyAsync(read).join();
        } catch (CompletionException failure) {
            throw (RuntimeException) failure.getCause();
        }
    }

    /** The two keys that an exception names: those beside what cannot be read. */
    private static int[] bounds(Throwable failure) {
        Matcher bounds = Pattern.compile("behind key(\\d+)\\b.* and before key(\\d+)\\b").matcher(failure.getMessage());
        assertTrue(bounds.find(), failure.getMessage());
        return new int[] {Integer.parseInt(bounds.group(1)), Integer.parseInt(bounds.group(2))};
    }

    @Test
    void aReadNamesTheFileAndTheKeys() throws Exception {
        EverleafKeyValueStore store = damaged();
        ProcessorStateException failure =
                assertThrows(ProcessorStateException.class, () -> query(() -> store.get(key(HIT))));
        assertTrue(failure.getMessage().contains("store s: its file " + file() + " is damaged"), failure.getMessage());
        assertTrue(failure.getCause() instanceof CorruptException, "" + failure.getCause());
        int[] bounds = bounds(failure);
        assertTrue(bounds[0] < HIT && bounds[1] > HIT, failure.getMessage());
        // The named range cannot be read, but for a key at its end, which is next to the page; everything else can.
        for (int number = 0; number < KEYS; number++) {
            Bytes key = key(number);
            if (number <= bounds[0] || number >= bounds[1]) {
                assertEquals("[value " + number + "]", new String(query(() -> store.get(key)), StandardCharsets.UTF_8).trim());
            } else if (number > bounds[0] + 1 && number < bounds[1] - 1) {
                assertThrows(ProcessorStateException.class, () -> query(() -> store.get(key)), failure + " at " + key);
            }
        }
    }

    @Test
    void walksNameTheSameKeys() throws Exception {
        EverleafKeyValueStore store = damaged();
        int[] expected = bounds(assertThrows(
                ProcessorStateException.class, () -> query(() -> store.get(key(HIT)))));
        for (boolean reverse : new boolean[] {false, true}) {
            ProcessorStateException failure = assertThrows(ProcessorStateException.class, () -> query(() -> {
                int next = reverse ? KEYS : -1;
                try (KeyValueIterator<Bytes, byte[]> all = reverse ? store.reverseAll() : store.all()) {
                    while (all.hasNext()) {
                        next += reverse ? -1 : 1;
                        assertEquals(key(next), all.next().key);
                    }
                }
                return null;
            }));
            assertEquals(expected[0], bounds(failure)[0], failure.getMessage());
            assertEquals(expected[1], bounds(failure)[1], failure.getMessage());
        }
        // One that begins in what cannot be read.
        for (Supplier<KeyValueIterator<Bytes, byte[]>> range : Set.<Supplier<KeyValueIterator<Bytes, byte[]>>>of(
                () -> store.range(key(HIT), null), () -> store.reverseRange(null, key(HIT)))) {
            ProcessorStateException failure =
                    assertThrows(ProcessorStateException.class, () -> query(() -> range.get().hasNext()));
            assertEquals(expected[0], bounds(failure)[0], failure.getMessage());
            assertEquals(expected[1], bounds(failure)[1], failure.getMessage());
        }
    }

    @Test
    void theThreadOfTheTaskHasItBuiltAnew() throws Exception {
        EverleafKeyValueStore store = damaged();
        store.put(key(1), value(1));
        TaskCorruptedException corrupted = assertThrows(TaskCorruptedException.class, () -> store.get(key(HIT)));
        assertEquals(Set.of(new TaskId(0, 0)), corrupted.corruptedTasks());
        bounds(corrupted.getCause());
        // From now on nothing of it is used, and nothing is written.
        assertThrows(TaskCorruptedException.class, () -> store.get(key(1)));
        assertThrows(TaskCorruptedException.class, () -> store.put(key(1), value(2)));
        assertThrows(TaskCorruptedException.class, () -> store.commit(Map.of()));
        store.close();
        assertFalse(Files.exists(file()));
        assertTrue(Files.exists(aside()));
        // Streams initializes it again, and has no offset: it restores from the first one on.
        store.init(new Context(folder), store);
        assertNull(store.committedOffset(LOG));
        assertEquals(0, store.approximateNumEntries());
        store.put(key(HIT), value(HIT));
        store.commit(Map.of(LOG, 1L));
        store.close();
        assertEquals(1, keys().approximateNumEntries());
        assertEquals(1L, open.committedOffset(LOG));
    }

    @Test
    void aCloseMeetsItToo() throws Exception {
        EverleafKeyValueStore store = damaged();
        store.put(key(1), value(1));
        store.commit(Map.of(LOG, (long) KEYS));
        // The close writes to pages that are not there any more.
        try (FileChannel channel = FileChannel.open(file(), StandardOpenOption.WRITE)) {
            channel.truncate(channel.size() / 2);
        }
        ProcessorStateException failure = assertThrows(ProcessorStateException.class, store::close);
        assertTrue(failure.getCause() instanceof CorruptException, "" + failure.getCause());
        assertFalse(Files.exists(file()));
        assertTrue(Files.exists(aside()));
        assertNull(keys().committedOffset(LOG));
    }

    /** There Kafka 4.4.0 would lose the records that it has read and not committed. */
    @Test
    void underExactlyOnceItEndsTheThread() throws Exception {
        damaged().close();
        Context context = new Context(folder);
        context.configs.put("processing.guarantee", "exactly_once_v2");
        EverleafKeyValueStore store = new EverleafKeyValueStore("s");
        store.init(context, store);
        open = store;
        store.put(key(1), value(1));
        bounds(assertThrows(ProcessorStateException.class, () -> store.get(key(HIT))));
        bounds(assertThrows(ProcessorStateException.class, () -> store.commit(Map.of(LOG, 9L))));
        store.close();
        assertFalse(Files.exists(file()));
        store.init(context, store);
        assertNull(store.committedOffset(LOG));
    }

    @Test
    void aWriteMeetsItToo() throws Exception {
        EverleafKeyValueStore store = damaged();
        TaskCorruptedException corrupted =
                assertThrows(TaskCorruptedException.class, () -> store.put(key(HIT), value(1)));
        int[] bounds = bounds(corrupted.getCause());
        assertTrue(bounds[0] < HIT && bounds[1] > HIT, corrupted.getCause().getMessage());
    }

    @Test
    void whatAQueryMeetsIsToldToTheTask() throws Exception {
        EverleafKeyValueStore store = damaged();
        store.put(key(1), value(1));
        assertThrows(ProcessorStateException.class, () -> query(() -> store.get(key(HIT))));
        // Queries go on where the file is sound.
        assertEquals(key(2), query(() -> {
            try (KeyValueIterator<Bytes, byte[]> range = store.range(key(2), key(3))) {
                return range.next().key;
            }
        }));
        assertThrows(TaskCorruptedException.class, () -> store.commit(Map.of(LOG, 5L)));
    }

    /** Streams makes another exception of any that a restore throws, so the file must not wait for one of two. */
    @Test
    void aRestoreMeetsItToo() throws Exception {
        EverleafKeyValueStore store = keys();
        for (int number = 0; number < KEYS; number++) {
            store.put(key(number), value(number));
        }
        store.commit(Map.of(LOG, (long) KEYS));
        store.close();
        damage(file(), "[value " + HIT + "]");
        Context context = new Context(folder);
        store.init(context, store);
        List<KeyValue<byte[], byte[]>> records = List.of(KeyValue.pair(key(HIT).get(), value(1)));
        ProcessorStateException failure = assertThrows(ProcessorStateException.class, () -> context.restore(records));
        bounds(failure);
        store.close();
        assertFalse(Files.exists(file()));
        assertNull(keys().committedOffset(LOG));
    }

    @Test
    void aPoolThatDoesNotOpenIsMadeAnew() throws Exception {
        EverleafKeyValueStore store = keys();
        store.put(key(1), value(1));
        store.commit(Map.of(LOG, 7L));
        store.close();
        // The tree with offsets and positions.
        // A key in a page has no more of its name in one piece.
        damage(file(), "ngelog");
        EverleafKeyValueStore again = keys();
        Long offset = assertThrowsOrNull(() -> again.committedOffset(LOG));
        assertNull(offset);
        again.close();
        EverleafKeyValueStore third = keys();
        assertNull(third.committedOffset(LOG));
        assertEquals(0, third.approximateNumEntries());
        assertTrue(Files.exists(aside()));
    }

    /** The read of an offset, if the open has not met the damage already. */
    private static Long assertThrowsOrNull(Supplier<Long> read) {
        try {
            return read.get();
        } catch (ProcessorStateException met) {
            assertTrue(met.getMessage().contains("is damaged"), met.getMessage());
            return null;
        }
    }

    @Test
    void windowsNameThemToo() throws Exception {
        Supplier<EverleafWindowStore> make = () -> init((EverleafWindowStore) EverleafStores.persistentWindowStore(
                        "s", Duration.ofHours(1), Duration.ofMillis(10), false)
                .get());
        EverleafWindowStore store = make.get();
        for (int number = 0; number < KEYS; number++) {
            store.put(key(number), value(number), 50);
        }
        store.commit(Map.of(LOG, 1L));
        store.close();
        damage(file(), "[value " + HIT + "]");
        EverleafWindowStore again = make.get();
        for (Supplier<Object> read : Set.<Supplier<Object>>of(() -> again.fetch(key(HIT), 50), () -> {
            try (WindowStoreIterator<byte[]> windows = again.fetch(key(HIT), 0, 100)) {
                return windows.hasNext();
            }
        })) {
            ProcessorStateException failure = assertThrows(ProcessorStateException.class, () -> query(read));
            assertTrue(failure.getMessage().contains(file().toString()), failure.getMessage());
            assertTrue(failure.getMessage().matches(".* behind key\\d+.* and before key\\d+.*"), failure.getMessage());
        }
        assertThrows(TaskCorruptedException.class, () -> again.put(key(HIT), value(1), 50));
    }

    private TopologyTestDriver driver(boolean isLogged) {
        StreamsBuilder builder = new StreamsBuilder();
        Materialized<String, String, KeyValueStore<Bytes, byte[]>> store =
                Materialized.as(EverleafStores.persistentTimestampedKeyValueStore("s"));
        builder.table(
                "input",
                Consumed.with(Serdes.String(), Serdes.String()),
                (isLogged ? store.withLoggingEnabled(Map.of()) : store.withLoggingDisabled()).withCachingDisabled());
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "damage");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:9092");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder.getPath());
        // So little that the first pages have left it.
        settings.put(EverleafStores.STORE_MEMORY_CONFIG, "100000");
        return new TopologyTestDriver(builder.build(), settings);
    }

    /** Through all that Streams has around a store: it takes the words for a format, and lets one exception of the two pass. */
    @Test
    void streamsHearsIt() throws Exception {
        for (boolean isLogged : new boolean[] {true, false}) {
            folder = new File(folder, "100%done");
            assertTrue(folder.mkdir());
            TopologyTestDriver driver = driver(isLogged);
            try {
                TestInputTopic<String, String> input =
                        driver.createInputTopic("input", new StringSerializer(), new StringSerializer());
                for (int number = 0; number < 5_000; number++) {
                    input.pipeInput(key(number).toString(), "[value " + number + "]" + " ".repeat(80));
                }
                damage(folder.toPath().resolve("damage/0_0/everleaf/s/pool.ever"), "[value 100]");
                RuntimeException failure =
                        assertThrows(RuntimeException.class, () -> input.pipeInput(key(100).toString(), "new"));
                assertEquals(isLogged, failure instanceof TaskCorruptedException, "" + failure);
                StringBuilder told = new StringBuilder();
                for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
                    told.append(cause.getMessage()).append('\n');
                }
                assertTrue(told.toString().contains("pool.ever is damaged, in the keys behind key"), told.toString());
            } finally {
                driver.getAllStateStores().get("s").close();
                // It commits first, and there is nothing to commit to.
                assertThrows(RuntimeException.class, driver::close);
            }
        }
    }

    @Test
    void withoutAChangelogTheFileStays() throws Exception {
        EverleafKeyValueStore store = damaged();
        store.isLogged = false;
        store.put(key(1), value(1));
        assertThrows(ProcessorStateException.class, () -> store.get(key(HIT)));
        store.put(key(2), value(2));
        store.commit(Map.of());
        store.close();
        assertTrue(Files.exists(file()));
        assertFalse(Files.exists(aside()));
    }
}
