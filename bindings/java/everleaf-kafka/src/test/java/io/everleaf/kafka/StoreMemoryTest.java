package io.everleaf.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.everleaf.Budget;
import java.io.File;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.utils.Bytes;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Memory that the stores of one virtual machine share. */
class StoreMemoryTest {
    private static final long BYTES = 6 << 20;

    @TempDir
    File folder;

    private final List<EverleafKeyValueStore> stores = new ArrayList<>();
    private int folders;

    @AfterEach
    void end() {
        stores.forEach(EverleafKeyValueStore::close);
    }

    /** Opens a store in a folder of its own, as that of another application. */
    private EverleafKeyValueStore open(Map<String, Object> settings) {
        File own = new File(folder, "" + folders++);
        assertTrue(own.mkdir());
        Context context = new Context(own);
        context.configs.putAll(settings);
        EverleafKeyValueStore store = new EverleafKeyValueStore("s");
        store.init(context, store);
        stores.add(store);
        return store;
    }

    private static void fill(EverleafKeyValueStore store) {
        for (int n = 0; n < 40_000; n++) {
            store.put(Bytes.wrap(ByteBuffer.allocate(8).putLong(n * 7_919L % 40_000).array()), new byte[100]);
        }
        store.commit(Map.of());
    }

    @Test
    void allStoresShareTheBudgetOfTheProcess() {
        try (Budget process = Budget.ofProcess()) {
            long before = process.pools();
            open(Map.of());
            open(Map.of());
            assertEquals(before + 2, process.pools());
            stores.forEach(EverleafKeyValueStore::close);
            assertEquals(before, process.pools());
        }
    }

    @Test
    void theSettingSaysHowLargeItIs() {
        Map<String, Object> settings = Map.of(EverleafStores.MEMORY_CONFIG, "" + BYTES);
        Budget budget = StoreMemory.budget(BYTES);
        try (Budget process = Budget.ofProcess()) {
            long before = process.pools();
            for (int store = 0; store < 4; store++) {
                fill(open(settings));
            }
            assertEquals(before, process.pools());
        }
        assertEquals(BYTES, budget.bytes());
        assertEquals(4, budget.pools());
        // Each by itself would take more than 4 MB.
        stores.forEach(store -> store.pool.db.checkpoint());
        long used = stores.stream().mapToLong(store -> store.pool.db.stats().memoryBytes()).sum();
        assertTrue(used <= BYTES, used + " bytes");
        assertTrue(stores.stream().mapToLong(store -> store.pool.db.stats().memoryEvictions()).sum() > 0);
        for (EverleafKeyValueStore store : stores) {
            assertEquals(40_000, store.approximateNumEntries());
        }
    }

    /** A number is a number, whether the program gives it as one or as a text. */
    @Test
    void anotherNumberIsAnotherBudget() {
        open(Map.of(EverleafStores.MEMORY_CONFIG, BYTES + 1));
        open(Map.of(EverleafStores.MEMORY_CONFIG, " " + (BYTES + 2)));
        open(Map.of(EverleafStores.MEMORY_CONFIG, (int) (BYTES + 1)));
        assertEquals(2, StoreMemory.budget(BYTES + 1).pools());
        assertEquals(1, StoreMemory.budget(BYTES + 2).pools());
    }

    @Test
    void aStoreMayHaveMemoryOfItsOwn() {
        Budget budget = StoreMemory.budget(BYTES + 3);
        EverleafKeyValueStore store = open(Map.of(
                EverleafStores.MEMORY_CONFIG, BYTES + 3, EverleafStores.STORE_MEMORY_CONFIG, "" + (2 << 20)));
        assertEquals(0, budget.pools());
        assertTrue(store.pool.db.stats().memoryMostBytes() <= 2 << 20, "" + store.pool.db.stats());
    }

    @Test
    void anEpochMayBeLargerThanTheBudget() {
        EverleafKeyValueStore store = open(Map.of(EverleafStores.MEMORY_CONFIG, "" + BYTES));
        fill(store);
        for (int n = 0; n < 10_000; n++) {
            store.put(Bytes.wrap(ByteBuffer.allocate(8).putLong(n).array()), new byte[2_000]);
        }
        store.commit(Map.of());
        assertEquals(40_000, store.approximateNumEntries());
    }

    @Test
    void somethingElseIsRefused() {
        for (Object wrong : List.of("64 MiB", "-1", "")) {
            ConfigException failure =
                    assertThrows(ConfigException.class, () -> open(Map.of(EverleafStores.MEMORY_CONFIG, wrong)));
            assertTrue(failure.getMessage().contains(EverleafStores.MEMORY_CONFIG), failure.getMessage());
            assertThrows(ConfigException.class, () -> open(Map.of(EverleafStores.STORE_MEMORY_CONFIG, wrong)));
        }
    }
}
