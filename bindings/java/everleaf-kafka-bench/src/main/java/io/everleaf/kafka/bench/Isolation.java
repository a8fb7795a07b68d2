package io.everleaf.kafka.bench;

import io.everleaf.kafka.bench.Table.Bar;
import java.io.File;
import java.io.PrintStream;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.IntConsumer;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * Reads of the last commit beside reads of the store as it is, while a thread writes; and puts beside such reads. The store of RocksDB
 * cannot take part: with transactions of stores, a range of kafka-streams 4.4.0 beside a writer ends with a
 * {@link java.util.ConcurrentModificationException}.
 */
final class Isolation {
    private static final TopicPartition LOG = new TopicPartition("bench-changelog", 0);
    private static final Map<String, String> TRANSACTIONS = Map.of("enable.transactional.statestores", "true");
    private static final int RANGE = 100;
    /** In the column of RocksDB. */
    private static final String NONE = "–";

    /** Between two queries of the reader beside which puts are measured. */
    private static final long PAUSE_MILLIS = 1;

    private final StoreBench.Measure measure;
    private final Table table;
    private final Bytes[] keys;
    private long sum;

    Isolation(StoreBench.Measure measure, Table table) {
        this.measure = measure;
        this.table = table;
        keys = Pairs.keys(0, measure.pairs());
    }

    /** A thread that works until it is told to end. Its failure is thrown then. */
    private static final class Beside implements AutoCloseable {
        private final AtomicReference<Throwable> failed = new AtomicReference<>();
        private final Thread thread;
        private volatile boolean ends;

        Beside(IntConsumer one) {
            CountDownLatch begun = new CountDownLatch(1);
            thread = new Thread(() -> {
                try {
                    for (int at = 0; !ends; at++) {
                        one.accept(at);
                        begun.countDown();
                    }
                } catch (Throwable failure) {
                    failed.set(failure);
                } finally {
                    begun.countDown();
                }
            });
            thread.start();
            waitFor(begun::await);
        }

        private interface Wait {
            void run() throws InterruptedException;
        }

        private static void waitFor(Wait wait) {
            try {
                wait.run();
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }

        @Override
        public void close() {
            ends = true;
            waitFor(thread::join);
            if (failed.get() != null) {
                throw new IllegalStateException("the thread beside has failed", failed.get());
            }
        }
    }

    private int random(long at) {
        return (int) Math.floorMod(Pairs.mix(at + 11), (long) keys.length);
    }

    private void write(KeyValueStore<Bytes, byte[]> store, long at) {
        store.put(keys[random(at * 3)], Pairs.value(at));
        if (at % measure.putsOfCommit() == 0) {
            store.commit(Map.of(LOG, at));
        }
    }

    private KeyValueStore<Bytes, byte[]> full(String name, File folder) {
        KeyValueStore<Bytes, byte[]> store = Kind.EVERLEAF.open(name, folder, TRANSACTIONS);
        for (int at = 0; at < keys.length; at++) {
            store.put(keys[at], Pairs.value(at));
            if (at % 100_000 == 0) {
                store.commit(Map.of(LOG, (long) at));
            }
        }
        store.commit(Map.of(LOG, (long) keys.length));
        return store;
    }

    /** Has the store keep its last commit from the next one on: no query has had it do so before. */
    private static void askForCommitted(KeyValueStore<Bytes, byte[]> store, Bytes key) {
        try {
            store.readOnly(IsolationLevel.READ_COMMITTED).get(key);
        } catch (InvalidStateStoreException notKeptYet) {
            store.commit(Map.of(LOG, 1L));
        }
    }

    void run(PrintStream progress) {
        Puts puts = puts();
        progress.println("isolation: puts");
        Read gets = new Read();
        Read scans = new Read();
        File folder = Folders.make();
        KeyValueStore<Bytes, byte[]> store = full("s", folder);
        askForCommitted(store, keys[0]);
        try (Beside writer = new Beside(at -> write(store, at))) {
            for (int round = 0; round < measure.rounds(); round++) {
                read(store, round, gets, scans);
            }
        }
        store.close();
        Folders.delete(folder);
        progress.println("isolation: reads");
        add("READ_COMMITTED get / READ_UNCOMMITTED", gets);
        add("READ_COMMITTED range / READ_UNCOMMITTED", scans);
        String what = "CPU of a put with a READ_COMMITTED reader / without";
        table.add(what, puts.told(), NONE, Bar.AT_MOST, 1.15, puts.ratio(), null);
        if (sum == 0) {
            throw new IllegalStateException("nothing was read");
        }
    }

    /** Nanoseconds of one read at each level. */
    private static final class Read {
        private final Figures committed = new Figures();
        private final Figures committedCpu = new Figures();
        private final Figures current = new Figures();
        private final Figures currentCpu = new Figures();

        private void add(boolean isCommitted, Clock clock, int count) {
            (isCommitted ? committed : current).add((double) clock.wall() / count);
            (isCommitted ? committedCpu : currentCpu).add((double) clock.cpu() / count);
        }

        private String told() {
            return Table.number(committed.median() / 1e3) + " / " + Table.number(current.median() / 1e3) + " µs";
        }
    }

    private void add(String what, Read read) {
        table.add(
                what,
                read.told(),
                NONE,
                Bar.AT_MOST,
                1.3,
                read.committed.median() / read.current.median(),
                read.committedCpu.median() / read.currentCpu.median());
    }

    /** A measure of gets and of scans at each level, the levels in turns. */
    private void read(KeyValueStore<Bytes, byte[]> store, int round, Read gets, Read scans) {
        int count = Math.max(1, measure.pairs() / 50);
        for (int slice = 0; slice < 10; slice++) {
            long from = ((long) round * 10 + slice) * count;
            for (int turn = 0; turn < 2; turn++) {
                boolean isCommitted = (turn + slice) % 2 == 0;
                IsolationLevel level = isCommitted ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
                ReadOnlyKeyValueStore<Bytes, byte[]> view = store.readOnly(level);
                gets.add(isCommitted, Clock.of(() -> get(view, from, count)), count);
                int ranges = Math.max(1, count / 20);
                scans.add(isCommitted, Clock.of(() -> scan(view, from, ranges)), ranges);
            }
        }
    }

    private void get(ReadOnlyKeyValueStore<Bytes, byte[]> view, long from, int count) {
        for (long at = from; at < from + count; at++) {
            sum += view.get(keys[random(at)]).length;
        }
    }

    private void scan(ReadOnlyKeyValueStore<Bytes, byte[]> view, long from, int count) {
        for (long at = from; at < from + count; at++) {
            try (KeyValueIterator<Bytes, byte[]> pairs = view.range(keys[random(at)], null)) {
                for (int pair = 0; pair < RANGE && pairs.hasNext(); pair++) {
                    sum += pairs.next().value.length;
                }
            }
        }
    }

    /** Nanoseconds of the processor that a put takes, its part of a commit included. */
    private record Puts(Figures with, Figures without) {
        private double ratio() {
            return with.median() / without.median();
        }

        private String told() {
            return Table.number(with.median() / 1e3) + " / " + Table.number(without.median() / 1e3) + " µs";
        }
    }

    /** A store that keeps its last commit goes on to do so: there are two, in turns, and the reader runs beside both. */
    private Puts puts() {
        Puts puts = new Puts(new Figures(), new Figures());
        File folder = Folders.make();
        KeyValueStore<Bytes, byte[]> without = full("without", folder);
        KeyValueStore<Bytes, byte[]> with = full("with", folder);
        askForCommitted(with, keys[0]);
        ReadOnlyKeyValueStore<Bytes, byte[]> view = with.readOnly(IsolationLevel.READ_COMMITTED);
        try (Beside reader = new Beside(at -> {
            view.get(keys[random(at)]);
            pause();
        })) {
            for (int batch = 0; batch < measure.rounds() * 10; batch++) {
                long from = 1 + (long) batch * measure.putsOfCommit();
                if (batch % 2 == 0) {
                    putBatch(without, from, puts.without);
                    putBatch(with, from, puts.with);
                } else {
                    putBatch(with, from, puts.with);
                    putBatch(without, from, puts.without);
                }
            }
        }
        with.close();
        without.close();
        Folders.delete(folder);
        return puts;
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MILLIS);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private void putBatch(KeyValueStore<Bytes, byte[]> store, long from, Figures into) {
        int count = measure.putsOfCommit();
        Clock clock = Clock.of(() -> {
            for (long at = from; at < from + count; at++) {
                write(store, at);
            }
        });
        into.add((double) clock.cpu() / count);
    }
}
