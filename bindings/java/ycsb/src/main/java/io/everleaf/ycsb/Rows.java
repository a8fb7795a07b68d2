package io.everleaf.ycsb;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;

/**
 * Rows of YCSB as values of a store: each field is the length of its name, the name, the length of its value, and the value. Both stores
 * have the same bytes. An update reads the row and puts it again, as YCSB's own bindings of such stores do: two updates of one row at
 * once may lose one.
 *
 * <p>YCSB makes one object for each thread; all of them share one store, which is opened by the first and closed by the last.
 */
abstract class Rows extends DB {
    /** The property with the folder of the store. */
    static final String PATH = "store.path";
    /** The property with the bytes of memory for what the store has read. */
    static final String MEMORY = "store.memory.bytes";

    private static final long MEMORY_BYTES = 512L << 20;

    /** The bytes of memory for what the store has read. */
    final long memory() {
        return Long.parseLong(getProperties().getProperty(MEMORY, "" + MEMORY_BYTES));
    }

    final String path() {
        String path = getProperties().getProperty(PATH);
        if (path == null) {
            throw new IllegalArgumentException("the property " + PATH + " is missing: it names the folder of the store");
        }
        return path;
    }

    /** The value of a key, or null. */
    abstract byte[] get(byte[] key) throws Exception;

    abstract void put(byte[] key, byte[] value) throws Exception;

    abstract void remove(byte[] key) throws Exception;

    /** The values of so many keys from one on, fewer where they end. */
    abstract List<byte[]> values(byte[] from, int count) throws Exception;

    private static byte[] key(String key) {
        return key.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] pack(Map<String, ByteIterator> row) {
        Map<byte[], byte[]> fields = new LinkedHashMap<>();
        int bytes = 0;
        for (Map.Entry<String, ByteIterator> field : row.entrySet()) {
            byte[] name = key(field.getKey());
            byte[] value = field.getValue().toArray();
            fields.put(name, value);
            bytes += 2 * Integer.BYTES + name.length + value.length;
        }
        ByteBuffer packed = ByteBuffer.allocate(bytes);
        fields.forEach((name, value) -> packed.putInt(name.length).put(name).putInt(value.length).put(value));
        return packed.array();
    }

    /** Adds the fields of a row to a map; null stands for all of them. */
    static void unpack(byte[] row, Set<String> fields, Map<String, ByteIterator> into) {
        ByteBuffer packed = ByteBuffer.wrap(row);
        while (packed.hasRemaining()) {
            byte[] name = new byte[packed.getInt()];
            packed.get(name);
            String field = new String(name, StandardCharsets.UTF_8);
            byte[] value = new byte[packed.getInt()];
            packed.get(value);
            if (fields == null || fields.contains(field)) {
                into.put(field, new ByteArrayByteIterator(value));
            }
        }
    }

    /** One operation. */
    private interface Operation {
        Status run() throws Exception;
    }

    /** YCSB counts what is not OK, and run.sh fails then. */
    private static Status run(Operation operation) {
        try {
            return operation.run();
        } catch (Exception failure) {
            failure.printStackTrace();
            return Status.ERROR;
        }
    }

    @Override
    public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
        return run(() -> {
            byte[] row = get(key(key));
            if (row == null) {
                return Status.NOT_FOUND;
            }
            unpack(row, fields, result);
            return Status.OK;
        });
    }

    @Override
    public Status scan(
            String table, String from, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
        return run(() -> {
            for (byte[] row : values(key(from), count)) {
                HashMap<String, ByteIterator> unpacked = new HashMap<>();
                unpack(row, fields, unpacked);
                result.add(unpacked);
            }
            return Status.OK;
        });
    }

    @Override
    public Status update(String table, String key, Map<String, ByteIterator> fields) {
        return run(() -> {
            byte[] row = get(key(key));
            if (row == null) {
                return Status.NOT_FOUND;
            }
            Map<String, ByteIterator> merged = new LinkedHashMap<>();
            unpack(row, null, merged);
            merged.putAll(fields);
            put(key(key), pack(merged));
            return Status.OK;
        });
    }

    @Override
    public Status insert(String table, String key, Map<String, ByteIterator> fields) {
        return run(() -> {
            put(key(key), pack(fields));
            return Status.OK;
        });
    }

    @Override
    public Status delete(String table, String key) {
        return run(() -> {
            remove(key(key));
            return Status.OK;
        });
    }
}
