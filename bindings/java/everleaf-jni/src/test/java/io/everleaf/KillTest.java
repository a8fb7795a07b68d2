package io.everleaf;

import static io.everleaf.Help.ORDER;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Kill -9 of a virtual machine whose program ends epochs. Afterwards the pool is exactly the state of one end, and no earlier one
 * than the last of which the program had heard that it is on disk.
 */
class KillTest {
    private static final int ROUNDS = Integer.getInteger("everleaf.kill.rounds", 8);
    private static final int KEYS = 5_000;

    @TempDir
    Path folder;

    /** Spreads numbers. */
    private static long mix(long n) {
        n ^= n >>> 33;
        n *= 0xff51afd7ed558ccdL;
        n ^= n >>> 33;
        n *= 0xc4ceb9fe1a85ec53L;
        return n ^ n >>> 33;
    }

    /** The key of an operation. */
    static byte[] key(long n) {
        return Help.number(Math.floorMod(mix(n), KEYS));
    }

    /** The value that it sets, or null if it removes the key. */
    static byte[] value(long n) {
        if (Math.floorMod(mix(n + 7), 8) == 0) {
            return null;
        }
        int length = Math.floorMod(mix(n + 3), Math.floorMod(mix(n + 5), 500) == 0 ? 100_000 : 300);
        byte[] value = new byte[length];
        java.util.Arrays.fill(value, (byte) n);
        return value;
    }

    /** The program that is killed. */
    static final class Program {
        private Program() {}

        public static void main(String[] arguments) throws Exception {
            Random random = new Random(Long.parseLong(arguments[1]));
            boolean background = random.nextInt(4) != 0;
            Options options = new Options().manualEpochs(true).background(background).memory(32 << 20);
            Db db = Db.open(Path.of(arguments[0]), options);
            Tree data = db.tree("data");
            Tree offsets = db.tree("offsets");
            byte[] last = offsets.get(Help.b("last"));
            long n = last == null ? 0 : Help.number(last);
            System.out.println("open " + n);
            int most = random.nextBoolean() ? 100 : 20_000;
            while (true) {
                for (long end = n + 1 + random.nextInt(most); n < end; n++) {
                    byte[] value = value(n);
                    if (value == null) {
                        data.delete(key(n));
                    } else {
                        data.put(key(n), value);
                    }
                }
                offsets.put(Help.b("last"), Help.number(n));
                long epoch = db.endEpoch();
                if (!background) {
                    db.sync();
                    System.out.println("durable " + n);
                } else if (random.nextInt(4) == 0) {
                    db.waitDurable(epoch);
                    System.out.println("durable " + n);
                }
                if (random.nextInt(50) == 0) {
                    // Half of an epoch, which it must not end.
                    data.put(key(n), Help.b("half"));
                    db.checkpoint();
                    n = again(data, n);
                }
            }
        }

        /** Has an operation done whole. */
        private static long again(Tree data, long n) {
            byte[] value = value(n);
            if (value == null) {
                data.delete(key(n));
            } else {
                data.put(key(n), value);
            }
            return n + 1;
        }
    }

    private final TreeMap<byte[], byte[]> model = new TreeMap<>(ORDER);
    private long modelled;

    @Test
    @Timeout(value = 3, unit = TimeUnit.HOURS)
    void theStateIsThatOfAnEnd() throws Exception {
        Random random = Help.random("KillTest");
        Path path = folder.resolve("pool.ever");
        long durable = 0;
        for (int round = 0; round < ROUNDS; round++) {
            long said = oneRound(path, random);
            assertTrue(said >= durable, "round " + round);
            durable = said;
            look(path, durable, round);
        }
        System.out.println(ROUNDS + " kills, " + modelled + " operations, " + durable + " of them reported durable");
        assertTrue(modelled > 0);
    }

    /** Starts the program and kills it; the last operation that it said to be durable. */
    private long oneRound(Path path, Random random) throws IOException, InterruptedException {
        List<String> line = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java", "-Xmx128m"));
        line.addAll(List.of("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path")));
        line.addAll(List.of(Program.class.getName(), path.toString(), "" + random.nextInt()));
        Process process =
                new ProcessBuilder(line).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (BufferedReader said = new BufferedReader(new InputStreamReader(process.getInputStream()))) {
            String first = said.readLine();
            assertNotNull(first, "it has not opened the pool");
            long durable = Long.parseLong(first.substring("open ".length()));
            assertEquals(modelled, durable);
            Thread.sleep(random.nextInt(random.nextBoolean() ? 100 : 700));
            // Not by the process itself, which would close the stream.
            process.toHandle().destroyForcibly();
            for (String next = said.readLine(); next != null; next = said.readLine()) {
                durable = Long.parseLong(next.substring("durable ".length()));
            }
            assertEquals(137, process.waitFor());
            return durable;
        } finally {
            process.destroyForcibly();
        }
    }

    /** Compares all of the pool with what the operations up to its offset give. */
    private void look(Path path, long durable, int round) {
        String where = "round " + round;
        try (Db db = Db.open(path, new Options().manualEpochs(true).memory(32 << 20));
                Tree data = db.tree("data");
                Tree offsets = db.tree("offsets");
                Scan scan = data.scan()) {
            byte[] last = offsets.get(Help.b("last"));
            long n = last == null ? 0 : Help.number(last);
            assertTrue(n >= durable, where + ": operation " + durable + " was durable, and the pool is at " + n);
            assertTrue(n >= modelled, where);
            for (; modelled < n; modelled++) {
                byte[] value = value(modelled);
                if (value == null) {
                    model.remove(key(modelled));
                } else {
                    model.put(key(modelled), value);
                }
            }
            for (Map.Entry<byte[], byte[]> entry : model.entrySet()) {
                assertTrue(scan.next(), where);
                assertArrayEquals(entry.getKey(), scan.key(), where);
                assertArrayEquals(entry.getValue(), scan.value(), where);
            }
            assertFalse(scan.next(), where);
            assertEquals(List.of(), db.check());
            // Changes that a look has made, such as a new tree, end no epoch of the program.
            db.abandon();
        }
    }
}
