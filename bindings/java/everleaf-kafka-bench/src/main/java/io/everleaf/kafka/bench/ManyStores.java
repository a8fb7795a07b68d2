package io.everleaf.kafka.bench;

import io.everleaf.kafka.bench.Table.Bar;
import java.io.File;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueStore;

/** Many stores in one virtual machine, as an application with many tasks has them: both kinds in turns. */
final class ManyStores {
    private static final TopicPartition LOG = new TopicPartition("bench-changelog", 0);

    /** The work on all stores, one after the other, in the thread of a task. */
    enum Phase {
        MADE("made", 2_000),
        PUTS("puts", 0),
        COMMITTED("commit of all", 50),
        CLOSED("close of all", 2_000);

        private final String what;
        private final double bar;

        Phase(String what, double bar) {
            this.what = what;
            this.bar = bar;
        }
    }

    private final int stores;
    private final int rounds;
    private final int puts;
    private final Map<Kind, Map<Phase, Figures>> wall = new EnumMap<>(Kind.class);
    private final Map<Kind, Map<Phase, Figures>> cpu = new EnumMap<>(Kind.class);
    private final Map<Kind, Figures> descriptors = new EnumMap<>(Kind.class);

    ManyStores(int stores, int rounds, int puts) {
        this.stores = stores;
        this.rounds = rounds;
        this.puts = puts;
        for (Kind kind : Kind.values()) {
            Map<Phase, Figures> ofWall = new EnumMap<>(Phase.class);
            Map<Phase, Figures> ofCpu = new EnumMap<>(Phase.class);
            for (Phase phase : Phase.values()) {
                ofWall.put(phase, new Figures());
                ofCpu.put(phase, new Figures());
            }
            wall.put(kind, ofWall);
            cpu.put(kind, ofCpu);
            descriptors.put(kind, new Figures());
        }
    }

    public static void main(String[] arguments) {
        int stores = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 300;
        int rounds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 3;
        new ManyStores(stores, rounds, 1_000).run(System.out).print(System.out);
    }

    Table run(PrintStream progress) {
        for (int round = 0; round < rounds; round++) {
            for (int turn = 0; turn < 2; turn++) {
                oneRound(Kind.values()[(turn + round) % 2]);
            }
            progress.printf("round %d of %d%n", round + 1, rounds);
        }
        Table table = new Table();
        for (Phase phase : Phase.values()) {
            String what = phase == Phase.PUTS ? puts + " puts each" : phase.what;
            double seen = wall.get(Kind.EVERLEAF).get(phase).median() / 1e6;
            double ofCpu = cpu.get(Kind.EVERLEAF).get(phase).median() / 1e6;
            if (phase.bar == 0) {
                table.add(stores + " stores: " + what, told(Kind.EVERLEAF, phase), told(Kind.ROCKSDB, phase));
            } else {
                table.add(
                        stores + " stores: " + what,
                        told(Kind.EVERLEAF, phase),
                        told(Kind.ROCKSDB, phase),
                        Bar.AT_MOST,
                        phase.bar,
                        seen,
                        ofCpu);
            }
        }
        table.add(
                "descriptors of the process",
                Table.number(descriptors.get(Kind.EVERLEAF).median()),
                Table.number(descriptors.get(Kind.ROCKSDB).median()));
        return table;
    }

    private String told(Kind kind, Phase phase) {
        return Table.number(wall.get(kind).get(phase).median() / 1e6) + " ms";
    }

    private void oneRound(Kind kind) {
        File folder = Folders.make();
        List<KeyValueStore<Bytes, byte[]>> all = new ArrayList<>();
        Bytes[] keys = Pairs.keys(0, puts);
        measure(kind, Phase.MADE, () -> {
            for (int store = 0; store < stores; store++) {
                all.add(kind.open("s" + store, folder, Map.of()));
            }
        });
        measure(kind, Phase.PUTS, () -> all.forEach(store -> {
            for (int at = 0; at < puts; at++) {
                store.put(keys[at], Pairs.value(at));
            }
        }));
        measure(kind, Phase.COMMITTED, () -> all.forEach(store -> store.commit(Map.of(LOG, 1L))));
        String[] open = Objects.requireNonNull(new File("/proc/self/fd").list(), "no /proc");
        descriptors.get(kind).add(open.length);
        measure(kind, Phase.CLOSED, () -> all.forEach(KeyValueStore::close));
        Folders.delete(folder);
    }

    private void measure(Kind kind, Phase phase, Runnable work) {
        Clock clock = Clock.of(work);
        wall.get(kind).get(phase).add(clock.wall());
        cpu.get(kind).get(phase).add(clock.cpu());
    }
}
