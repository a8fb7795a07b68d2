package io.everleaf.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Kill -9 of a virtual machine: a store is exactly what its offset says, and so is its position. */
class StoreKillTest {
    private static final int ROUNDS = Integer.getInteger("everleaf.kill.rounds", 5);
    private static final TopicPartition LOG = new TopicPartition("changelog", 0);
    private static final int KEYS = 5_000;
    private static final long RETENTION = 120_000;

    @TempDir
    File folder;

    private static Bytes key(long n) {
        long spread = n * 0x9E37_79B9_7F4A_7C15L;
        return Bytes.wrap(ByteBuffer.allocate(8).putLong(Math.floorMod(spread ^ spread >>> 32, (long) KEYS)).array());
    }

    /** The value of an operation, or null for a delete. */
    private static byte[] value(long n) {
        if (n % 7 == 0) {
            return null;
        }
        byte[] value = new byte[(int) (n % 250)];
        Arrays.fill(value, (byte) n);
        return value;
    }

    /** The time of an operation: it goes on, and some records come late, or too late. */
    private static long time(long n) {
        return Math.max(0, n * 100 - Math.floorMod(n * 7_919, RETENTION + 10_000));
    }

    /** The stores that are tried. */
    private enum Kind {
        KEYS,
        WINDOWS;

        EverleafStore make() {
            return this == KEYS
                    ? new EverleafKeyValueStore("s")
                    : (EverleafStore) EverleafStores.persistentWindowStore(
                                    "s", Duration.ofMillis(RETENTION), Duration.ofMillis(10), false)
                            .get();
        }

        private static void put(EverleafStore store, long n, byte[] value) {
            if (store instanceof EverleafWindowStore windows) {
                windows.put(key(n), value, time(n));
            } else {
                ((EverleafKeyValueStore) store).put(key(n), value);
            }
        }
    }

    /** The program that is killed. */
    static final class Program {
        private Program() {}

        public static void main(String[] arguments) {
            Random random = new Random(Long.parseLong(arguments[1]));
            Context context = new Context(new File(arguments[0]));
            EverleafStore store = Kind.valueOf(arguments[2]).make();
            store.init(context, store);
            Long at = store.committedOffset(LOG);
            long n = at == null ? 0 : at;
            System.out.println(n);
            int most = random.nextInt(4) == 0 ? 100_000 : 3_000;
            while (true) {
                for (long end = n + 1 + random.nextInt(most); n < end; n++) {
                    context.record("input", 0, n);
                    Kind.put(store, n, value(n));
                }
                store.commit(Map.of(LOG, n));
                System.out.println(n);
                if (random.nextInt(20) == 0) {
                    Kind.put(store, n, new byte[] {-1});
                    // Far ahead, so that all segments of a window store are dropped.
                    Kind.put(store, n + 1_000_000, new byte[] {-1});
                    store.close();
                    store.init(context, store);
                }
            }
        }
    }

    /** The contents that a store must have after so many operations. */
    private static final class Model {
        private final Kind kind;
        private final TreeMap<Bytes, TreeMap<Long, byte[]>> windows = new TreeMap<>();
        private long latest = -1;
        private long operations;

        Model(Kind kind) {
            this.kind = kind;
        }

        void advance(long to) {
            for (; operations < to; operations++) {
                long time = kind == Kind.KEYS ? 0 : time(operations);
                latest = Math.max(latest, time);
                if (time > latest - RETENTION) {
                    TreeMap<Long, byte[]> ofKey = windows.computeIfAbsent(key(operations), key -> new TreeMap<>());
                    ofKey.put(time, value(operations));
                }
            }
        }

        /** The key and the time of each pair, and its value. */
        TreeMap<String, byte[]> pairs() {
            TreeMap<String, byte[]> pairs = new TreeMap<>();
            windows.forEach((key, ofKey) -> {
                ofKey.headMap(latest - RETENTION, true).clear();
                ofKey.forEach((time, value) -> {
                    if (value != null) {
                        pairs.put(key + "@" + time, value);
                    }
                });
            });
            return pairs;
        }
    }

    private static TreeMap<String, byte[]> pairs(EverleafStore store) {
        TreeMap<String, byte[]> pairs = new TreeMap<>();
        if (store instanceof EverleafWindowStore windows) {
            try (KeyValueIterator<Windowed<Bytes>, byte[]> all = windows.all()) {
                all.forEachRemaining(pair -> pairs.put(pair.key.key() + "@" + pair.key.window().start(), pair.value));
            }
        } else {
            try (KeyValueIterator<Bytes, byte[]> all = ((EverleafKeyValueStore) store).all()) {
                all.forEachRemaining(pair -> pairs.put(pair.key + "@0", pair.value));
            }
        }
        return pairs;
    }

    @ParameterizedTest
    @EnumSource
    @Timeout(value = 3, unit = TimeUnit.HOURS)
    void theStoreIsWhatItsOffsetSays(Kind kind) throws Exception {
        String given = System.getenv("EVERLEAF_SEED");
        Random random = new Random(given == null ? 1 : Long.parseLong(given));
        Model model = new Model(kind);
        for (int round = 0; round < ROUNDS; round++) {
            long committed = oneRound(random, kind);
            EverleafStore store = kind.make();
            store.init(new Context(folder), store);
            Long offset = store.committedOffset(LOG);
            long n = offset == null ? 0 : offset;
            assertTrue(n >= committed, "round " + round + ": " + committed + " was committed, and the store is at " + n);
            assertTrue(n >= model.operations);
            model.advance(n);
            Position position = Position.emptyPosition();
            assertEquals(n == 0 ? position : position.withComponent("input", 0, n - 1), store.getPosition());
            TreeMap<String, byte[]> expected = model.pairs();
            TreeMap<String, byte[]> found = pairs(store);
            assertEquals(expected.keySet(), found.keySet(), "round " + round);
            expected.forEach((key, value) -> assertArrayEquals(value, found.get(key), key));
            store.close();
        }
        System.out.println(ROUNDS + " kills of a store of " + kind + ", " + model.operations + " operations");
        assertTrue(model.operations > 0);
    }

    /** Starts the program and kills it; the last offset whose commit has returned. */
    private long oneRound(Random random, Kind kind) throws IOException, InterruptedException {
        List<String> line = List.of(
                System.getProperty("java.home") + "/bin/java",
                "-Xmx128m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                System.getProperty("java.class.path"),
                Program.class.getName(),
                folder.getPath(),
                "" + random.nextInt(),
                kind.name());
        Process process =
                new ProcessBuilder(line).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (BufferedReader said = new BufferedReader(new InputStreamReader(process.getInputStream()))) {
            String first = said.readLine();
            assertNotNull(first, "it has not opened the store");
            long committed = Long.parseLong(first);
            Thread.sleep(random.nextInt(random.nextBoolean() ? 100 : 700));
            process.toHandle().destroyForcibly();
            for (String next = said.readLine(); next != null; next = said.readLine()) {
                committed = Long.parseLong(next);
            }
            process.waitFor();
            return committed;
        } finally {
            process.destroyForcibly();
        }
    }
}
