package io.everleaf.kafka;

import io.everleaf.Budget;
import io.everleaf.Options;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.config.ConfigException;

/**
 * Memory outside of the heap. By default all stores of the virtual machine share the budget that all pools of the process share. An
 * application may say how large another one is, and then its stores share that, also with those of another application that says the
 * same.
 */
final class StoreMemory {
    /** Budgets of a size that an application has said. They stay: stores come and go. */
    private static final Map<Long, Budget> BUDGETS = new ConcurrentHashMap<>();

    private StoreMemory() {}

    /** Says where the memory of a store comes from. */
    static void set(Options options, Map<String, Object> configs) {
        Long own = bytes(configs, EverleafStores.STORE_MEMORY_CONFIG);
        Long shared = bytes(configs, EverleafStores.MEMORY_CONFIG);
        if (own != null) {
            options.memory(own);
        } else if (shared != null) {
            options.budget(budget(shared));
        }
    }

    /** The budget of so many bytes. */
    static Budget budget(long bytes) {
        return BUDGETS.computeIfAbsent(bytes, Budget::of);
    }

    private static Long bytes(Map<String, Object> configs, String setting) {
        Object given = configs.get(setting);
        if (given == null) {
            return null;
        }
        try {
            long bytes = Long.parseLong(given.toString().trim());
            if (bytes >= 0) {
                return bytes;
            }
        } catch (NumberFormatException noNumber) {
            // It is told below.
        }
        throw new ConfigException(setting, given, "It is a number of bytes.");
    }
}
