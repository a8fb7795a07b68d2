package io.everleaf.kafka.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The benchmarks run, in a small measure, and their tables say what was seen. */
class BenchTest {
    private static final PrintStream NOWHERE = new PrintStream(OutputStream.nullOutputStream());

    private static long bars(Table table) {
        for (Table.Row row : table.rows()) {
            assertFalse(row.everleaf().isEmpty(), row.toString());
            assertEquals(row.bar().isEmpty(), row.met().isEmpty(), row.toString());
        }
        return table.rows().stream().filter(row -> !row.bar().isEmpty()).count();
    }

    @Test
    void theStoresAreMeasured() {
        Table table = new StoreBench(new StoreBench.Measure(2_000, 2, 2, 100)).run(NOWHERE);
        // Six operations, the disk, three of commits, three of isolation.
        assertEquals(13, bars(table));
        List<String> first = table.rows().stream().limit(6).map(Table.Row::what).toList();
        assertEquals(List.of("put, fresh", "put, over", "get", "get, miss", "range of 100", "all, a pair"), first);
    }

    @Test
    void manyStoresAreMeasured() {
        Table table = new ManyStores(3, 2, 10).run(NOWHERE);
        assertEquals(3, bars(table));
        assertTrue(table.rows().get(0).what().contains("3 stores"), table.rows().toString());
    }

    @Test
    void figuresHaveRanks() {
        Figures figures = new Figures();
        assertThrows(IllegalStateException.class, figures::median);
        for (int figure = 100; figure >= 1; figure--) {
            figures.add(figure);
        }
        assertEquals(50, figures.median());
        assertEquals(90, figures.rank(0.9));
        assertEquals(100, figures.most());
        figures = new Figures();
        figures.add(7);
        assertEquals(7, figures.median());
    }

    @Test
    void aTableSaysWhetherABarIsMet() {
        Table table = new Table();
        table.add("more", "a", "b", Table.Bar.AT_LEAST, 2, 2.5, 1.9);
        table.add("less", "a", "b", Table.Bar.AT_MOST, 2, 2.5, null);
        table.add("nothing", "a", "b");
        assertEquals(List.of("yes", "NO", ""), table.rows().stream().map(Table.Row::met).toList());
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        table.print(new PrintStream(out, true, StandardCharsets.UTF_8));
        assertTrue(out.toString(StandardCharsets.UTF_8).contains("| more | a | b | ≥ 2.00 | 2.50 (CPU 1.90) | yes |"), out.toString());
    }

    @Test
    void keysDiffer() {
        assertEquals(10_000, List.of(Pairs.keys(0, 10_000)).stream().distinct().count());
        assertEquals(16, Pairs.key(5).get().length);
        assertEquals(Pairs.VALUE_BYTES, Pairs.value(1_005).length);
    }
}
