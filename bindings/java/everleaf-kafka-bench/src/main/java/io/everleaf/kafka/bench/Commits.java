package io.everleaf.kafka.bench;

import io.everleaf.kafka.bench.Table.Bar;
import java.io.File;
import java.io.PrintStream;
import java.util.EnumMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueStore;

/** Commits of many puts, in the thread that has put: both stores with transactions and without. */
final class Commits {
    private static final TopicPartition LOG = new TopicPartition("bench-changelog", 0);
    private static final Map<String, String> TRANSACTIONS = Map.of("enable.transactional.statestores", "true");

    private final StoreBench.Measure measure;
    private final Table table;
    private final Map<Kind, Figures> commits = new EnumMap<>(Kind.class);
    private final Map<Kind, Figures> withTransactions = new EnumMap<>(Kind.class);
    private final Map<Kind, Figures> puts = new EnumMap<>(Kind.class);

    Commits(StoreBench.Measure measure, Table table) {
        this.measure = measure;
        this.table = table;
        for (Kind kind : Kind.values()) {
            commits.put(kind, new Figures());
            withTransactions.put(kind, new Figures());
            puts.put(kind, new Figures());
        }
    }

    void run(PrintStream progress) {
        for (int round = 0; round < measure.rounds(); round++) {
            oneRound(Map.of(), commits);
            oneRound(TRANSACTIONS, withTransactions);
            progress.printf("commits: round %d of %d%n", round + 1, measure.rounds());
        }
        String what = "commit of " + Table.number(measure.putsOfCommit()) + " puts, ";
        row(what + "median", 0.5, 0.3);
        row(what + "p90", 0.9, 1);
        row(what + "worst", 1, 15);
        for (double part : new double[] {0.5, 0.9, 1}) {
            table.add(
                    "with transactions of stores, " + (part == 1 ? "worst" : part == 0.5 ? "median" : "p90"),
                    millis(withTransactions.get(Kind.EVERLEAF).rank(part)),
                    millis(withTransactions.get(Kind.ROCKSDB).rank(part)));
        }
        table.add("longest put", millis(puts.get(Kind.EVERLEAF).most()), millis(puts.get(Kind.ROCKSDB).most()));
    }

    private static String millis(double nanoseconds) {
        return Table.number(nanoseconds / 1e6) + " ms";
    }

    private void row(String what, double part, double bar) {
        double everleaf = commits.get(Kind.EVERLEAF).rank(part);
        table.add(
                what,
                millis(everleaf),
                millis(commits.get(Kind.ROCKSDB).rank(part)),
                Bar.AT_MOST,
                bar,
                everleaf / 1e6,
                null);
    }

    private void oneRound(Map<String, String> settings, Map<Kind, Figures> into) {
        Map<Kind, File> folders = new EnumMap<>(Kind.class);
        Map<Kind, KeyValueStore<Bytes, byte[]>> stores = new EnumMap<>(Kind.class);
        for (Kind kind : Kind.values()) {
            folders.put(kind, Folders.make());
            stores.put(kind, kind.open("s", folders.get(kind), settings));
        }
        int count = measure.putsOfCommit();
        Bytes[] keys = new Bytes[count];
        for (int commit = 0; commit < measure.commits(); commit++) {
            for (int at = 0; at < count; at++) {
                keys[at] = Pairs.key(Math.floorMod(Pairs.mix((long) commit * count + at), 4L * measure.pairs()));
            }
            for (int turn = 0; turn < 2; turn++) {
                Kind kind = Kind.values()[(turn + commit) % 2];
                commit(stores.get(kind), keys, commit, puts.get(kind), into.get(kind));
            }
        }
        stores.values().forEach(KeyValueStore::close);
        folders.values().forEach(Folders::delete);
    }

    private static void commit(
            KeyValueStore<Bytes, byte[]> store, Bytes[] keys, int number, Figures puts, Figures commits) {
        long worst = 0;
        for (int at = 0; at < keys.length; at++) {
            long begun = System.nanoTime();
            store.put(keys[at], Pairs.value(at));
            worst = Math.max(worst, System.nanoTime() - begun);
        }
        puts.add(worst);
        long begun = System.nanoTime();
        store.commit(Map.of(LOG, (long) number));
        commits.add(System.nanoTime() - begun);
    }
}
