package io.everleaf;

import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.function.UnaryOperator;

/**
 * Reads at one moment, and writes that happen together or not at all. Its reads see its own writes. The moment is that of the
 * first read. A close without a {@link #commit} drops the writes. One thread at a time may use it, with its scans and cursors.
 */
public final class Transaction extends Handle {
    Transaction(long number, Db db) {
        super(number, "transaction", db);
    }

    /** The value of a key, or null. The key counts as read, whether it is there or not. */
    public byte[] get(Tree tree, byte[] key) {
        return Native.txnGet(this, number(), tree, tree.number(), Objects.requireNonNull(key));
    }

    /** The values of keys, in their order; null for a key that is not there. All of them count as read. */
    public List<byte[]> getMany(Tree tree, Collection<byte[]> keys) {
        byte[] values = Native.txnGetMany(this, number(), tree, tree.number(), Texts.pack(keys));
        return Texts.values(values, keys.size());
    }

    /** Whether a key is there. */
    public boolean contains(Tree tree, byte[] key) {
        return Native.txnContains(this, number(), tree, tree.number(), Objects.requireNonNull(key));
    }

    /** The bytes of a value, or -1 if the key is not there. */
    public long valueLength(Tree tree, byte[] key) {
        return Native.txnValueLen(this, number(), tree, tree.number(), Objects.requireNonNull(key));
    }

    /** Copies a part of a value, as {@link ReadTree#readAt} does. */
    public int readAt(Tree tree, byte[] key, long offset, byte[] into, int at, int length) {
        Objects.requireNonNull(key);
        Objects.checkFromIndexSize(at, length, into.length);
        return Native.txnReadAt(this, number(), tree, tree.number(), key, offset, into, at, length);
    }

    /** How many pairs a tree has. It counts them, and all count as read. */
    public long size(Tree tree) {
        return Native.txnLen(this, number(), tree, tree.number());
    }

    /** The pair with the smallest key, or null. */
    public Pair first(Tree tree) {
        return edge(tree, ReadTree.FIRST, null);
    }

    /** The pair with the largest key, or null. */
    public Pair last(Tree tree) {
        return edge(tree, ReadTree.LAST, null);
    }

    /** The last pair whose key is this one or below it, or null. */
    public Pair floor(Tree tree, byte[] key) {
        return edge(tree, ReadTree.FLOOR, Objects.requireNonNull(key));
    }

    /** The first pair whose key is this one or above it, or null. */
    public Pair ceiling(Tree tree, byte[] key) {
        return edge(tree, ReadTree.CEILING, Objects.requireNonNull(key));
    }

    private Pair edge(Tree tree, int which, byte[] key) {
        return Texts.pair(Native.txnEdge(this, number(), tree, tree.number(), which, key));
    }

    /** Sets the value of a key. Others see it after the commit. */
    public void put(Tree tree, byte[] key, byte[] value) {
        Objects.requireNonNull(key);
        Native.txnPut(this, number(), tree, tree.number(), key, Objects.requireNonNull(value));
    }

    /** Removes a key if it is there. */
    public void delete(Tree tree, byte[] key) {
        Native.txnDelete(this, number(), tree, tree.number(), Objects.requireNonNull(key));
    }

    /** Sets the value of a key if the key is not there; whether that was so. */
    public boolean insertNew(Tree tree, byte[] key, byte[] value) {
        Objects.requireNonNull(key);
        return Native.txnInsertNew(this, number(), tree, tree.number(), key, Objects.requireNonNull(value));
    }

    /** Removes a key and returns the value that it had, or null, as {@link Tree#take} does. */
    public byte[] take(Tree tree, byte[] key) {
        return Native.txnTake(this, number(), tree, tree.number(), Objects.requireNonNull(key));
    }

    /** Changes the value of a key if it is the expected one, as {@link Tree#compareAndSwap} does. */
    public boolean compareAndSwap(Tree tree, byte[] key, byte[] expected, byte[] value) {
        Objects.requireNonNull(key);
        return Native.txnCompareAndSwap(this, number(), tree, tree.number(), key, expected, value);
    }

    /** Sets the value of a key to what a function makes of it, and returns that. Null stands for no value. */
    public byte[] update(Tree tree, byte[] key, UnaryOperator<byte[]> change) {
        byte[] old = get(tree, key);
        byte[] value = change.apply(old);
        if (value != null) {
            put(tree, key, value);
        } else if (old != null) {
            delete(tree, key);
        }
        return value;
    }

    /** Removes the pairs of a range and returns how many there were. */
    public long removeRange(Tree tree, Range range) {
        return Native.txnRemoveRange(
                this, number(), tree, tree.number(), range.from(), range.to(), range.flags());
    }

    /** A walk over a range of a tree, as the transaction sees it. */
    public Scan scan(Tree tree, Range range) {
        long scan = Native.txnScan(this, number(), tree, tree.number(), range.from(), range.to(), range.flags());
        return new Scan(scan, db);
    }

    /** A cursor over a tree, as the transaction sees it; it is at no pair yet. It ends with the transaction. */
    public Cursor cursor(Tree tree) {
        return new Cursor(Native.txnCursor(this, number(), tree, tree.number()), db);
    }

    /**
     * Makes all writes in one epoch if everything that was read is unchanged. The transaction has ended then, also after an
     * exception.
     *
     * @throws ConflictException if others were in the way: nothing has happened
     */
    public void commit() {
        Native.txnCommit(this, number());
    }

    /** Ends the transaction and drops its writes. */
    public void abort() {
        Native.txnAbort(this, number());
    }
}
