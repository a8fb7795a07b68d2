package io.everleaf;

import java.util.List;

/**
 * All trees of a pool as they were at one moment. While it is open, writers keep the values that they replace in memory; at a
 * limit the oldest snapshot expires with a {@link SnapshotTooOldException}. Any number of threads may use it at once.
 */
public final class Snapshot extends Handle {
    Snapshot(long number, Db db) {
        super(number, "snapshot", db);
    }

    /** The tree that had this name, or null. */
    public SnapshotTree tree(String name) {
        long tree = Native.snapshotTree(this, number(), Texts.bytes(name));
        return tree == 0 ? null : new SnapshotTree(tree, name, db);
    }

    /** A tree as it was then: empty if it was made later. */
    public SnapshotTree of(Tree tree) {
        return new SnapshotTree(Native.snapshotOf(this, number(), tree, tree.number()), tree.name(), db);
    }

    /** The names that trees had, in bytewise order. */
    public List<String> treeNames() {
        return Texts.strings(Native.snapshotTreeNames(this, number()));
    }
}
