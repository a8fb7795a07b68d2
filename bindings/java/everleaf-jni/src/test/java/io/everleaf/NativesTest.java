package io.everleaf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Native methods with numbers that stand for nothing, or for something else, and with null. */
class NativesTest {
    private static List<Method> natives() {
        Db.version();
        List<Method> natives = new ArrayList<>();
        for (Method method : Native.class.getDeclaredMethods()) {
            if (Modifier.isNative(method.getModifiers())) {
                natives.add(method);
            }
        }
        assertTrue(natives.size() > 60);
        return natives;
    }

    /** Arguments of which each number is this one. */
    private static Object[] arguments(Method method, long number, boolean nulls) {
        Class<?>[] types = method.getParameterTypes();
        Object[] arguments = new Object[types.length];
        for (int n = 0; n < types.length; n++) {
            Class<?> type = types[n];
            if (type == long.class) {
                arguments[n] = number;
            } else if (type == int.class) {
                arguments[n] = 1;
            } else if (type == boolean.class) {
                arguments[n] = false;
            } else if (nulls) {
                arguments[n] = null;
            } else if (type == byte[].class) {
                arguments[n] = new byte[3];
            } else if (type == ByteBuffer.class) {
                arguments[n] = ByteBuffer.allocate(100);
            } else if (type == Object.class) {
                arguments[n] = new Object();
            }
        }
        return arguments;
    }

    private static Throwable call(Method method, Object[] arguments) throws IllegalAccessException {
        method.setAccessible(true);
        try {
            method.invoke(null, arguments);
            return null;
        } catch (InvocationTargetException failure) {
            return failure.getCause();
        }
    }

    @Test
    void aNumberThatStandsForNothingIsAnException() throws Exception {
        Random random = Help.random("NativesTest");
        for (Method method : natives()) {
            if (List.of("version", "poolOpen", "budgetNew", "budgetOfProcess").contains(method.getName())) {
                continue;
            }
            for (long number : new long[] {0, -1, 1, 1L << 32, Long.MAX_VALUE, random.nextLong()}) {
                for (boolean nulls : new boolean[] {true, false}) {
                    Throwable failure = call(method, arguments(method, number, nulls));
                    if (method.getName().equals("free")) {
                        assertNull(failure);
                    } else {
                        assertEquals(ClosedException.class, failure.getClass(), method + ": " + failure);
                    }
                }
            }
        }
    }

    @Test
    void aNumberOfSomethingElseIsAnException() throws Exception {
        try (Db db = Db.inMemory(new Options());
                Tree tree = db.tree("t");
                Batch batch = db.batch();
                Scan scan = tree.scan();
                Cursor cursor = tree.cursor();
                Snapshot snapshot = db.snapshot();
                Budget budget = Budget.of(1 << 20);
                Transaction transaction = db.begin()) {
            for (Method method : natives()) {
                // Some would end what others need, and one would wait for an epoch that never comes.
                List<String> others = List.of(
                        "free", "poolClose", "poolAbandon", "poolOpen", "poolWaitDurable", "budgetNew", "budgetOfProcess");
                if (others.contains(method.getName())) {
                    continue;
                }
                for (Handle handle : List.of(db, tree, batch, scan, cursor, snapshot, transaction, budget)) {
                    for (boolean nulls : new boolean[] {true, false}) {
                        Throwable failure = call(method, arguments(method, handle.number(), nulls));
                        boolean known = failure == null || failure instanceof EverleafException
                                || failure instanceof NullPointerException;
                        assertTrue(known, method + ": " + failure);
                        assertFalse(failure instanceof DefectException, method + ": " + failure);
                    }
                }
            }
        }
    }
}
