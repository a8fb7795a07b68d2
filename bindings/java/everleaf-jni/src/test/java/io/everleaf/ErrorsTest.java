package io.everleaf;

import static io.everleaf.Help.b;
import static io.everleaf.Help.fails;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Each error that a program can provoke, by its class, its code and its text. */
class ErrorsTest {
    @TempDir
    Path folder;

    private Path path() {
        return folder.resolve("pool.ever");
    }

    @Test
    void numbersAreThoseOfTheCLibrary() throws Exception {
        Path header = Path.of("../../../crates/capi/include/everleaf.h");
        Set<ErrorCode> left = new HashSet<>(Set.of(ErrorCode.values()));
        for (String line : Files.readAllLines(header)) {
            String[] words = line.split(" ");
            if (words.length == 3 && words[0].equals("#define") && words[2].startsWith("-")) {
                String name = words[1].substring("EVERLEAF_".length());
                if (!name.equals("BUFFER_TOO_SMALL")) {
                    ErrorCode code = ErrorCode.valueOf(name);
                    assertEquals(code.number(), Integer.parseInt(words[2]), name);
                    assertTrue(left.remove(code));
                }
            }
        }
        assertEquals(Set.of(ErrorCode.NO_LIBRARY, ErrorCode.UNKNOWN), left);
        for (ErrorCode code : ErrorCode.values()) {
            Throwable made = EverleafException.of(code.number(), 0, b("text"), b("place"), null, 0);
            assertEquals(code, ((EverleafException) made).code());
        }
    }

    @Test
    void opens() throws Exception {
        assertEquals(
                2,
                fails(IoException.class, ErrorCode.IO, () -> Db.open(path(), new Options().create(false))).errno());
        fails(IoException.class, ErrorCode.IO, () -> Db.open(folder.resolve("none/pool.ever")));
        Files.write(path(), new byte[100_000]);
        fails(ForeignException.class, ErrorCode.FOREIGN, () -> Db.open(path()));
        Files.delete(path());
        try (Db db = Db.open(path())) {
            LockedException locked = fails(LockedException.class, ErrorCode.LOCKED, () -> Db.open(path()));
            assertTrue(locked.getMessage().contains("this process"), locked.getMessage());
            fails(FileExistsException.class, ErrorCode.FILE_EXISTS, () -> db.backup(path()));
        }
        fails(
                InvalidException.class,
                ErrorCode.INVALID_OPTION,
                () -> Db.open(folder.resolve("new.ever"), new Options().pageBytes(1000)));
        fails(
                UnsupportedException.class,
                ErrorCode.UNSUPPORTED,
                () -> Db.open(folder.resolve("new.ever"), new Options().storage(Options.Storage.DAX).maxBytes(1 << 24)));
        assertThrows(IllegalArgumentException.class, () -> new Options().memory(-1));
    }

    @Test
    void aFileInTheWay() throws Exception {
        // A new pool is made under another name first.
        Files.createDirectories(Path.of(path() + "-new"));
        for (int n = 0; n < 100; n++) {
            Files.createDirectories(Path.of(path() + "-new" + n));
        }
        fails(FileExistsException.class, ErrorCode.IN_THE_WAY, () -> Db.open(path()));
    }

    @Test
    void writes() {
        try (Db db = Db.open(path());
                Tree tree = db.tree("t")) {
            byte[] tooLong = new byte[65_537];
            fails(TooLongException.class, ErrorCode.KEY_TOO_LONG, () -> tree.put(tooLong, b("")));
            tree.put(new byte[65_536], b("longest"));
            assertEquals("longest", Help.s(tree.get(new byte[65_536])));
            assertThrows(NullPointerException.class, () -> tree.put(null, b("")));
            assertThrows(NullPointerException.class, () -> tree.put(b(""), null));
            assertThrows(NullPointerException.class, () -> tree.get(null));
            assertThrows(IndexOutOfBoundsException.class, () -> tree.readAt(b(""), 0, new byte[5], 3, 3));
            fails(InvalidException.class, ErrorCode.INVALID, () -> tree.readAt(b(""), -1, new byte[5], 0, 3));
            fails(
                    InvalidException.class,
                    ErrorCode.INVALID,
                    () -> tree.putFrom(b(""), java.io.InputStream.nullInputStream(), -1));
            fails(
                    TooLongException.class,
                    ErrorCode.VALUE_TOO_LONG,
                    () -> tree.putFrom(b(""), java.io.InputStream.nullInputStream(), 1L << 32));
            fails(InvalidException.class, ErrorCode.TREE_NAME, () -> db.tree(""));
            fails(InvalidException.class, ErrorCode.TREE_NAME, () -> db.tree("x".repeat(256)));
            assertThrows(IllegalArgumentException.class, () -> db.tree("\ud800"));
            db.tree("other");
            fails(TreeExistsException.class, ErrorCode.TREE_EXISTS, () -> db.renameTree("t", "other"));
            Tree dropped = db.tree("dropped");
            db.dropTree("dropped");
            fails(NoTreeException.class, ErrorCode.NO_TREE, () -> dropped.put(b("k"), b("v")));
            fails(NoTreeException.class, ErrorCode.NO_TREE, () -> dropped.get(b("k")));
            fails(InvalidException.class, ErrorCode.INVALID, () -> db.waitDurable(-5));
        }
        try (Db db = Db.open(path(), new Options().readOnly(true))) {
            Tree tree = db.openTree("t");
            fails(ReadOnlyException.class, ErrorCode.READ_ONLY, () -> tree.put(b("k"), b("v")));
            fails(ReadOnlyException.class, ErrorCode.READ_ONLY, () -> db.tree("new"));
        }
    }

    @Test
    void twoPools() {
        try (Db db = Db.open(path());
                Db other = Db.open(folder.resolve("other.ever"));
                Batch batch = db.batch();
                Transaction transaction = db.begin();
                Snapshot snapshot = db.snapshot()) {
            Tree tree = other.tree("t");
            fails(InvalidException.class, ErrorCode.OTHER_POOL, () -> batch.put(tree, b("k"), b("v")));
            fails(InvalidException.class, ErrorCode.OTHER_POOL, () -> transaction.get(tree, b("k")));
            fails(InvalidException.class, ErrorCode.OTHER_POOL, () -> snapshot.of(tree));
        }
    }

    @Test
    void conflicts() {
        try (Db db = Db.open(path());
                Tree tree = db.tree("träger");
                Transaction transaction = db.begin()) {
            byte[] key = {0, -1, 'k'};
            transaction.get(tree, key);
            tree.put(key, b("theirs"));
            transaction.put(tree, b("mine"), b(""));
            ConflictException conflict = fails(ConflictException.class, ErrorCode.CONFLICT, transaction::commit);
            assertEquals("träger", conflict.tree());
            assertArrayEquals(key, conflict.key());
            assertTrue(conflict.getMessage().contains("träger"), conflict.getMessage());
            fails(ClosedException.class, ErrorCode.CLOSED, transaction::commit);
            fails(ClosedException.class, ErrorCode.CLOSED, () -> transaction.get(tree, key));
            assertThrows(
                    ConflictException.class,
                    () -> db.transact(new TransactionOptions().attempts(3), tx -> {
                        tx.get(tree, key);
                        tree.put(key, b("theirs"));
                        tx.put(tree, b("mine"), b(""));
                        return null;
                    }));
        }
    }

    @Test
    void deadlocks() {
        try (Db db = Db.open(path());
                Tree tree = db.tree("t")) {
            TransactionOptions locks = new TransactionOptions().pessimistic(Duration.ofSeconds(10));
            try (Transaction one = db.begin(locks);
                    Transaction two = db.begin(locks)) {
                one.put(tree, b("a"), b("1"));
                // Of one thread: nobody could end the wait.
                DeadlockException deadlock =
                        fails(DeadlockException.class, ErrorCode.DEADLOCK, () -> two.put(tree, b("a"), b("2")));
                assertEquals("t", deadlock.tree());
                assertEquals("a", Help.s(deadlock.key()));
            }
        }
    }

    @Test
    void limits() {
        Options small = new Options().memory(4 << 20).snapshotMemory(1 << 20).transactionMemory(64 << 10).maxBytes(64 << 20);
        try (Db db = Db.open(path(), small);
                Tree tree = db.tree("t");
                Batch batch = db.batch();
                Snapshot snapshot = db.snapshot();
                SnapshotTree then = snapshot.of(tree)) {
            fails(TransactionTooLargeException.class, ErrorCode.TRANSACTION_TOO_LARGE, () -> {
                for (int n = 0; n < 10_000; n++) {
                    batch.put(tree, Help.number(n), new byte[100]);
                }
            });
            for (int round = 0; round < 3; round++) {
                for (int n = 0; n < 20_000; n++) {
                    tree.put(Help.number(n), new byte[200]);
                }
            }
            fails(SnapshotTooOldException.class, ErrorCode.SNAPSHOT_TOO_OLD, () -> {
                for (int n = 0; n < 20_000; n++) {
                    then.get(Help.number(n));
                }
            });
            assertTrue(db.stats().snapshotsGivenUp() > 0);
            fails(FullException.class, ErrorCode.FULL, () -> {
                for (int n = 0; n < 1_000; n++) {
                    tree.put(Help.number(-n), new byte[1 << 20]);
                }
            });
        }
    }

    @Test
    void aFullDisk() throws Exception {
        Path mount = Help.mount(folder.resolve("small"), "size=12m");
        try (Db db = Db.open(mount.resolve("pool.ever"));
                Tree tree = db.tree("t")) {
            byte[] value = new byte[100_000];
            tree.put(b("first"), b("1"));
            db.sync();
            EverleafException full = assertThrows(EverleafException.class, () -> {
                for (int n = 0; n < 10_000; n++) {
                    tree.put(Help.number(n), value);
                    db.sync();
                }
            });
            assertEquals(FullException.class, full.getClass(), full.toString());
            assertEquals(28, full.errno());
            assertEquals("1", Help.s(tree.get(b("first"))));
            // A close would need room.
            db.abandon();
        } finally {
            Help.unmount(mount);
        }
    }

    /** Reads a value that is larger than the heap. */
    static final class Large {
        private Large() {}

        public static void main(String[] arguments) {
            try (Db db = Db.inMemory(new Options());
                    Tree tree = db.tree("t")) {
                int length = 64 << 20;
                tree.putFrom(b("k"), new Zeros(), length);
                for (int n = 0; n < 3; n++) {
                    try {
                        tree.get(b("k"));
                        throw new AssertionError("it fits");
                    } catch (OutOfMemoryError expected) {
                        byte[] part = new byte[100];
                        assertEquals(100, tree.readAt(b("k"), length - 100, part, 0, 100));
                    }
                }
                assertEquals(length, tree.valueLength(b("k")));
                tree.put(b("k"), b("short"));
                assertEquals("short", Help.s(tree.get(b("k"))));
            }
            System.out.println("well");
        }
    }

    private static final class Zeros extends java.io.InputStream {
        @Override
        public int read() {
            return 0;
        }

        @Override
        public int read(byte[] bytes, int at, int length) {
            java.util.Arrays.fill(bytes, at, at + length, (byte) 0);
            return length;
        }
    }

    @Test
    void aValueThatTheHeapCannotHold() throws Exception {
        String java = System.getProperty("java.home") + "/bin/java";
        Process process = new ProcessBuilder(
                        java, "-Xmx24m", "-cp", System.getProperty("java.class.path"), Large.class.getName())
                .redirectErrorStream(true)
                .start();
        assertEquals("well", new String(process.getInputStream().readAllBytes()).strip());
    }
}
