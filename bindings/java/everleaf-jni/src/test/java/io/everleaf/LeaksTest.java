package io.everleaf;

import static io.everleaf.Help.b;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Objects that nobody closes. */
class LeaksTest {
    private static final Logger LOGGER = Logger.getLogger("io.everleaf");

    private final Queue<String> warnings = new ConcurrentLinkedQueue<>();
    private final Handler handler = new Handler() {
        @Override
        public void publish(LogRecord record) {
            warnings.add(record.getMessage());
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    };

    @TempDir
    Path folder;

    @BeforeEach
    void listen() throws Exception {
        // Collects what earlier tests have left.
        collect();
        LOGGER.addHandler(handler);
        LOGGER.setUseParentHandlers(false);
    }

    @AfterEach
    void listenNoMore() {
        LOGGER.removeHandler(handler);
        LOGGER.setUseParentHandlers(true);
    }

    private static void collect() throws InterruptedException {
        for (int n = 0; n < 3; n++) {
            System.gc();
            Thread.sleep(50);
        }
    }

    private void expect(String... expected) throws InterruptedException {
        for (int n = 0; n < 100 && warnings.size() < expected.length; n++) {
            collect();
        }
        collect();
        assertEquals(java.util.List.of(expected), warnings.stream().sorted().toList());
    }

    private static void leak(Db db) {
        Tree tree = db.tree("t");
        tree.put(b("k"), b("v"));
        tree.scan();
        db.snapshot().of(tree);
        db.batch();
    }

    @Test
    void whatIsNotClosedIsNamed() throws Exception {
        try (Db db = Db.inMemory(new Options())) {
            leak(db);
            expect(
                    "a batch was not closed before it was collected",
                    "a scan was not closed before it was collected",
                    "a snapshot was not closed before it was collected",
                    "a tree of a snapshot was not closed before it was collected",
                    "a tree was not closed before it was collected");
            assertEquals(0, db.stats().snapshots());
        }
    }

    @Test
    void afterTheCloseOfThePoolNothingIsSaid() throws Exception {
        try (Db db = Db.inMemory(new Options())) {
            leak(db);
        }
        expect();
    }

    private void open(Options options, boolean end) {
        Db db = Db.open(folder.resolve("pool.ever"), options);
        try (Tree tree = db.tree("t")) {
            tree.put(b("k"), b("1"));
            if (end) {
                db.endEpoch();
                tree.put(b("k"), b("2"));
            }
        }
    }

    @Test
    void aPoolIsClosed() throws Exception {
        open(new Options(), false);
        expect("a pool was not closed before it was collected");
        try (Db db = again()) {
            assertEquals("1", Help.s(db.openTree("t").get(b("k"))));
        }
    }

    @Test
    void aPoolWhoseEpochsTheProgramEndsKeepsWhatWasEnded() throws Exception {
        open(new Options().manualEpochs(true), true);
        expect("a pool was not closed before it was collected");
        try (Db db = again()) {
            assertEquals("1", Help.s(db.openTree("t").get(b("k"))));
        }
    }

    /** The cleaner may still be at it. */
    private Db again() throws InterruptedException {
        for (int n = 0; ; n++) {
            try {
                return Db.open(folder.resolve("pool.ever"));
            } catch (LockedException locked) {
                assertTrue(n < 100);
                Thread.sleep(20);
            }
        }
    }

    @Test
    void aTreeKeepsItsPool() throws Exception {
        Tree tree = onlyTree();
        collect();
        tree.put(b("k"), b("v"));
        assertTrue(warnings.isEmpty());
        assertNull(tree.get(b("x")));
        tree.db.close();
        tree.close();
    }

    private static Tree onlyTree() {
        return Db.inMemory(new Options()).tree("t");
    }
}
