package io.everleaf.kafka.bench;

import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** Measured figures, beside their bars. */
final class Table {
    /** The side of its bar on which the figure of a row has to be. */
    enum Bar {
        AT_LEAST("≥"),
        AT_MOST("≤");

        private final String sign;

        Bar(String sign) {
            this.sign = sign;
        }

        boolean isMet(double seen, double bar) {
            return this == AT_LEAST ? seen >= bar : seen <= bar;
        }
    }

    /** A line of it. */
    record Row(String what, String everleaf, String rocksdb, String bar, String seen, String met) {}

    private final List<Row> rows = new ArrayList<>();

    List<Row> rows() {
        return List.copyOf(rows);
    }

    /** A figure with a bar, and the same one of the processor's time if that was measured. */
    void add(String what, String everleaf, String rocksdb, Bar bar, double limit, double seen, Double ofCpu) {
        String told = ofCpu == null ? number(seen) : number(seen) + " (CPU " + number(ofCpu) + ")";
        rows.add(new Row(what, everleaf, rocksdb, bar.sign + " " + number(limit), told, bar.isMet(seen, limit) ? "yes" : "NO"));
    }

    /** A figure without a bar. */
    void add(String what, String everleaf, String rocksdb) {
        rows.add(new Row(what, everleaf, rocksdb, "", "", ""));
    }

    static String number(double number) {
        String format = Math.abs(number) >= 100 ? "%,.0f" : Math.abs(number) >= 10 ? "%.1f" : "%.2f";
        return String.format(Locale.ROOT, format, number);
    }

    void print(PrintStream out) {
        out.println("| what | Everleaf | RocksDB | bar | seen | met |");
        out.println("|---|---|---|---|---|---|");
        for (Row row : rows) {
            out.println("| " + String.join(" | ", row.what, row.everleaf, row.rocksdb, row.bar, row.seen, row.met) + " |");
        }
    }
}
