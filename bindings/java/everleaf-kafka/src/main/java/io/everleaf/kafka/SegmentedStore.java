package io.everleaf.kafka;

import io.everleaf.ClosedException;
import io.everleaf.NoTreeException;
import io.everleaf.Range;
import io.everleaf.ReadTree;
import io.everleaf.Tree;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.streams.KeyValue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A store of records that expire. Each segment of time has a tree, so that the end of all its records is the drop of a tree. A record
 * expires when the latest record is more than the retention later: then no read sees it, even where its tree is still there, and no
 * write makes it. Its tree goes with the next write.
 */
abstract class SegmentedStore extends EverleafStore {
    private static final Logger LOG = LoggerFactory.getLogger(EverleafStores.class);

    final long retention;
    /** Counts the records that come too late; null where nobody measures. */
    private Sensor dropped;

    SegmentedStore(String name, Layout layout, long retention) {
        super(name, layout);
        this.retention = retention;
    }

    /** The time by which a record of the changelog expires. */
    abstract long timeOf(byte[] logged);

    /** The key in a tree for the key in the changelog. */
    abstract byte[] keyOf(byte[] logged);

    @Override
    void opened() {
        dropped = Internals.droppedRecords(context);
    }

    /** The first time that has not expired. */
    final long firstLive(Moment moment) {
        return moment.time() - retention + 1;
    }

    /** Sets or removes a record, unless it has expired. */
    final void set(long time, byte[] key, byte[] value) {
        pool.touch();
        // Those that had expired before this record: what expires by it may still be asked for when its window or session closes.
        drop();
        pool.advance(time);
        if (time < firstLive(pool)) {
            if (dropped != null) {
                dropped.record();
            }
            LOG.warn("Skipping record for expired segment.");
            return;
        }
        write(time, key, value);
    }

    private void write(long time, byte[] key, byte[] value) {
        long segment = Math.floorDiv(time, pool.interval());
        if (value != null) {
            Tree tree = pool.segment(segment);
            DamagedException.at(tree, key, () -> {
                tree.put(key, value);
                return null;
            });
            return;
        }
        Tree tree = pool.existing(segment);
        if (tree != null) {
            DamagedException.at(tree, key, () -> {
                tree.delete(key);
                return null;
            });
        }
    }

    private void drop() {
        pool.dropBefore(Math.floorDiv(firstLive(pool), pool.interval()));
    }

    /** Old records make no trees that later ones of the same records would drop again. */
    @Override
    void restore(Iterable<KeyValue<byte[], byte[]>> records) {
        pool.touch();
        for (KeyValue<byte[], byte[]> record : records) {
            pool.advance(timeOf(record.key));
        }
        drop();
        long live = firstLive(pool);
        for (KeyValue<byte[], byte[]> record : records) {
            long time = timeOf(record.key);
            if (time >= live) {
                write(time, keyOf(record.key), record.value);
            }
        }
    }

    /** The value of a key that belongs to a time, or null. */
    final byte[] get(Moment moment, long time, byte[] key) {
        if (time < firstLive(moment)) {
            return null;
        }
        ReadTree tree = moment.trees().get(Math.floorDiv(time, pool.interval()));
        try {
            return tree == null ? null : DamagedException.at(tree, key, () -> tree.get(key));
        } catch (NoTreeException expired) {
            return null;
        } catch (ClosedException closed) {
            expectExpired(moment, tree, closed);
            return null;
        }
    }

    /** Walks over one range in all segments from one time to another. */
    final List<Walk> walks(Moment moment, long from, long to, Range range, boolean forward) {
        List<Walk> walks = new ArrayList<>();
        if (from > to) {
            return walks;
        }
        NavigableMap<Long, ? extends ReadTree> part = moment.trees()
                .subMap(Math.floorDiv(from, pool.interval()), true, Math.floorDiv(to, pool.interval()), true);
        Collection<? extends ReadTree> trees = forward ? part.values() : part.descendingMap().values();
        Range directed = forward ? range : range.reversed();
        try {
            for (ReadTree tree : trees) {
                walk(moment, tree, directed, walks);
            }
        } catch (RuntimeException failure) {
            walks.forEach(Walk::close);
            throw failure;
        }
        return walks;
    }

    private void walk(Moment moment, ReadTree tree, Range range, List<Walk> walks) {
        try {
            walks.add(new Walk(tree, range));
        } catch (NoTreeException expired) {
            // It was dropped by the thread that writes, after it was found here.
        } catch (ClosedException closed) {
            expectExpired(moment, tree, closed);
        }
    }

    /** A tree is closed because its segment has expired, or with all others. */
    private static void expectExpired(Moment moment, ReadTree tree, ClosedException closed) {
        for (Map.Entry<Long, ? extends ReadTree> entry : moment.trees().entrySet()) {
            if (entry.getValue() == tree) {
                throw closed;
            }
        }
    }
}
