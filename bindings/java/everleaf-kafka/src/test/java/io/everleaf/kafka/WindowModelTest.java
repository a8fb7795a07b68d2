package io.everleaf.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A window store against a map, with keys of which many begin as others end. */
class WindowModelTest {
    private static final long MINUTE = 60_000;
    private static final long RETENTION = 2 * MINUTE;

    @TempDir
    File folder;

    private record Place(Bytes key, long time) {
        /** The order of the store: segments, keys in a segment, and times of a key. */
        private static final Comparator<Place> ORDER = Comparator.<Place>comparingLong(place -> place.time / MINUTE)
                .thenComparing(place -> place.key)
                .thenComparingLong(place -> place.time);
    }

    private final TreeMap<Place, Byte> model = new TreeMap<>(Place.ORDER);
    private final Random random = new Random(
            System.getenv("EVERLEAF_SEED") == null ? 7 : Long.parseLong(System.getenv("EVERLEAF_SEED")));
    private long latest = -1;

    private Bytes key() {
        byte[] key = new byte[random.nextInt(4)];
        for (int at = 0; at < key.length; at++) {
            key[at] = (byte) (random.nextInt(3) - 1);
        }
        return Bytes.wrap(key);
    }

    private List<String> expected(Bytes least, Bytes most, long from, long to, boolean forward) {
        List<String> expected = new ArrayList<>();
        model.forEach((place, value) -> {
            boolean fits = (least == null || least.compareTo(place.key) <= 0)
                    && (most == null || most.compareTo(place.key) >= 0);
            if (fits && place.time >= Math.max(from, latest - RETENTION + 1) && place.time <= to) {
                expected.add(place.key + "@" + place.time + "=" + value);
            }
        });
        if (!forward) {
            Collections.reverse(expected);
        }
        return expected;
    }

    private static List<String> found(KeyValueIterator<Windowed<Bytes>, byte[]> iterator) {
        List<String> found = new ArrayList<>();
        try (iterator) {
            iterator.forEachRemaining(
                    pair -> found.add(pair.key.key() + "@" + pair.key.window().start() + "=" + pair.value[0]));
        }
        return found;
    }

    private static List<String> found(Bytes key, WindowStoreIterator<byte[]> iterator) {
        List<String> found = new ArrayList<>();
        try (iterator) {
            iterator.forEachRemaining(pair -> found.add(key + "@" + pair.key + "=" + pair.value[0]));
        }
        return found;
    }

    private void write(EverleafWindowStore store, int round) {
        Bytes key = key();
        long time = Math.max(0, round * 100L + random.nextInt(3 * (int) MINUTE) - (int) RETENTION - 20_000);
        // Many times meet.
        time -= time % 5_000;
        byte[] value = random.nextInt(4) == 0 ? null : new byte[] {(byte) round};
        store.put(key, value, time);
        latest = Math.max(latest, time);
        if (time <= latest - RETENTION) {
            return;
        }
        if (value == null) {
            model.remove(new Place(key, time));
        } else {
            model.put(new Place(key, time), value[0]);
        }
    }

    private void compare(EverleafWindowStore store) {
        Bytes one = key();
        Bytes other = key();
        Bytes least = one.compareTo(other) < 0 ? one : other;
        Bytes most = least == one ? other : one;
        long from = latest - random.nextInt(4 * (int) MINUTE);
        long to = from + random.nextInt(3 * (int) MINUTE);
        assertEquals(expected(one, one, from, to, true), found(one, store.fetch(one, from, to)));
        assertEquals(expected(one, one, from, to, false), found(one, store.backwardFetch(one, from, to)));
        assertEquals(expected(least, most, from, to, true), found(store.fetch(least, most, from, to)));
        assertEquals(expected(least, most, from, to, false), found(store.backwardFetch(least, most, from, to)));
        assertEquals(expected(null, most, from, to, true), found(store.fetch(null, most, from, to)));
        assertEquals(expected(least, null, from, to, false), found(store.backwardFetch(least, null, from, to)));
        assertEquals(expected(null, null, from, to, true), found(store.fetchAll(from, to)));
        long time = from - from % 5_000;
        List<String> single = expected(one, one, time, time, true);
        byte[] value = store.fetch(one, time);
        assertEquals(single, value == null ? List.of() : List.of(one + "@" + time + "=" + value[0]));
    }

    @Test
    void theStoreIsWhatTheModelSays() {
        Context context = new Context(folder);
        context.configs.put("enable.transactional.statestores", true);
        context.configs.put("default.interactive.query.isolation.level", "READ_COMMITTED");
        EverleafWindowStore store = new EverleafWindowStore((EverleafStores.Windows) EverleafStores.persistentWindowStore(
                "w", Duration.ofMillis(RETENTION), Duration.ofMillis(10), false));
        store.init(context, store);
        TreeMap<Place, Byte> committed = new TreeMap<>(Place.ORDER);
        long committedLatest = -1;
        List<String> committedAll = List.of();
        for (int round = 0; round < 6_000; round++) {
            write(store, round);
            if (round % 7 == 0) {
                compare(store);
            }
            if (random.nextInt(100) == 0) {
                assertEquals(expected(null, null, 0, Long.MAX_VALUE, true), found(store.all()));
                assertEquals(expected(null, null, 0, Long.MAX_VALUE, false), found(store.backwardAll()));
                assertEquals(committedAll, found(store.readOnly(IsolationLevel.READ_COMMITTED).all()));
                store.commit(Map.of());
                committed.clear();
                committed.putAll(model);
                committedLatest = latest;
                committedAll = expected(null, null, 0, Long.MAX_VALUE, true);
            }
            if (random.nextInt(200) == 0) {
                store.close();
                store.init(context, store);
                model.clear();
                model.putAll(committed);
                latest = committedLatest;
            }
        }
        store.close();
    }
}
