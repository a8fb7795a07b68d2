package io.everleaf.kafka;

import io.everleaf.Db;
import io.everleaf.Options;
import io.everleaf.Range;
import io.everleaf.Snapshot;
import io.everleaf.SnapshotTree;
import io.everleaf.Tree;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.query.Position;

/**
 * The pool of one store: the tree {@code data}, and the tree {@code meta} with the offsets, the position and the version of all
 * this. An epoch ends in {@link #commit} and nowhere else.
 */
final class StorePool {
    private static final byte[] VERSION_KEY = {'v'};
    private static final byte[] VERSION = {1};
    private static final byte[] POSITION_KEY = {'p'};
    private static final byte[] OFFSETS = {'o'};
    private static final long MEMORY = 64L << 20;

    /** What the last commit has left, for who reads nothing else. */
    record Committed(SnapshotTree data, Position position) {}

    final Db db;
    final Tree data;
    private final Tree meta;
    /** Something was written that no commit has ended. */
    private volatile boolean isDirty;
    /** Null until somebody has asked for it. */
    private volatile Committed committed;

    private volatile boolean keepsCommitted;

    private StorePool(Db db) {
        this.db = db;
        data = db.tree("data");
        meta = db.tree("meta");
    }

    /** Opens the pool of a store in the folder of its task. */
    static StorePool open(String name, StateStoreContext context) {
        File folder = new File(new File(context.stateDir(), "everleaf"), name);
        if (!folder.isDirectory() && !folder.mkdirs()) {
            throw new ProcessorStateException("cannot make the folder " + folder + " of store " + name);
        }
        Options options = new Options().manualEpochs(true).memory(memory(context));
        Db db = Db.open(new File(folder, "pool.ever").toPath(), options);
        try {
            StorePool pool = new StorePool(db);
            pool.expectVersion(name);
            return pool;
        } catch (RuntimeException failure) {
            db.abandon();
            throw failure;
        }
    }

    private static long memory(StateStoreContext context) {
        Object given = context.appConfigs().get(EverleafStores.MEMORY_CONFIG);
        return given == null ? MEMORY : Long.parseLong(given.toString());
    }

    private void expectVersion(String name) {
        if (meta.insertNew(VERSION_KEY, VERSION)) {
            // The next commit ends the epoch: until then the pool is as empty as it was.
            return;
        }
        byte[] version = meta.get(VERSION_KEY);
        if (!java.util.Arrays.equals(version, VERSION)) {
            throw new ProcessorStateException("the pool of store " + name + " has version " + version[0]
                    + ", and this library knows version " + VERSION[0]);
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
                meta.put(key(partition), ByteBuffer.allocate(8).putLong(offset).array());
            }
        });
        meta.put(POSITION_KEY, Internals.serialize(position));
        db.endEpoch();
        isDirty = false;
        if (keepsCommitted) {
            keep(position);
        }
    }

    private void keep(Position position) {
        Committed before = committed;
        try (Snapshot snapshot = db.snapshot()) {
            committed = new Committed(snapshot.of(data), position);
        }
        if (before != null) {
            before.data.close();
        }
    }

    /** What the last commit has left, or null if nothing has kept it: the next commit does. */
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
            last.data.close();
        }
        data.close();
        meta.close();
        if (isDirty) {
            db.abandon();
        } else {
            db.close();
        }
    }
}
