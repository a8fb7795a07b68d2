package io.everleaf;

import static io.everleaf.Help.ORDER;
import static io.everleaf.Help.bytes;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Random operations, compared with a map of Java. */
class ModelTest {
    private static final int STEPS = Integer.getInteger("everleaf.model.steps", 20_000);

    @TempDir
    Path folder;

    private final Random random = Help.random("ModelTest");
    private final TreeMap<byte[], byte[]> model = new TreeMap<>(ORDER);
    private Db db;
    private Tree tree;

    private byte[] key() {
        if (!model.isEmpty() && random.nextInt(4) != 0) {
            byte[] near = model.ceilingKey(bytes(random, 3));
            return near != null ? near : model.firstKey();
        }
        int kind = random.nextInt(100);
        return bytes(random, kind == 0 ? 65_536 - random.nextInt(3) : kind < 10 ? random.nextInt(600) : random.nextInt(4));
    }

    private byte[] value() {
        int kind = random.nextInt(200);
        int most = kind == 0 ? 300_000 : kind < 10 ? 5_000 : 300;
        return bytes(random, random.nextInt(most));
    }

    private void open(Options options) {
        db = Db.open(folder.resolve("pool.ever"), options);
        tree = db.tree("t");
    }

    @Test
    void aTreeIsAMap() {
        Options options = new Options().memory(8 << 20).compression(Options.Compression.LZ4);
        open(options);
        for (int step = 0; step < STEPS; step++) {
            write(step);
            read();
            if (random.nextInt(STEPS / 10) == 0) {
                tree.close();
                db.close();
                open(options);
            }
            if (random.nextInt(200) == 0) {
                ranges(tree);
            }
            if (random.nextInt(500) == 0) {
                batch();
                transaction();
            }
        }
        assertEquals(model.size(), tree.size());
        assertEquals(java.util.List.of(), db.check());
        tree.close();
        db.close();
    }

    private void write(int step) {
        byte[] key = key();
        byte[] value = value();
        byte[] old = model.get(key);
        switch (random.nextInt(10)) {
            case 0, 1, 2 -> {
                tree.put(key, value);
                model.put(key, value);
            }
            case 3 -> {
                tree.delete(key);
                model.remove(key);
            }
            case 4 -> assertArrayEquals(model.put(key, value), tree.swap(key, value));
            case 5 -> assertArrayEquals(model.remove(key), tree.take(key));
            case 6 -> assertEquals(model.putIfAbsent(key, value) == null, tree.insertNew(key, value));
            case 7 -> assertEquals(model.replace(key, value) != null, tree.replace(key, value));
            case 8 -> swap(key, old, value);
            default -> {
                boolean last = random.nextBoolean();
                Map.Entry<byte[], byte[]> entry = last ? model.pollLastEntry() : model.pollFirstEntry();
                same(entry, last ? tree.popLast() : tree.popFirst());
            }
        }
        if (step % 5_000 == 4_999) {
            byte[] from = bytes(random, 1);
            byte[] to = bytes(random, 1);
            boolean isRange = ORDER.compare(from, to) <= 0;
            NavigableMap<byte[], byte[]> part =
                    isRange ? model.subMap(from, true, to, false) : new TreeMap<byte[], byte[]>(ORDER);
            assertEquals(part.size(), tree.removeRange(Range.of(from, to)));
            part.clear();
        }
    }

    private void swap(byte[] key, byte[] old, byte[] value) {
        boolean right = random.nextBoolean();
        byte[] expected = right ? old : bytes(random, 9);
        byte[] next = random.nextInt(4) == 0 ? null : value;
        assertEquals(right, tree.compareAndSwap(key, expected, next));
        if (right && next == null) {
            model.remove(key);
        } else if (right) {
            model.put(key, next);
        }
    }

    private void read() {
        byte[] key = key();
        byte[] value = model.get(key);
        assertArrayEquals(value, tree.get(key));
        assertEquals(value != null, tree.contains(key));
        assertEquals(value == null ? -1 : value.length, tree.valueLength(key));
        byte[] into = new byte[50];
        int copied = tree.readAt(key, 10, into, 5, 40);
        if (value == null) {
            assertEquals(-1, copied);
        } else {
            int most = Math.max(0, Math.min(40, value.length - 10));
            assertEquals(most, copied);
            assertArrayEquals(
                    Arrays.copyOfRange(value, Math.min(10, value.length), Math.min(10, value.length) + most),
                    Arrays.copyOfRange(into, 5, 5 + most));
        }
        same(model.floorEntry(key), tree.floor(key));
        same(model.ceilingEntry(key), tree.ceiling(key));
    }

    static void same(Map.Entry<byte[], byte[]> expected, Pair pair) {
        if (expected == null) {
            assertNull(pair);
        } else {
            assertArrayEquals(expected.getKey(), pair.key());
            assertArrayEquals(expected.getValue(), pair.value());
        }
    }

    private void ranges(ReadTree read) {
        same(model.firstEntry(), read.first());
        same(model.lastEntry(), read.last());
        assertEquals(model.isEmpty(), read.isEmpty());
        walk(model, read, Range.all());
        walk(model.descendingMap(), read, Range.all().reversed());
        byte[] from = key();
        byte[] to = key();
        if (ORDER.compare(from, to) > 0) {
            try (Scan scan = read.scan(Range.of(from, to))) {
                assertFalse(scan.next());
            }
            byte[] swap = from;
            from = to;
            to = swap;
        }
        walk(model.subMap(from, true, to, false), read, Range.of(from, to));
        walk(model.subMap(from, true, to, true), read, Range.all().from(from).upTo(to));
        walk(model.tailMap(from, false), read, Range.all().above(from));
        walk(model.subMap(from, false, to, true).descendingMap(), read, Range.all().above(from).upTo(to).reversed());
        byte[] prefix = random.nextInt(4) == 0 ? new byte[] {-1} : bytes(random, 1);
        NavigableMap<byte[], byte[]> part = model.tailMap(prefix, true);
        if (prefix[0] != -1) {
            part = part.headMap(new byte[] {(byte) (prefix[0] + 1)}, false);
        }
        walk(part, read, Range.prefix(prefix));
        try (Scan keys = read.scan(Range.all().keysOnly())) {
            for (byte[] key : model.keySet()) {
                assertTrue(keys.next());
                assertArrayEquals(key, keys.key());
                assertEquals(0, keys.value().length);
            }
            assertFalse(keys.next());
        }
        cursor(read);
    }

    private static void walk(Map<byte[], byte[]> expected, ReadTree read, Range range) {
        try (Scan scan = read.scan(range)) {
            for (Map.Entry<byte[], byte[]> entry : expected.entrySet()) {
                assertTrue(scan.next());
                assertArrayEquals(entry.getKey(), scan.key());
                assertArrayEquals(entry.getValue(), scan.value());
            }
            assertFalse(scan.next());
            assertFalse(scan.next());
        }
    }

    private void cursor(ReadTree read) {
        try (Cursor cursor = read.cursor()) {
            for (int step = 0; step < 50; step++) {
                byte[] key = key();
                boolean up = random.nextBoolean();
                Map.Entry<byte[], byte[]> at = up ? model.ceilingEntry(key) : model.floorEntry(key);
                assertEquals(at != null, up ? cursor.seek(key) : cursor.seekForPrev(key));
                for (int more = 0; at != null && more < 5; more++) {
                    assertArrayEquals(at.getKey(), cursor.key());
                    assertArrayEquals(at.getValue(), cursor.value());
                    at = up ? model.higherEntry(at.getKey()) : model.lowerEntry(at.getKey());
                    assertEquals(at != null, up ? cursor.next() : cursor.prev());
                }
            }
        }
    }

    /** A batch, beside a snapshot that does not see it. */
    private void batch() {
        TreeMap<byte[], byte[]> before = new TreeMap<>(model);
        try (Snapshot snapshot = db.snapshot();
                SnapshotTree then = snapshot.of(tree);
                Batch batch = db.batch()) {
            for (int n = 0; n < 20; n++) {
                byte[] key = key();
                byte[] value = value();
                if (random.nextInt(3) == 0) {
                    batch.delete(tree, key);
                    model.remove(key);
                } else {
                    batch.put(tree, key, value);
                    model.put(key, value);
                }
            }
            batch.commit();
            assertEquals(0, batch.size());
            walk(before, then, Range.all());
            assertEquals(before.size(), then.size());
        }
    }

    private void transaction() {
        TreeMap<byte[], byte[]> own = new TreeMap<>(model);
        try (Transaction transaction = db.begin()) {
            for (int n = 0; n < 20; n++) {
                byte[] key = key();
                byte[] value = value();
                assertArrayEquals(own.get(key), transaction.get(tree, key));
                if (random.nextInt(3) == 0) {
                    assertArrayEquals(own.remove(key), transaction.take(tree, key));
                } else {
                    transaction.put(tree, key, value);
                    own.put(key, value);
                }
            }
            try (Scan scan = transaction.scan(tree, Range.all().reversed())) {
                for (Map.Entry<byte[], byte[]> entry : own.descendingMap().entrySet()) {
                    assertTrue(scan.next());
                    assertArrayEquals(entry.getKey(), scan.key());
                    assertArrayEquals(entry.getValue(), scan.value());
                }
                assertFalse(scan.next());
            }
            walk(model, tree, Range.all());
            if (random.nextBoolean()) {
                transaction.commit();
                model.clear();
                model.putAll(own);
            }
        }
    }
}
