package io.everleaf;

import static io.everleaf.Help.b;
import static io.everleaf.Help.fails;
import static io.everleaf.Help.s;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Many pairs at once, functions on values, counts, and cursors of transactions. */
class BulkTest {
    private Db db;
    private Tree tree;

    @BeforeEach
    void begin() {
        db = Db.inMemory(new Options());
        tree = db.tree("t");
    }

    @AfterEach
    void end() {
        tree.close();
        db.close();
    }

    private static List<String> texts(List<byte[]> values) {
        return values.stream().map(value -> value == null ? "-" : s(value)).toList();
    }

    @Test
    void manyValuesComeInTheirOrder() {
        tree.put(b("a"), b("1"));
        tree.put(b(""), b(""));
        tree.put(b("c"), new byte[100_000]);
        List<byte[]> keys = List.of(b("b"), b("a"), b(""), b("a"));
        assertEquals(List.of("-", "1", "", "1"), texts(tree.getMany(keys)));
        assertEquals(100_000, tree.getMany(List.of(b("c"))).get(0).length);
        assertEquals(List.of(), tree.getMany(List.of()));
        try (Snapshot snapshot = db.snapshot();
                SnapshotTree then = snapshot.of(tree);
                Transaction transaction = db.begin()) {
            tree.put(b("a"), b("2"));
            assertEquals(List.of("-", "1", "", "1"), texts(then.getMany(keys)));
            transaction.put(tree, b("b"), b("3"));
            assertEquals(List.of("3", "2", "", "2"), texts(transaction.getMany(tree, keys)));
            tree.put(b("a"), b("4"));
            // Values that were got count as read.
            assertThrows(ConflictException.class, transaction::commit);
        }
        assertThrows(NullPointerException.class, () -> tree.getMany(Arrays.asList(b("a"), null)));
        assertEquals(List.of("-"), texts(tree.getMany(List.of(new byte[65_537]))));
    }

    @Test
    void sortedPairsAreLoaded() {
        Iterable<Pair> pairs = () -> IntStream.range(0, 50_000)
                .mapToObj(n -> new Pair(Help.number(n), Help.number(n * 3L)))
                .iterator();
        assertEquals(50_000, tree.loadSorted(pairs));
        assertEquals(50_000, tree.size());
        assertEquals(3 * 777, Help.number(tree.get(Help.number(777))));
        assertEquals(0, tree.loadSorted(List.of()));
        byte[] large = Help.bytes(new Random(1), 300_000);
        assertEquals(3, tree.loadSorted(List.of(
                new Pair(Help.number(60_000), b("x")), new Pair(Help.number(60_001), large),
                new Pair(Help.number(60_002), b("y")))));
        assertArrayEquals(large, tree.get(Help.number(60_001)));
        assertEquals("y", s(tree.get(Help.number(60_002))));
    }

    @Test
    void aLoadKeepsWhatCameBeforeAnException() {
        InvalidException failure = fails(InvalidException.class, ErrorCode.NOT_ASCENDING, () -> tree.loadSorted(
                List.of(new Pair(b("a"), b("1")), new Pair(b("c"), b("2")), new Pair(b("b"), b("3")))));
        assertTrue(failure.getMessage().contains("2"), failure.getMessage());
        assertEquals(2, tree.size());
        IllegalStateException own = new IllegalStateException("no more");
        Iterator<Pair> fails = new Iterator<>() {
            private int given;

            @Override
            public boolean hasNext() {
                return true;
            }

            @Override
            public Pair next() {
                if (given == 3) {
                    throw own;
                }
                return new Pair(Help.number(given++), b("v"));
            }
        };
        tree.clear();
        assertSame(own, assertThrows(IllegalStateException.class, () -> tree.loadSorted(() -> fails)));
        assertEquals(3, tree.size());
        assertThrows(NullPointerException.class, () -> tree.loadSorted(Arrays.asList(new Pair(b("z"), null))));
        // An iterator may use the pool itself.
        Iterator<Pair> reads = List.of(new Pair(b("zz"), b("1"))).iterator();
        assertEquals(1, tree.loadSorted(() -> new Iterator<>() {
            @Override
            public boolean hasNext() {
                tree.put(b("more"), b("1"));
                return reads.hasNext();
            }

            @Override
            public Pair next() {
                return reads.next();
            }
        }));
        assertEquals("1", s(tree.get(b("more"))));
    }

    @Test
    void aFunctionChangesAValue() throws Exception {
        assertEquals("1", s(tree.update(b("k"), old -> old == null ? b("1") : b("2"))));
        assertEquals("2", s(tree.update(b("k"), old -> old == null ? b("1") : b("2"))));
        assertNull(tree.update(b("k"), old -> null));
        assertNull(tree.get(b("k")));
        assertNull(tree.update(b("k"), old -> null));
        tree.put(b("k"), b("v"));
        IllegalStateException own = new IllegalStateException("no");
        assertSame(own, assertThrows(IllegalStateException.class, () -> tree.update(b("k"), old -> {
            throw own;
        })));
        assertEquals("v", s(tree.get(b("k"))));
        // It may use the pool, and is asked again if that changes the value.
        int[] calls = new int[1];
        assertEquals("w+", s(tree.update(b("k"), old -> {
            if (calls[0]++ == 0) {
                tree.put(b("k"), b("w"));
            }
            return b(s(old) + "+");
        })));
        assertEquals(2, calls[0]);
        fails(ConflictException.class, ErrorCode.CONFLICT, () -> tree.update(b("k"), old -> {
            tree.put(b("k"), Help.number(calls[0]++));
            return b("x");
        }));
        countTogether();
    }

    private void countTogether() throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            Thread thread = new Thread(() -> {
                for (int n = 0; n < 2_000; n++) {
                    tree.update(b("n"), old -> Help.number(old == null ? 1 : Help.number(old) + 1));
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(8_000, Help.number(tree.get(b("n"))));
    }

    @Test
    void aTransactionChangesAValue() {
        try (Transaction transaction = db.begin()) {
            assertEquals("1", s(transaction.update(tree, b("a"), old -> b("1"))));
            assertEquals("11", s(transaction.update(tree, b("a"), old -> b(s(old) + s(transaction.get(tree, b("a")))))));
            transaction.put(tree, b("b"), b("1"));
            assertNull(transaction.update(tree, b("b"), old -> null));
            assertNull(transaction.update(tree, b("c"), old -> null));
            transaction.commit();
        }
        assertEquals("11", s(tree.get(b("a"))));
        assertEquals(1, tree.size());
    }

    @Test
    void allIsCounted() {
        for (int n = 0; n < 5_000; n++) {
            tree.put(Help.number(n), new byte[50]);
        }
        try (Tree empty = db.tree("a")) {
            assertTrue(empty.isEmpty());
        }
        Counts counts = db.count();
        assertEquals(List.of("a", "t"), counts.trees().stream().map(Counts.OfTree::name).toList());
        Counts.OfTree found = counts.trees().get(1);
        assertEquals(5_000, found.entries());
        assertEquals(5_000 * 8, found.keyBytes());
        assertEquals(5_000 * 50, found.valueBytes());
        assertEquals(found.depth(), found.nodesByLevel().size());
        assertTrue(found.depth() >= 2 && found.nodesByLevel().get(0) > 10, found.toString());
        assertTrue(found.fill() > 0.3 && found.fill() <= 1, found.toString());
        assertTrue(counts.pages().values().stream().mapToLong(Long::longValue).sum() > 10, counts.toString());
        assertEquals(0, counts.trees().get(0).entries());
    }

    private static String at(Cursor cursor, boolean isThere) {
        byte[] key = cursor.key();
        return isThere + " " + (key == null ? "-" : s(key)) + " " + (cursor.value() == null ? "-" : s(cursor.value()));
    }

    private static boolean go(Cursor cursor, int step, byte[] key) {
        return switch (step) {
            case 0 -> cursor.first();
            case 1 -> cursor.last();
            case 2 -> cursor.seek(key);
            case 3 -> cursor.seekForPrev(key);
            case 4, 5, 6, 7 -> cursor.next();
            default -> cursor.prev();
        };
    }

    /** It does what one of a tree does with the same pairs, also when pairs come and go under it. */
    @Test
    void aCursorOfATransactionIsOne() {
        Random random = Help.random("BulkTest");
        try (Tree same = db.tree("same");
                Transaction transaction = db.begin();
                Cursor expected = same.cursor();
                Cursor found = transaction.cursor(tree)) {
            assertNull(found.key());
            assertNull(found.value());
            for (int n = 0; n < 20_000; n++) {
                byte[] key = b("" + random.nextInt(40));
                switch (random.nextInt(12)) {
                    case 0, 1 -> {
                        same.put(key, b("" + n));
                        transaction.put(tree, key, b("" + n));
                    }
                    case 2, 3 -> {
                        same.delete(key);
                        transaction.delete(tree, key);
                    }
                    default -> {
                        int step = random.nextInt(12);
                        String other = at(expected, go(expected, step, key));
                        assertEquals(other, at(found, go(found, step, key)), "step " + step + " of round " + n);
                    }
                }
            }
            transaction.commit();
            fails(ClosedException.class, ErrorCode.CLOSED, found::next);
            fails(ClosedException.class, ErrorCode.CLOSED, found::key);
        }
        try (Transaction transaction = db.begin();
                Cursor cursor = transaction.cursor(tree)) {
            assertTrue(cursor.first());
            byte[] first = cursor.key();
            tree.put(first, b("other"));
            transaction.put(tree, b("x"), b("y"));
            // The pair counts as read.
            assertThrows(ConflictException.class, transaction::commit);
        }
    }
}
