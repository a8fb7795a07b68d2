package io.everleaf;

import static io.everleaf.Help.b;
import static io.everleaf.Help.s;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Tests of what the model test does not do: pools, epochs, streams, transactions that meet. */
class MethodsTest {
    @TempDir
    Path folder;

    private Db open() {
        return Db.open(folder.resolve("pool.ever"));
    }

    @Test
    void aPoolHasTreesByName() {
        assertEquals(NativeLibrary.VERSION, Db.version());
        try (Db db = open()) {
            assertEquals(folder.resolve("pool.ever"), db.path());
            assertEquals(List.of(), db.treeNames());
            assertNull(db.openTree("größer"));
            try (Tree tree = db.tree("größer");
                    Tree same = db.openTree("größer")) {
                tree.put(b("k"), b("v"));
                assertEquals("v", s(same.get(b("k"))));
                assertEquals("größer", tree.name());
                assertTrue(tree.toString().contains("größer"));
            }
            assertEquals(List.of("größer"), db.treeNames());
            assertTrue(db.renameTree("größer", "𝄞"));
            assertFalse(db.renameTree("größer", "x"));
            assertEquals(List.of("𝄞"), db.treeNames());
            assertTrue(db.dropTree("𝄞"));
            assertFalse(db.dropTree("𝄞"));
            try (Tree tree = db.tree("t")) {
                assertEquals(0, tree.clear());
                tree.put(b(""), b(""));
                assertEquals(new Pair(b(""), b("")), tree.first());
                assertEquals(new Pair(b(""), b("")).hashCode(), tree.last().hashCode());
                assertEquals(1, tree.clear());
                assertTrue(tree.isEmpty());
                assertNull(tree.popFirst());
            }
        }
    }

    @Test
    void namesOfFilesMayHaveAnyBytes() throws Exception {
        // Also where the locale is C, in which Java cannot write this name as text.
        Path path = folder.resolve("a b%20+.ever");
        Db.open(path).close();
        assertTrue(Files.exists(path));
        Path relative = Path.of("").toAbsolutePath().relativize(path.toAbsolutePath());
        Db.open(relative, new Options().create(false)).close();
        Path folderItself = Files.createDirectory(folder.resolve("folder"));
        assertThrows(EverleafException.class, () -> Db.open(folderItself));
        Path archive = folder.resolve("a.zip");
        try (java.nio.file.FileSystem zip = java.nio.file.FileSystems.newFileSystem(archive, java.util.Map.of("create", "true"))) {
            assertThrows(IllegalArgumentException.class, () -> Db.open(zip.getPath("/pool.ever")));
        }
    }

    @Test
    void whatIsWrittenIsThereAfterAClose() {
        try (Db db = open()) {
            db.tree("t", Durability.SYNC).put(b("k"), b("v"));
        }
        try (Db db = Db.open(folder.resolve("pool.ever"), new Options().readOnly(true))) {
            assertEquals("v", s(db.openTree("t").get(b("k"))));
        }
    }

    @Test
    void allOptionsAreAccepted() {
        Options options = new Options()
                .interval(Duration.ofMillis(5))
                .durability(Durability.BUFFERED)
                .journalBytes(16 << 20)
                .pendingBytes(1 << 20)
                .pageBytes(8192)
                .maxBytes(1 << 30)
                .create(true)
                .readOnly(false)
                .storage(Options.Storage.FILE)
                .manualEpochs(false)
                .background(true)
                .compression(Options.Compression.LZ4)
                .memory(32 << 20)
                .snapshotMemory(8 << 20)
                .transactionMemory(8 << 20);
        try (Db db = Db.open(folder.resolve("pool.ever"), options);
                Db memory = Db.inMemory(new Options())) {
            assertEquals(8192, db.stats().pageBytes());
            long most = db.stats().memoryMostBytes();
            assertTrue(most > 16 << 20 && most <= 32 << 20, "" + most);
            assertNull(memory.path());
            memory.tree("t").put(b("k"), b("v"));
            assertTrue(memory.toString().contains("in memory"));
        }
    }

    @Test
    void theProgramEndsEpochs() throws Exception {
        Options manual = new Options().manualEpochs(true);
        try (Db db = Db.open(folder.resolve("pool.ever"), manual)) {
            Tree tree = db.tree("t");
            tree.put(b("kept"), b("v"));
            for (int n = 0; n < 200; n++) {
                tree.put(b("some"), new byte[100]);
            }
            tree.delete(b("some"));
            assertTrue(db.pendingBytes() > 10_000, "" + db.pendingBytes());
            assertEquals(db.epoch(), db.endEpoch());
            long second = db.epoch();
            tree.put(b("also"), b("v"));
            assertFalse(db.waitDurable(second, Duration.ofMillis(250)));
            assertEquals(second, db.endEpoch());
            assertTrue(db.waitDurable(second, Duration.ofSeconds(60)));
            db.waitDurable(second);
            assertTrue(db.durableEpoch() >= second);
            tree.put(b("lost"), b("v"));
            // None of these ends the epoch.
            db.checkpoint();
            db.compact();
            assertTrue(db.backup(folder.resolve("copy.ever")) >= second);
            assertTrue(db.stats().epoch() > second);
            db.abandon();
            db.abandon();
        }
        for (String name : List.of("pool.ever", "copy.ever")) {
            try (Db db = Db.open(folder.resolve(name), manual)) {
                Tree tree = db.openTree("t");
                assertEquals(2, tree.size());
                assertNull(tree.get(b("lost")));
                tree.put(b("lost"), b("v"));
                db.sync();
            }
        }
        try (Db db = Db.open(folder.resolve("pool.ever"), manual)) {
            assertEquals(3, db.openTree("t").size());
        }
    }

    @Test
    void aWaitCanBeInterrupted() throws Exception {
        try (Db db = Db.open(folder.resolve("pool.ever"), new Options().manualEpochs(true))) {
            long epoch = db.epoch();
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, () -> db.waitDurable(epoch, Duration.ofDays(1_000_000)));
            assertFalse(db.waitDurable(epoch, Duration.ZERO));
        }
    }

    @Test
    void poolsAreCopiedCompactedCheckedAndCounted() {
        try (Db db = open()) {
            Tree tree = db.tree("t");
            Random random = new Random(1);
            for (int n = 0; n < 20_000; n++) {
                tree.put(Help.number(n), Help.bytes(random, 100));
            }
            db.sync();
            db.checkpoint();
            tree.clear();
            Db.Compaction compaction = db.compact();
            assertTrue(compaction.afterBytes() < compaction.beforeBytes(), compaction.toString());
            assertEquals(List.of(), db.check());
            Stats stats = db.stats();
            assertEquals(compaction.afterBytes(), stats.fileBytes());
            assertTrue(stats.journalWrittenBytes() > 2_000_000);
            assertTrue(stats.durableEpoch() <= stats.epoch());
            assertNotEquals(new java.util.UUID(0, 0), stats.uuid());
            assertEquals(1, stats.openGeneration());
        }
    }

    private static String walk(BooleanSupplier step, Supplier<byte[]> key) {
        StringBuilder keys = new StringBuilder();
        while (keys.length() < 20) {
            try {
                if (!step.getAsBoolean()) {
                    break;
                }
                keys.append(s(key.get()));
            } catch (CorruptException failure) {
                keys.append('!');
            }
        }
        return keys.toString();
    }

    private static void walks(Transaction transaction, Tree tree) {
        try (Scan scan = transaction.scan(tree, Range.all());
                Scan reverse = transaction.scan(tree, Range.all().reversed());
                Scan keys = transaction.scan(tree, Range.all().from(b("e")).keysOnly());
                Cursor cursor = transaction.cursor(tree)) {
            assertEquals("abc!!fg", walk(scan::next, scan::key));
            assertEquals("gf!!cba", walk(reverse::next, reverse::key));
            assertEquals("fg", walk(keys::next, keys::key).replace("e", "").replace("!", ""));
            assertEquals("abc!!fg", walk(cursor::next, cursor::key));
            assertEquals("gf!!cba", walk(cursor::prev, cursor::key));
            assertTrue(cursor.first());
            assertEquals("bc!!fg", walk(cursor::next, cursor::key));
            assertTrue(cursor.last());
            assertEquals("f!!cba", walk(cursor::prev, cursor::key));
            // From the pair itself on, and back.
            assertThrows(CorruptException.class, () -> cursor.seek(b("d")));
            assertNull(cursor.key());
            assertEquals("!fg", walk(cursor::next, cursor::key));
            assertThrows(CorruptException.class, () -> cursor.seekForPrev(b("e")));
            assertEquals("!cba", walk(cursor::prev, cursor::key));
            assertTrue(cursor.seek(b("c")));
            assertThrows(CorruptException.class, cursor::next);
            assertNull(cursor.key());
            assertEquals("cba", walk(cursor::prev, cursor::key));
        }
    }

    @Test
    void aTransactionPassesOverPairsThatCannotBeRead() throws IOException {
        Path path = folder.resolve("pool.ever");
        try (Db db = open();
                Tree tree = db.tree("t")) {
            for (byte key = 'a'; key <= 'g'; key++) {
                byte[] value = new byte[key == 'd' || key == 'e' ? 20_000 : 3];
                Arrays.fill(value, (byte) (key ^ 0xA5));
                tree.put(new byte[] {key}, value);
            }
        }
        byte[] file = Files.readAllBytes(path);
        for (byte key : b("de")) {
            int run = 0;
            int at = 0;
            while (run < 1000) {
                run = file[at++] == (byte) (key ^ 0xA5) ? run + 1 : 0;
            }
            file[at - 500] ^= 1;
        }
        Files.write(path, file);
        try (Db db = open();
                Tree tree = db.tree("t");
                Transaction transaction = db.begin()) {
            assertTrue(transaction.contains(tree, b("a")));
            walks(transaction, tree);
            // Now it needs the values of before, and nobody could keep them.
            tree.put(b("d"), b("new"));
            tree.put(b("e"), b("new"));
            walks(transaction, tree);
        }
    }

    /** It is there after the exception, and not lost. */
    @Test
    void aValueThatFitsNoArrayStays() {
        InputStream zeros = new InputStream() {
            @Override
            public int read() {
                return 0;
            }

            @Override
            public int read(byte[] into, int at, int length) {
                return length;
            }
        };
        // So that the file is small.
        Options options = new Options().compression(Options.Compression.LZ4);
        try (Db db = Db.open(folder.resolve("pool.ever"), options);
                Tree tree = db.tree("t")) {
            tree.putFrom(b("k"), zeros, Integer.MAX_VALUE);
            for (Executable change : List.<Executable>of(
                    () -> tree.take(b("k")),
                    () -> tree.swap(b("k"), b("")),
                    tree::popFirst,
                    tree::popLast,
                    () -> db.transact(transaction -> transaction.take(tree, b("k"))))) {
                InvalidException failure = Help.fails(InvalidException.class, ErrorCode.INVALID, change);
                assertTrue(failure.getMessage().contains("readAt"), failure.getMessage());
                assertEquals(Integer.MAX_VALUE, tree.valueLength(b("k")));
            }
            tree.put(b("k"), b("v"));
            assertEquals("v", s(tree.take(b("k"))));
        }
    }

    @Test
    void aDamageIsListedWithItsPlace() throws IOException {
        Path path = folder.resolve("pool.ever");
        try (Db db = open()) {
            for (int n = 0; n < 5_000; n++) {
                db.tree("t").put(Help.number(n), Help.bytes(new Random(n), 100));
            }
        }
        byte[] file = Files.readAllBytes(path);
        for (int at = file.length / 2; at < file.length / 2 + 4096; at++) {
            file[at] ^= 0x55;
        }
        Files.write(path, file);
        try (Db db = open()) {
            List<Db.Damage> damages = db.check();
            assertFalse(damages.isEmpty());
            assertEquals("data", damages.get(0).file());
            assertTrue(damages.get(0).offset() > 0);
            assertFalse(damages.get(0).what().isBlank());
            CorruptException failure = Help.fails(CorruptException.class, ErrorCode.CORRUPT, () -> {
                Tree tree = db.tree("t");
                for (int n = 0; n < 5_000; n++) {
                    tree.get(Help.number(n));
                }
            });
            assertEquals("data", failure.file());
            assertTrue(failure.offset() > 0);
            db.abandon();
        }
    }

    @Test
    void valuesAreStreamed() {
        byte[] value = Help.bytes(new Random(3), 3_000_001);
        try (Db db = open();
                Tree tree = db.tree("t")) {
            tree.putFrom(b("k"), new ByteArrayInputStream(value), value.length);
            assertArrayEquals(value, tree.get(b("k")));
            tree.putFrom(b("part"), new ByteArrayInputStream(value), 5);
            assertEquals(5, tree.valueLength(b("part")));
            // One pair that is larger than the largest buffer, between small ones.
            tree.put(b("a"), b("1"));
            tree.put(b("z"), b("2"));
            try (Scan scan = tree.scan()) {
                int pairs = 0;
                for (; scan.next(); pairs++) {
                    assertArrayEquals(tree.get(scan.key()), scan.value());
                }
                assertEquals(4, pairs);
            }
            Help.fails(
                    InvalidException.class,
                    ErrorCode.READER_ENDED,
                    () -> tree.putFrom(b("k"), new ByteArrayInputStream(value), value.length + 1L));
            InputStream broken = new InputStream() {
                @Override
                public int read() {
                    throw new IllegalStateException("broken");
                }
            };
            assertEquals(
                    "broken",
                    assertThrows(IllegalStateException.class, () -> tree.putFrom(b("k"), broken, 100_000)).getMessage());
            assertArrayEquals(value, tree.get(b("k")));
        }
    }

    @Test
    void transactionsThatMeetAreRunAgain() throws Exception {
        try (Db db = open();
                Tree tree = db.tree("t")) {
            tree.put(b("n"), Help.number(0));
            Thread[] threads = new Thread[4];
            for (int t = 0; t < threads.length; t++) {
                TransactionOptions options = t == 0
                        ? new TransactionOptions().attempts(1_000_000).pessimistic(Duration.ofSeconds(1))
                        : new TransactionOptions().attempts(1_000_000);
                threads[t] = new Thread(() -> {
                    for (int n = 0; n < 500; n++) {
                        db.transact(options, tx -> {
                            tx.put(tree, b("n"), Help.number(Help.number(tx.get(tree, b("n"))) + 1));
                            return null;
                        });
                    }
                });
                threads[t].start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(2_000, Help.number(tree.get(b("n"))));
            assertTrue(db.stats().transactions() >= 2_000);
            assertEquals("x", db.transact(tx -> "x"));
            assertThrows(IllegalStateException.class, () -> db.transact(tx -> {
                tx.put(tree, b("n"), b("gone"));
                throw new IllegalStateException();
            }));
            assertEquals(2_000, Help.number(tree.get(b("n"))));
        }
    }

    @Test
    void aTransactionReadsAndWrites() {
        try (Db db = open();
                Tree tree = db.tree("t");
                Transaction tx = db.begin(new TransactionOptions().snapshotIsolation().durability(Durability.SYNC))) {
            for (String key : List.of("a", "b", "c")) {
                tree.put(b(key), b(key + key));
            }
            assertTrue(tx.contains(tree, b("a")));
            assertEquals(2, tx.valueLength(tree, b("a")));
            assertEquals(-1, tx.valueLength(tree, b("x")));
            byte[] into = new byte[2];
            assertEquals(1, tx.readAt(tree, b("a"), 1, into, 1, 1));
            assertArrayEquals(new byte[] {0, 'a'}, into);
            assertEquals(3, tx.size(tree));
            assertEquals("a", s(tx.first(tree).key()));
            assertEquals("c", s(tx.last(tree).key()));
            assertEquals("b", s(tx.floor(tree, b("bb")).key()));
            assertEquals("c", s(tx.ceiling(tree, b("bb")).key()));
            assertFalse(tx.insertNew(tree, b("a"), b("")));
            assertTrue(tx.insertNew(tree, b("d"), b("dd")));
            assertTrue(tx.compareAndSwap(tree, b("d"), b("dd"), b("e")));
            assertFalse(tx.compareAndSwap(tree, b("d"), b("dd"), b("e")));
            tx.delete(tree, b("a"));
            assertEquals(1, tx.removeRange(tree, Range.of(b("b"), b("c"))));
            assertEquals(0, tx.removeRange(tree, Range.of(b("c"), b("b"))));
            assertEquals("cc", s(tx.take(tree, b("c"))));
            assertEquals(3, tree.size());
            tx.commit();
            assertEquals(new Pair(b("d"), b("e")), tree.first());
            assertEquals(1, tree.size());
            try (Transaction aborted = db.begin()) {
                aborted.delete(tree, b("d"));
                aborted.abort();
            }
            assertEquals(1, tree.size());
        }
    }

    @Test
    void aScanEndsWithItsTransaction() {
        try (Db db = open();
                Tree tree = db.tree("t")) {
            tree.put(b("a"), b("1"));
            for (int way = 0; way < 3; way++) {
                Transaction tx = db.begin();
                tx.get(tree, b("a"));
                try (Scan scan = tx.scan(tree, Range.all())) {
                    switch (way) {
                        case 0 -> tx.commit();
                        case 1 -> tx.abort();
                        default -> tx.close();
                    }
                    Help.fails(ClosedException.class, ErrorCode.CLOSED, scan::next);
                    // Nothing keeps the moment that it saw.
                    assertEquals(0, db.stats().snapshots());
                }
                tx.close();
            }
        }
    }

    @Test
    void aBatchIsClearedAndFilledAgain() {
        try (Db db = open();
                Tree tree = db.tree("t");
                Batch batch = db.batch(Durability.SYNC)) {
            assertEquals(2, batch.put(tree, b("a"), b("1")).delete(tree, b("b")).size());
            batch.clear();
            batch.commit();
            assertEquals(0, tree.size());
            batch.put(tree, b("a"), b("1")).commit();
            batch.put(tree, b("b"), b("2")).commit();
            assertEquals(2, tree.size());
        }
    }

    @Test
    void aSnapshotKeepsItsMoment() {
        try (Db db = open();
                Tree tree = db.tree("t")) {
            tree.put(b("a"), b("1"));
            try (Snapshot snapshot = db.snapshot();
                    SnapshotTree then = snapshot.tree("t")) {
                tree.put(b("a"), b("2"));
                db.tree("later");
                assertNull(snapshot.tree("later"));
                assertEquals(List.of("t"), snapshot.treeNames());
                assertEquals("1", s(then.get(b("a"))));
                assertTrue(db.stats().snapshots() >= 1);
                snapshot.close();
                // The tree keeps it.
                assertEquals("1", s(then.get(b("a"))));
                try (Cursor cursor = then.cursor()) {
                    assertNull(cursor.key());
                    assertTrue(cursor.last());
                    assertTrue(cursor.first());
                    assertEquals("1", s(cursor.value()));
                    assertFalse(cursor.next());
                    assertTrue(cursor.prev());
                }
            }
        }
    }
}
