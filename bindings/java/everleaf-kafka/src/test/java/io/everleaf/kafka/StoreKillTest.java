package io.everleaf.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Kill -9 of a virtual machine: the store is exactly what its offset says, and so is its position. */
class StoreKillTest {
    private static final int ROUNDS = Integer.getInteger("everleaf.kill.rounds", 5);
    private static final TopicPartition LOG = new TopicPartition("changelog", 0);
    private static final int KEYS = 5_000;

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

    /** The program that is killed. */
    static final class Program {
        private Program() {}

        public static void main(String[] arguments) {
            Random random = new Random(Long.parseLong(arguments[1]));
            Context context = new Context(new File(arguments[0]));
            EverleafKeyValueStore store = new EverleafKeyValueStore("s");
            store.init(context, store);
            Long at = store.committedOffset(LOG);
            long n = at == null ? 0 : at;
            System.out.println(n);
            int most = random.nextInt(4) == 0 ? 100_000 : 3_000;
            while (true) {
                for (long end = n + 1 + random.nextInt(most); n < end; n++) {
                    context.record("input", 0, n);
                    store.put(key(n), value(n));
                }
                store.commit(Map.of(LOG, n));
                System.out.println(n);
                if (random.nextInt(20) == 0) {
                    store.put(key(n), new byte[] {-1});
                    store.close();
                    store.init(context, store);
                }
            }
        }
    }

    @Test
    @Timeout(value = 3, unit = TimeUnit.HOURS)
    void theStoreIsWhatItsOffsetSays() throws Exception {
        String given = System.getenv("EVERLEAF_SEED");
        Random random = new Random(given == null ? 1 : Long.parseLong(given));
        TreeMap<Bytes, byte[]> model = new TreeMap<>();
        long modelled = 0;
        for (int round = 0; round < ROUNDS; round++) {
            long committed = oneRound(random);
            EverleafKeyValueStore store = new EverleafKeyValueStore("s");
            Context context = new Context(folder);
            store.init(context, store);
            Long offset = store.committedOffset(LOG);
            long n = offset == null ? 0 : offset;
            assertTrue(n >= committed, "round " + round + ": " + committed + " was committed, and the store is at " + n);
            assertTrue(n >= modelled);
            for (; modelled < n; modelled++) {
                byte[] value = value(modelled);
                if (value == null) {
                    model.remove(key(modelled));
                } else {
                    model.put(key(modelled), value);
                }
            }
            Position position = Position.emptyPosition();
            assertEquals(n == 0 ? position : position.withComponent("input", 0, n - 1), store.getPosition());
            compare(model, store, round);
            store.close();
        }
        System.out.println(ROUNDS + " kills of a store, " + modelled + " operations");
        assertTrue(modelled > 0);
    }

    private static void compare(TreeMap<Bytes, byte[]> model, EverleafKeyValueStore store, int round) {
        try (KeyValueIterator<Bytes, byte[]> all = store.all()) {
            for (Map.Entry<Bytes, byte[]> entry : model.entrySet()) {
                assertTrue(all.hasNext(), "round " + round);
                KeyValue<Bytes, byte[]> pair = all.next();
                assertEquals(entry.getKey(), pair.key, "round " + round);
                assertArrayEquals(entry.getValue(), pair.value, "round " + round);
            }
            assertFalse(all.hasNext(), "round " + round);
        }
    }

    /** Starts the program and kills it; the last offset whose commit has returned. */
    private long oneRound(Random random) throws IOException, InterruptedException {
        List<String> line = List.of(
                System.getProperty("java.home") + "/bin/java",
                "-Xmx128m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                System.getProperty("java.class.path"),
                Program.class.getName(),
                folder.getPath(),
                "" + random.nextInt());
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
