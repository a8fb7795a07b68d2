package io.everleaf;

/** A tree as it was at the moment of a {@link Snapshot}. It keeps that moment until it is closed. */
public final class SnapshotTree extends ReadTree {
    SnapshotTree(long number, String name, Db db) {
        super(number, "tree of a snapshot", name, db);
    }
}
