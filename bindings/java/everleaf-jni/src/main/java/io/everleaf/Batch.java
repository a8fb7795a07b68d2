package io.everleaf;

import java.util.Objects;

/**
 * Changes to any trees of one pool that a crash keeps or loses together. Nothing happens before {@link #commit}. One thread at a
 * time may use it.
 */
public final class Batch extends Handle {
    Batch(long number, Db db) {
        super(number, "batch", db);
    }

    /** Adds a change that sets the value of a key. Of several changes of a key the last one counts. */
    public Batch put(Tree tree, byte[] key, byte[] value) {
        Objects.requireNonNull(key);
        Native.batchPut(this, number(), tree, tree.number(), key, Objects.requireNonNull(value));
        return this;
    }

    /** Adds a change that removes a key if it is there. */
    public Batch delete(Tree tree, byte[] key) {
        Native.batchDelete(this, number(), tree, tree.number(), Objects.requireNonNull(key));
        return this;
    }

    /** How many changes were added since the last commit. */
    public int size() {
        return Native.batchLen(this, number());
    }

    /** Applies all changes in one epoch. The batch is empty afterwards, also after an exception, and can be filled again. */
    public void commit() {
        Native.batchCommit(this, number());
    }

    /** Drops all changes. */
    public void clear() {
        Native.batchClear(this, number());
    }
}
