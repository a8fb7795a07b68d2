package io.everleaf.kafka;

import io.everleaf.Db;
import io.everleaf.Options;
import io.everleaf.Range;
import io.everleaf.ReadTree;
import io.everleaf.Snapshot;
import io.everleaf.SnapshotTree;
import io.everleaf.Tree;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.query.Position;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The pool of one store: trees with data, and the tree {@code meta} with the offsets, the position and the layout of all this. A
 * store of keys and values has one tree with data, the others have one for each segment of time. An epoch ends in {@link #commit}
 * and nowhere else; until then trees that were made or dropped come back with all else.
 */
final class StorePool implements Moment {
    private static final Logger LOG = LoggerFactory.getLogger(EverleafStores.class);

    private static final byte[] LAYOUT_KEY = {'v'};
    private static final byte[] INTERVAL_KEY = {'i'};
    private static final byte[] TIME_KEY = {'t'};
    private static final byte[] POSITION_KEY = {'p'};
    private static final byte[] OFFSETS = {'o'};
    private static final String FILE = "pool.ever";
    private static final String DAMAGED = "damaged.ever";
    private static final String DATA = "data";
    private static final String SEGMENT = "segment-";

    /** The state that the last commit has left, for readers of nothing else. */
    record Committed(NavigableMap<Long, SnapshotTree> trees, Position position, long time) implements Moment {
        private void close() {
            trees.values().forEach(SnapshotTree::close);
        }
    }

    final Db db;
    private final Tree meta;
    private final NavigableMap<Long, Tree> trees = new ConcurrentSkipListMap<>();
    /** Milliseconds of a segment; 0 without segments. */
    private final long interval;
    /** The latest time of any record, or -1. */
    private volatile long time = -1;
    /** Something was written that no commit has ended. */
    private volatile boolean isDirty;
    /** Null until somebody has asked for it. */
    private volatile Committed committed;

    private volatile boolean keepsCommitted;

    private StorePool(String store, Db db, Layout layout) {
        this.db = db;
        meta = db.tree("meta");
        byte[] expected = layout.bytes();
        if (meta.insertNew(LAYOUT_KEY, expected)) {
            // The next commit ends the epoch: until then a new pool is as empty as it was.
            isDirty = true;
        } else {
            byte[] found = meta.get(LAYOUT_KEY);
            if (!Arrays.equals(found, expected)) {
                throw new ProcessorStateException("the pool of store " + store + " holds " + Layout.describe(found)
                        + ", and the store is one of " + Layout.describe(expected)
                        + ": if its folder is deleted, it is restored from the changelog");
            }
        }
        interval = interval(layout);
        if (interval == 0) {
            trees.put(0L, db.tree(DATA));
        } else {
            byte[] latest = meta.get(TIME_KEY);
            time = latest == null ? -1 : ByteBuffer.wrap(latest).getLong();
            for (String tree : db.treeNames()) {
                if (tree.startsWith(SEGMENT)) {
                    trees.put(Long.parseLong(tree.substring(SEGMENT.length())), db.tree(tree));
                }
            }
        }
    }

    /** That with which the pool was made: another one would look for old records in the wrong trees. */
    private long interval(Layout layout) {
        if (layout.interval() == 0 || meta.insertNew(INTERVAL_KEY, number(layout.interval()))) {
            return layout.interval();
        }
        return ByteBuffer.wrap(meta.get(INTERVAL_KEY)).getLong();
    }

    private static File folder(String name, StateStoreContext context) {
        return new File(new File(context.stateDir(), "everleaf"), name);
    }

    /** Opens the pool of a store in the folder of its task. */
    static StorePool open(String name, StateStoreContext context, Layout layout) {
        File folder = folder(name, context);
        if (!folder.isDirectory() && !folder.mkdirs()) {
            throw new ProcessorStateException("cannot make the folder " + folder + " of store " + name);
        }
        Options options = new Options().manualEpochs(true);
        StoreMemory.set(options, context.appConfigs());
        Db db = Db.open(new File(folder, FILE).toPath(), options);
        try {
            return new StorePool(name, db, layout);
        } catch (RuntimeException failure) {
            db.abandon();
            throw failure;
        }
    }

    /** Gives a damaged pool another name, in the place of one that was there before: the next open makes a new pool. */
    static void setAside(String name, StateStoreContext context, String damage) {
        Path folder = folder(name, context).toPath();
        Path aside = folder.resolve(DAMAGED);
        try {
            Files.move(folder.resolve(FILE), aside, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException failure) {
            throw new ProcessorStateException(
                    "cannot rename the damaged file " + folder.resolve(FILE) + " of store " + name, failure);
        }
        LOG.error("Store {} is restored from its changelog, and its damaged file is now {}: {}", name, aside, damage);
    }

    /** The file that has all of it. */
    Path file() {
        return db.path();
    }

    private static byte[] number(long number) {
        return ByteBuffer.allocate(8).putLong(number).array();
    }

    @Override
    public NavigableMap<Long, ? extends ReadTree> trees() {
        return trees;
    }

    @Override
    public long time() {
        return time;
    }

    /** The only tree of a store of keys and values. */
    Tree data() {
        return trees.get(0L);
    }

    long interval() {
        return interval;
    }

    /** The tree of a segment, which is made if it is not there. */
    Tree segment(long segment) {
        Tree tree = trees.get(segment);
        if (tree == null) {
            isDirty = true;
            tree = db.tree(SEGMENT + segment);
            trees.put(segment, tree);
        }
        return tree;
    }

    /** The tree of a segment, or null. */
    Tree existing(long segment) {
        return trees.get(segment);
    }

    /** There was a record of this time. */
    void advance(long to) {
        if (to > time) {
            isDirty = true;
            time = to;
        }
    }

    /** Drops all segments before one. */
    void dropBefore(long segment) {
        Map.Entry<Long, Tree> first = trees.firstEntry();
        while (first != null && first.getKey() < segment) {
            isDirty = true;
            trees.remove(first.getKey());
            first.getValue().close();
            db.dropTree(SEGMENT + first.getKey());
            first = trees.firstEntry();
        }
    }

    /** Something is about to be written. */
    void touch() {
        isDirty = true;
    }

    Position position() {
        byte[] bytes = meta.get(POSITION_KEY);
        return bytes == null ? Position.emptyPosition() : Internals.deserialize(bytes);
    }

    private static byte[] key(TopicPartition partition) {
        byte[] topic = partition.topic().getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(5 + topic.length)
                .put(OFFSETS)
                .putInt(partition.partition())
                .put(topic)
                .array();
    }

    Long offset(TopicPartition partition) {
        byte[] offset = meta.get(key(partition));
        return offset == null ? null : ByteBuffer.wrap(offset).getLong();
    }

    /** Data, offsets and position become durable together. Without any offsets, those from before are forgotten. */
    void commit(Map<TopicPartition, Long> offsets, Position position) {
        isDirty = true;
        if (offsets.isEmpty()) {
            meta.removeRange(Range.prefix(OFFSETS));
        }
        offsets.forEach((partition, offset) -> {
            if (offset == null) {
                meta.delete(key(partition));
            } else {
                meta.put(key(partition), number(offset));
            }
        });
        meta.put(POSITION_KEY, Internals.serialize(position));
        if (interval != 0) {
            meta.put(TIME_KEY, number(time));
        }
        db.endEpoch();
        isDirty = false;
        if (keepsCommitted) {
            keep(position);
        }
    }

    private void keep(Position position) {
        Committed before = committed;
        NavigableMap<Long, SnapshotTree> kept = new TreeMap<>();
        try (Snapshot snapshot = db.snapshot()) {
            trees.forEach((segment, tree) -> kept.put(segment, snapshot.of(tree)));
        }
        committed = new Committed(kept, position, time);
        if (before != null) {
            before.close();
        }
    }

    /** The state that the last commit has left, or null if nothing has kept it: the next commit does. */
    Committed committed() {
        keepsCommitted = true;
        return committed;
    }

    /** The same, before anything was written since the open: that is what the last commit has left. */
    void keepCommitted(Position position) {
        keepsCommitted = true;
        keep(position);
    }

    /** Takes back what came after the last commit: nothing says whether the task ends well. */
    void close() {
        Committed last = committed;
        if (last != null) {
            last.close();
        }
        trees.values().forEach(Tree::close);
        meta.close();
        if (isDirty) {
            db.abandon();
        } else {
            db.close();
        }
    }
}
