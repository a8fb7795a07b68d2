package io.everleaf;

import static io.everleaf.Help.fails;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Memory that pools share. */
class BudgetTest {
    private static final long BYTES = 8 << 20;

    @TempDir
    Path folder;

    private Db open(int number, Options options) {
        return Db.open(folder.resolve("pool-" + number + ".ever"), options);
    }

    @Test
    void poolsTakeNoMoreThanTheirBudget() {
        try (Budget budget = Budget.of(BYTES)) {
            assertEquals(BYTES, budget.bytes());
            assertEquals(0, budget.pools());
            List<Db> pools = new ArrayList<>();
            for (int number = 0; number < 4; number++) {
                pools.add(open(number, new Options().budget(budget)));
            }
            assertEquals(4, budget.pools());
            for (Db db : pools) {
                try (Tree tree = db.tree("t")) {
                    for (int n = 0; n < 40_000; n++) {
                        tree.put(Help.number(n * 7_919L % 40_000), new byte[100]);
                    }
                }
                db.checkpoint();
            }
            // Each by itself would take 4 MB and more.
            long used = pools.stream().mapToLong(db -> db.stats().memoryBytes()).sum();
            assertTrue(used <= BYTES, used + " bytes");
            assertTrue(budget.used() > BYTES / 8, budget.toString());
            assertTrue(pools.stream().mapToLong(db -> db.stats().memoryEvictions()).sum() > 0);
            assertTrue(budget.toString().contains("of 8388608 bytes"), budget.toString());
            pools.forEach(Db::close);
            assertEquals(0, budget.pools());
        }
    }

    @Test
    void theLastSettingCounts() {
        try (Budget budget = Budget.of(BYTES);
                Db own = open(1, new Options().budget(budget).memory(2 << 20))) {
            assertEquals(0, budget.pools());
            assertTrue(own.stats().memoryMostBytes() <= 2 << 20);
            try (Db shared = open(2, new Options().memory(2 << 20).budget(budget));
                    Db inMemory = Db.inMemory(new Options().budget(budget))) {
                assertEquals(2, budget.pools());
                assertTrue(shared.stats().memoryMostBytes() > 2 << 20, "" + shared.stats());
                assertEquals(List.of(), inMemory.treeNames());
            }
        }
    }

    @Test
    void theBudgetOfTheProcessIsTheDefault() {
        try (Budget budget = Budget.ofProcess();
                Db db = open(1, new Options())) {
            assertTrue(budget.pools() >= 1);
            assertTrue(budget.bytes() > 1 << 20);
            assertEquals(List.of(), db.treeNames());
        }
    }

    @Test
    void aClosedBudgetIsAnException() {
        Budget budget = Budget.of(BYTES);
        Options options = new Options().budget(budget);
        try (Db before = open(1, options)) {
            budget.close();
            budget.close();
            fails(ClosedException.class, ErrorCode.CLOSED, budget::bytes);
            fails(ClosedException.class, ErrorCode.CLOSED, budget::pools);
            assertEquals("Budget[closed]", budget.toString());
            ClosedException failure = fails(ClosedException.class, ErrorCode.CLOSED, () -> open(2, options));
            assertEquals("the budget was closed", failure.getMessage());
            try (Tree tree = before.tree("t")) {
                tree.put(Help.number(1), Help.number(2));
            }
            // Another setting does not need it.
            open(2, options.memory(BYTES)).close();
        }
        assertThrows(IllegalArgumentException.class, () -> Budget.of(-1));
        assertThrows(NullPointerException.class, () -> new Options().budget(null));
    }
}
