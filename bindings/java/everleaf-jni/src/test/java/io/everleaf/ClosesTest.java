package io.everleaf;

import static io.everleaf.Help.b;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.function.Executable;

/** Closes in any order, twice, and while other threads are in calls: exceptions, and nothing worse. */
class ClosesTest {
    private static final int ROUNDS = Integer.getInteger("everleaf.closes.rounds", 300);

    @TempDir
    Path folder;

    /** One of everything. */
    private static final class All {
        final Db db;
        final Tree tree;
        final Snapshot snapshot;
        final SnapshotTree then;
        final Batch batch;
        final Cursor cursor;
        final Scan scan;
        final Transaction transaction;
        final Scan ofTransaction;

        All(Db db) {
            this.db = db;
            tree = db.tree("t");
            for (int n = 0; n < 500; n++) {
                tree.put(Help.number(n), new byte[50]);
            }
            snapshot = db.snapshot();
            then = snapshot.of(tree);
            batch = db.batch();
            cursor = then.cursor();
            scan = tree.scan();
            transaction = db.begin();
            ofTransaction = transaction.scan(tree, Range.all());
        }

        List<Handle> handles() {
            return new ArrayList<>(
                    List.of(db, tree, snapshot, then, batch, cursor, scan, transaction, ofTransaction));
        }

        /** A call or more of each handle, in the order of {@code handles}. */
        List<Executable> calls() {
            byte[] key = Help.number(7);
            return List.of(
                    () -> {
                        db.stats();
                        db.sync();
                        db.treeNames();
                    },
                    () -> {
                        tree.put(key, b("v"));
                        tree.get(key);
                        tree.scan().close();
                        tree.putFrom(key, new java.io.ByteArrayInputStream(new byte[50_000]), 50_000);
                    },
                    () -> snapshot.tree("t").close(),
                    () -> then.get(key),
                    () -> {
                        batch.put(tree, key, b("w"));
                        batch.commit();
                    },
                    () -> {
                        cursor.next();
                        cursor.value();
                    },
                    () -> {
                        while (scan.next()) {
                            scan.key();
                            scan.value();
                        }
                    },
                    () -> {
                        transaction.get(tree, key);
                        transaction.put(tree, key, b("x"));
                    },
                    () -> {
                        while (ofTransaction.next()) {
                            ofTransaction.value();
                        }
                    });
        }
    }

    @Test
    void inEachOrder() throws Throwable {
        Random random = Help.random("ClosesTest");
        for (int round = 0; round < 100; round++) {
            All all = new All(Db.inMemory(new Options().memory(16 << 20)));
            List<Handle> handles = all.handles();
            List<Executable> calls = all.calls();
            List<Integer> order = new ArrayList<>();
            for (int n = 0; n < handles.size(); n++) {
                order.add(n);
            }
            Collections.shuffle(order, random);
            for (int n : order) {
                handles.get(n).close();
                handles.get(n).close();
                assertTrue(handles.get(n).isClosed());
                Help.fails(ClosedException.class, ErrorCode.CLOSED, calls.get(n));
                if (n == 0) {
                    // After the pool nothing works, whether it is closed or not.
                    for (Executable call : calls) {
                        Help.fails(ClosedException.class, ErrorCode.CLOSED, call);
                    }
                }
            }
            for (Executable call : calls) {
                Help.fails(ClosedException.class, ErrorCode.CLOSED, call);
            }
        }
    }

    @Test
    void anOldNumberFindsNothingNew() {
        try (Db db = Db.inMemory(new Options())) {
            Tree old = db.tree("t");
            old.close();
            for (int n = 0; n < 100; n++) {
                // One of them has the place that the old one had.
                db.tree("t");
                Help.fails(ClosedException.class, ErrorCode.CLOSED, () -> old.put(b("k"), b("v")));
            }
        }
    }

    @Test
    void whileOthersUseThem() throws Exception {
        Random random = Help.random("ClosesTest");
        for (int round = 0; round < ROUNDS; round++) {
            boolean manual = random.nextInt(4) == 0;
            Path path = folder.resolve("pool.ever");
            Options options = new Options().memory(16 << 20).manualEpochs(manual);
            All all = new All(random.nextBoolean() ? Db.inMemory(options) : Db.open(path, options));
            List<Executable> calls = all.calls();
            AtomicReference<Throwable> bad = new AtomicReference<>();
            CountDownLatch begun = new CountDownLatch(3);
            Thread[] threads = new Thread[3];
            for (int t = 0; t < threads.length; t++) {
                threads[t] = new Thread(() -> use(calls, begun, bad));
                threads[t].start();
            }
            begun.await();
            List<Handle> handles = all.handles();
            Collections.shuffle(handles, random);
            for (Handle handle : handles) {
                if (random.nextInt(3) == 0) {
                    Thread.sleep(0, random.nextInt(300_000));
                }
                if (handle == all.db && random.nextInt(3) == 0) {
                    all.db.abandon();
                } else {
                    handle.close();
                }
            }
            for (Thread thread : threads) {
                thread.join();
            }
            if (bad.get() != null) {
                throw new AssertionError("round " + round, bad.get());
            }
        }
        try (Db db = Db.open(folder.resolve("pool.ever"))) {
            assertEquals(List.of(), db.check());
        }
    }

    /** Calls everything until all is closed. */
    private static void use(List<Executable> calls, CountDownLatch begun, AtomicReference<Throwable> bad) {
        int closed = 0;
        while (closed < calls.size()) {
            closed = 0;
            int first = ThreadLocalRandom.current().nextInt(calls.size());
            for (int n = 0; n < calls.size(); n++) {
                try {
                    calls.get((first + n) % calls.size()).execute();
                } catch (ClosedException expected) {
                    closed++;
                } catch (TransactionTooLargeException | SnapshotTooOldException | IllegalStateException meant) {
                    // Two threads have moved one scan; or a transaction has lasted too long.
                } catch (Throwable failure) {
                    bad.compareAndSet(null, failure);
                    begun.countDown();
                    return;
                }
            }
            begun.countDown();
        }
    }
}
