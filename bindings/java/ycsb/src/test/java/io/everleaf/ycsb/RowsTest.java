package io.everleaf.ycsb;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.Vector;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import site.ycsb.ByteIterator;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/** Both bindings answer alike. */
class RowsTest {
    @TempDir
    File folder;

    private static Map<String, ByteIterator> row(String... fields) {
        Map<String, ByteIterator> row = new LinkedHashMap<>();
        for (int at = 0; at < fields.length; at += 2) {
            row.put(fields[at], new StringByteIterator(fields[at + 1]));
        }
        return row;
    }

    private static Map<String, String> texts(Map<String, ByteIterator> row) {
        Map<String, String> texts = new TreeMap<>();
        row.forEach((name, value) -> texts.put(name, value.toString()));
        return texts;
    }

    private Rows open(Supplier<Rows> make) throws DBException {
        Rows rows = make.get();
        Properties properties = new Properties();
        properties.put(Rows.PATH, folder.getPath());
        properties.put(Rows.MEMORY, "" + (8 << 20));
        rows.setProperties(properties);
        rows.init();
        return rows;
    }

    private void tryOut(Supplier<Rows> make) throws DBException {
        Rows rows = open(make);
        Rows second = open(make);
        for (int number = 9; number >= 0; number--) {
            assertEquals(Status.OK, rows.insert("t", "user" + number, row("a", "1-" + number, "b", "")));
        }
        assertEquals(Status.OK, rows.update("t", "user3", row("b", "new", "c", "more")));
        assertEquals(Status.NOT_FOUND, rows.update("t", "nobody", row("b", "new")));
        Map<String, ByteIterator> read = new HashMap<>();
        assertEquals(Status.OK, second.read("t", "user3", null, read));
        assertEquals(Map.of("a", "1-3", "b", "new", "c", "more"), texts(read));
        read.clear();
        assertEquals(Status.OK, rows.read("t", "user3", Set.of("c"), read));
        assertEquals(Map.of("c", "more"), texts(read));
        assertEquals(Status.NOT_FOUND, rows.read("t", "nobody", null, read));
        assertEquals(Status.OK, rows.delete("t", "user5"));
        rows.cleanup();
        // The other one still has the store, and the next one opens it again.
        assertEquals(List.of("1-4", "1-6", "1-7"), scan(second, "user4", 3));
        second.cleanup();
        Rows again = open(make);
        assertEquals(List.of("1-8", "1-9"), scan(again, "user8", 100));
        again.cleanup();
    }

    private static List<String> scan(Rows rows, String from, int count) {
        Vector<HashMap<String, ByteIterator>> scanned = new Vector<>();
        assertEquals(Status.OK, rows.scan("t", from, count, Set.of("a"), scanned));
        List<String> values = new ArrayList<>();
        scanned.forEach(row -> values.add(row.get("a").toString()));
        return values;
    }

    @Test
    void everleaf() throws DBException {
        tryOut(EverleafClient::new);
    }

    @Test
    void rocks() throws DBException {
        tryOut(RocksClient::new);
    }

    @Test
    void aFailureIsCounted() throws DBException {
        Rows rows = open(EverleafClient::new);
        assertEquals(Status.ERROR, rows.insert("t", "k".repeat(70_000), row("a", "1")));
        rows.cleanup();
        assertThrows(IllegalArgumentException.class, () -> {
            Rows nowhere = new EverleafClient();
            nowhere.setProperties(new Properties());
            nowhere.init();
        });
    }

    @Test
    void rowsArePacked() {
        byte[] packed = Rows.pack(row("ab", "xyz"));
        assertArrayEquals(new byte[] {0, 0, 0, 2, 'a', 'b', 0, 0, 0, 3, 'x', 'y', 'z'}, packed);
    }
}
