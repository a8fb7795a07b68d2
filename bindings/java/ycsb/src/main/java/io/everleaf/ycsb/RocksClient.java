package io.everleaf.ycsb;

import java.util.ArrayList;
import java.util.List;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteOptions;
import site.ycsb.DBException;

/** YCSB on RocksDB. Its log is written and not synced: a killed program loses nothing, and a power cut may take the last writes. */
public final class RocksClient extends Rows {
    private static final int FILTER_BITS = 10;

    private static int users;
    private static RocksDB db;
    private static Options options;
    private static WriteOptions writes;

    @Override
    public void init() throws DBException {
        synchronized (RocksClient.class) {
            if (users == 0) {
                RocksDB.loadLibrary();
                BlockBasedTableConfig table = new BlockBasedTableConfig()
                        .setBlockCache(new LRUCache(memory()))
                        .setFilterPolicy(new BloomFilter(FILTER_BITS));
                options = new Options()
                        .setCreateIfMissing(true)
                        .setIncreaseParallelism(Runtime.getRuntime().availableProcessors())
                        .setTableFormatConfig(table);
                writes = new WriteOptions();
                try {
                    db = RocksDB.open(options, path());
                } catch (RocksDBException failure) {
                    throw new DBException(failure);
                }
            }
            users++;
        }
    }

    @Override
    public void cleanup() throws DBException {
        synchronized (RocksClient.class) {
            users--;
            if (users == 0) {
                try {
                    db.closeE();
                } catch (RocksDBException failure) {
                    throw new DBException(failure);
                } finally {
                    writes.close();
                    options.close();
                }
            }
        }
    }

    @Override
    byte[] get(byte[] key) throws RocksDBException {
        return db.get(key);
    }

    @Override
    void put(byte[] key, byte[] value) throws RocksDBException {
        db.put(writes, key, value);
    }

    @Override
    void remove(byte[] key) throws RocksDBException {
        db.delete(writes, key);
    }

    @Override
    List<byte[]> values(byte[] from, int count) throws RocksDBException {
        List<byte[]> values = new ArrayList<>(count);
        try (RocksIterator pairs = db.newIterator()) {
            for (pairs.seek(from); values.size() < count && pairs.isValid(); pairs.next()) {
                values.add(pairs.value());
            }
            pairs.status();
        }
        return values;
    }
}
