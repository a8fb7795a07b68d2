package io.everleaf.ycsb;

import io.everleaf.Db;
import io.everleaf.Options;
import io.everleaf.Range;
import io.everleaf.Scan;
import io.everleaf.Tree;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** YCSB on Everleaf. Writes are on the disk within about 10 ms, as the defaults have it. */
public final class EverleafClient extends Rows {
    private static int users;
    private static Db db;
    private static Tree rows;

    @Override
    public void init() {
        synchronized (EverleafClient.class) {
            if (users == 0) {
                db = Db.open(Path.of(path(), "pool.ever"), new Options().memory(memory()));
                rows = db.tree("usertable");
            }
            users++;
        }
    }

    @Override
    public void cleanup() {
        synchronized (EverleafClient.class) {
            users--;
            if (users == 0) {
                rows.close();
                db.close();
            }
        }
    }

    @Override
    byte[] get(byte[] key) {
        return rows.get(key);
    }

    @Override
    void put(byte[] key, byte[] value) {
        rows.put(key, value);
    }

    @Override
    void remove(byte[] key) {
        rows.delete(key);
    }

    @Override
    List<byte[]> values(byte[] from, int count) {
        List<byte[]> values = new ArrayList<>(count);
        try (Scan scan = rows.scan(Range.all().from(from))) {
            while (values.size() < count && scan.next()) {
                values.add(scan.value());
            }
        }
        return values;
    }
}
