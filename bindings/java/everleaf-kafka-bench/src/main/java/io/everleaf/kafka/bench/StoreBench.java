package io.everleaf.kafka.bench;

import io.everleaf.Budget;
import io.everleaf.kafka.bench.Table.Bar;
import java.io.File;
import java.io.PrintStream;
import java.util.EnumMap;
import java.util.Map;
import java.util.function.IntConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Both stores through the interface of Kafka Streams, in one run and in turns: each phase is cut into slices, and each slice is done by
 * one store and then by the other. Keys are made before the clock runs.
 */
final class StoreBench {
    private static final TopicPartition LOG = new TopicPartition("bench-changelog", 0);
    private static final int SLICES = 5;
    /** The other store's limit: 50 MiB of blocks and three memtables of 16 MiB. Its files are in the system's cache, too. */
    private static final String MEMORY_OF_ROCKSDB = "up to 103 MB";
    /** Pairs of a range. */
    private static final int RANGE = 100;

    /** The work that is measured of both stores. */
    enum Phase {
        PUT_FRESH("put, fresh", 1.2),
        PUT_OVER("put, over", 1.2),
        GET("get", 5),
        MISS("get, miss", 10),
        RANGE("range of 100", 2),
        ALL("all, a pair", 2);

        private final String what;
        private final double bar;

        Phase(String what, double bar) {
            this.what = what;
            this.bar = bar;
        }
    }

    /** How much is done. */
    record Measure(int pairs, int rounds, int commits, int putsOfCommit) {
        static final Measure FULL = new Measure(500_000, 5, 50, 10_000);
    }

    private final Measure measure;
    private final Table table = new Table();
    /** Nanoseconds of one operation, a figure for each round. */
    private final Map<Kind, Map<Phase, Figures>> wall = figures();

    private final Map<Kind, Map<Phase, Figures>> cpu = figures();
    private final Map<Kind, Figures> disk = new EnumMap<>(Kind.class);
    private final Figures memory = new Figures();
    /** Read by nobody, so that nothing that was read can be left out. */
    private long sum;

    StoreBench(Measure measure) {
        this.measure = measure;
    }

    public static void main(String[] arguments) {
        Measure full = Measure.FULL;
        int pairs = arguments.length > 0 ? Integer.parseInt(arguments[0]) : full.pairs;
        int rounds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : full.rounds;
        StoreBench bench = new StoreBench(new Measure(pairs, rounds, full.commits, full.putsOfCommit));
        bench.run(System.out).print(System.out);
    }

    private static Map<Kind, Map<Phase, Figures>> figures() {
        Map<Kind, Map<Phase, Figures>> figures = new EnumMap<>(Kind.class);
        for (Kind kind : Kind.values()) {
            Map<Phase, Figures> ofKind = new EnumMap<>(Phase.class);
            for (Phase phase : Phase.values()) {
                ofKind.put(phase, new Figures());
            }
            figures.put(kind, ofKind);
        }
        return figures;
    }

    /** Runs all of it; what it has done so far goes to a stream. */
    Table run(PrintStream progress) {
        for (Kind kind : Kind.values()) {
            disk.put(kind, new Figures());
        }
        for (int round = 0; round < measure.rounds; round++) {
            oneRound(round);
            progress.printf("operations: round %d of %d%n", round + 1, measure.rounds);
        }
        for (Phase phase : Phase.values()) {
            addOperations(phase);
        }
        addDisk();
        table.add("memory for it", Table.number(memory.median() / 1e6) + " MB", MEMORY_OF_ROCKSDB);
        new Commits(measure, table).run(progress);
        new Isolation(measure, table).run(progress);
        if (sum == 0) {
            throw new IllegalStateException("nothing was read");
        }
        return table;
    }

    private void oneRound(int round) {
        int n = measure.pairs;
        Map<Kind, File> folders = new EnumMap<>(Kind.class);
        Map<Kind, KeyValueStore<Bytes, byte[]>> stores = new EnumMap<>(Kind.class);
        for (Kind kind : Kind.values()) {
            folders.put(kind, Folders.make());
            stores.put(kind, kind.open("s", folders.get(kind), Map.of()));
        }
        try {
            Bytes[] keys = Pairs.keys(0, n);
            Bytes[] missing = Pairs.keys(n, n / 2);
            put(Phase.PUT_FRESH, round, stores, keys);
            put(Phase.PUT_OVER, round, stores, keys);
            inTurns(Phase.GET, round, stores, n, store -> at -> sum += store.get(keys[random(at, n)]).length);
            inTurns(Phase.MISS, round, stores, n / 2, store -> at -> {
                if (store.get(missing[at]) != null) {
                    throw new IllegalStateException("a key is there that nobody has put");
                }
            });
            inTurns(Phase.RANGE, round, stores, n / 100, store -> at -> range(store, keys[random(at, n)]));
            inTurns(Phase.ALL, round, stores, SLICES, store -> at -> {
                if (all(store) != n) {
                    throw new IllegalStateException("pairs were lost");
                }
            });
            try (Budget shared = Budget.ofProcess()) {
                memory.add(shared.used());
            }
        } finally {
            stores.values().forEach(KeyValueStore::close);
        }
        for (Kind kind : Kind.values()) {
            disk.get(kind).add(Folders.bytes(folders.get(kind)));
            Folders.delete(folders.get(kind));
        }
    }

    private static int random(int at, int n) {
        return (int) Math.floorMod(Pairs.mix(at + 5L), (long) n);
    }

    /** The work of a store, as one of its numbers. */
    private interface Work {
        IntConsumer of(KeyValueStore<Bytes, byte[]> store);
    }

    private void put(Phase phase, int round, Map<Kind, KeyValueStore<Bytes, byte[]>> stores, Bytes[] keys) {
        int last = keys.length / SLICES;
        inTurns(phase, round, stores, keys.length, store -> at -> {
            store.put(keys[at], Pairs.value(at));
            if (at % last == last - 1) {
                store.commit(Map.of(LOG, (long) at));
            }
        });
    }

    private void inTurns(Phase phase, int round, Map<Kind, KeyValueStore<Bytes, byte[]>> stores, int count, Work work) {
        Map<Kind, Clock> taken = new EnumMap<>(Kind.class);
        int slices = Math.min(SLICES, count);
        for (int slice = 0; slice < slices; slice++) {
            int from = (int) ((long) count * slice / slices);
            int to = (int) ((long) count * (slice + 1) / slices);
            for (int turn = 0; turn < 2; turn++) {
                Kind kind = Kind.values()[(turn + round + slice) % 2];
                IntConsumer one = work.of(stores.get(kind));
                Clock clock = Clock.of(() -> {
                    for (int at = from; at < to; at++) {
                        one.accept(at);
                    }
                });
                taken.merge(kind, clock, Clock::plus);
            }
        }
        long operations = phase == Phase.ALL ? (long) count * measure.pairs : count;
        for (Kind kind : Kind.values()) {
            wall.get(kind).get(phase).add((double) taken.get(kind).wall() / operations);
            cpu.get(kind).get(phase).add((double) taken.get(kind).cpu() / operations);
        }
    }

    /** Reads the pairs from a key on, fewer where they end. */
    private void range(KeyValueStore<Bytes, byte[]> store, Bytes from) {
        try (KeyValueIterator<Bytes, byte[]> pairs = store.range(from, null)) {
            for (int pair = 0; pair < RANGE && pairs.hasNext(); pair++) {
                sum += pairs.next().value.length;
            }
        }
    }

    private int all(KeyValueStore<Bytes, byte[]> store) {
        int count = 0;
        try (KeyValueIterator<Bytes, byte[]> pairs = store.all()) {
            while (pairs.hasNext()) {
                sum += pairs.next().value.length;
                count++;
            }
        }
        return count;
    }

    private void addOperations(Phase phase) {
        double[] of = new double[2];
        double[] ofCpu = new double[2];
        for (Kind kind : Kind.values()) {
            of[kind.ordinal()] = wall.get(kind).get(phase).median();
            ofCpu[kind.ordinal()] = cpu.get(kind).get(phase).median();
        }
        table.add(
                phase.what,
                micros(of[0], ofCpu[0]),
                micros(of[1], ofCpu[1]),
                Bar.AT_LEAST,
                phase.bar,
                of[1] / of[0],
                ofCpu[1] / ofCpu[0]);
    }

    static String micros(double wall, double cpu) {
        return Table.number(wall / 1e3) + " µs (CPU " + Table.number(cpu / 1e3) + ")";
    }

    private void addDisk() {
        double everleaf = disk.get(Kind.EVERLEAF).median();
        double rocksdb = disk.get(Kind.ROCKSDB).median();
        table.add(
                "disk after a close",
                Table.number(everleaf / 1e6) + " MB",
                Table.number(rocksdb / 1e6) + " MB",
                Bar.AT_MOST,
                1.2,
                everleaf / rocksdb,
                null);
    }
}
