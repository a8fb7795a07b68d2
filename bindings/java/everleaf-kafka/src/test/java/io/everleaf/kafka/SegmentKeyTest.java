package io.everleaf.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** The order of keys in a segment is that of the keys of records, and then of the numbers. */
class SegmentKeyTest {
    private record Session(byte[] key, long end, long start) {
        byte[] bytes() {
            return SegmentKey.session(key, end, start);
        }
    }

    /** Few values of bytes, so that many keys are prefixes of others, or end with what stands behind keys. */
    private static byte[] key(Random random) {
        byte[] some = {0, 1, -1, 'a'};
        byte[] key = new byte[random.nextInt(4)];
        for (int at = 0; at < key.length; at++) {
            key[at] = some[random.nextInt(some.length)];
        }
        return key;
    }

    private static long time(Random random) {
        long[] some = {Long.MIN_VALUE, -1, 0, 1, 255, 256, Long.MAX_VALUE};
        return some[random.nextInt(some.length)];
    }

    @Test
    void theOrderIsThatOfKeysAndNumbers() {
        Random random = new Random(1);
        List<Session> sessions = new ArrayList<>();
        for (int n = 0; n < 5_000; n++) {
            sessions.add(new Session(key(random), time(random), time(random)));
        }
        List<Session> byBytes = new ArrayList<>(sessions);
        sessions.sort(Comparator.<Session, byte[]>comparing(s -> s.key, Arrays::compareUnsigned)
                .thenComparingLong(s -> s.end)
                .thenComparingLong(s -> s.start));
        byBytes.sort(Comparator.comparing(Session::bytes, Arrays::compareUnsigned));
        for (int n = 0; n < sessions.size(); n++) {
            assertArrayEquals(sessions.get(n).bytes(), byBytes.get(n).bytes());
        }
    }

    @Test
    void theyAreTakenApart() {
        Random random = new Random(2);
        for (int n = 0; n < 2_000; n++) {
            byte[] key = key(random);
            long end = time(random);
            long start = time(random);
            byte[] session = SegmentKey.session(key, end, start);
            assertArrayEquals(key, SegmentKey.key(session, 16));
            assertEquals(end, SegmentKey.first(session, 16));
            assertEquals(start, SegmentKey.second(session));
            byte[] window = SegmentKey.window(key, start);
            assertArrayEquals(key, SegmentKey.key(window, 8));
            assertEquals(start, SegmentKey.first(window, 8));
            byte[] duplicate = SegmentKey.duplicate(key, start, n);
            assertArrayEquals(key, SegmentKey.key(duplicate, 12));
            assertEquals(start, SegmentKey.first(duplicate, 12));
        }
    }
}
