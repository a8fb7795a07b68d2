package io.everleaf;

import java.io.InputStream;
import java.util.Objects;
import java.util.function.UnaryOperator;

/**
 * A named ordered map from bytes to bytes. A write is seen by all threads as soon as it returns. A value has at most
 * 4,294,967,295 bytes; one that does not fit an array is written by {@link #putFrom} and read by {@link #readAt}.
 */
public final class Tree extends ReadTree {
    Tree(long number, String name, Db db) {
        super(number, "tree", name, db);
    }

    /** Sets the value of a key. */
    public void put(byte[] key, byte[] value) {
        Native.treePut(this, number(), Objects.requireNonNull(key), Objects.requireNonNull(value));
    }

    /**
     * Sets the value of a key to the next bytes of a stream, which is read in this thread. Others see the old value until all
     * of it is there. An exception of the stream is thrown as it is, and nothing has changed then.
     */
    public void putFrom(byte[] key, InputStream stream, long length) {
        Native.treePutFrom(this, number(), Objects.requireNonNull(key), Objects.requireNonNull(stream), length);
    }

    /** Removes a key if it is there. */
    public void delete(byte[] key) {
        Native.treeDelete(this, number(), Objects.requireNonNull(key));
    }

    /** Sets the value of a key if the key is not there; whether that was so. */
    public boolean insertNew(byte[] key, byte[] value) {
        return Native.treeInsertNew(this, number(), Objects.requireNonNull(key), Objects.requireNonNull(value));
    }

    /** Sets the value of a key if the key is there; whether that was so. */
    public boolean replace(byte[] key, byte[] value) {
        return Native.treeReplace(this, number(), Objects.requireNonNull(key), Objects.requireNonNull(value));
    }

    /**
     * Removes a key and returns the value that it had, or null. A value that fits no array is refused and stays, unless another
     * thread sets it at that moment. After an {@link OutOfMemoryError} the key may be gone.
     *
     * @throws InvalidException if the value fits no array
     */
    public byte[] take(byte[] key) {
        return Native.treeTake(this, number(), Objects.requireNonNull(key));
    }

    /**
     * Sets the value of a key and returns the one that it had, or null. An old value that fits no array is refused and stays, as
     * {@link #take} says. After an {@link OutOfMemoryError} the new value may be set.
     *
     * @throws InvalidException if the old value fits no array
     */
    public byte[] swap(byte[] key, byte[] value) {
        return Native.treeSwap(this, number(), Objects.requireNonNull(key), Objects.requireNonNull(value));
    }

    /**
     * Changes the value of a key if it is the expected one; whether it was. Null stands for no value: it is expected if the key
     * is to be missing, and as the new value it removes the key.
     */
    public boolean compareAndSwap(byte[] key, byte[] expected, byte[] value) {
        return Native.treeCompareAndSwap(this, number(), Objects.requireNonNull(key), expected, value);
    }

    /**
     * Sets the value of a key to what a function makes of it, and returns that. Null stands for no value. If another thread
     * changes the value meanwhile, the function is called again, and only its last call counts. It may use the pool, and may be
     * slow. If it throws, nothing has changed.
     *
     * @throws ConflictException if the value had become another one after each of 100 calls
     */
    public byte[] update(byte[] key, UnaryOperator<byte[]> change) {
        Objects.requireNonNull(change);
        byte[][] last = new byte[1][];
        UnaryOperator<byte[]> asked = old -> last[0] = change.apply(old);
        Native.treeUpdate(this, number(), Objects.requireNonNull(key), asked);
        return last[0];
    }

    /**
     * Sets the values of keys that come in ascending order, and returns how many pairs there were. It is faster than a put of
     * each. Pairs are taken some time before they are set. After an exception, which may be one of the pairs' own, the pairs
     * before it are in the tree.
     *
     * @throws InvalidException if a key is not above the one before it
     */
    public long loadSorted(Iterable<Pair> pairs) {
        return Native.treeLoadSorted(this, number(), new PackedPairs(pairs.iterator()));
    }

    /** Removes the pairs of a range and returns how many there were. Others, and a crash, may see a part of it. */
    public long removeRange(Range range) {
        return Native.treeRemoveRange(this, number(), range.from(), range.to(), range.flags());
    }

    /** Removes all pairs at once and returns how many there were. */
    public long clear() {
        return Native.treeClear(this, number());
    }

    /**
     * Removes the pair with the smallest key and returns it, or null. A pair that fits no array is refused and stays, as
     * {@link #take} says. After an {@link OutOfMemoryError} the pair may be gone.
     *
     * @throws InvalidException if the pair fits no array
     */
    public Pair popFirst() {
        return Texts.pair(Native.treePop(this, number(), false));
    }

    /** Removes the pair with the largest key and returns it, or null, as {@link #popFirst} does with the smallest one. */
    public Pair popLast() {
        return Texts.pair(Native.treePop(this, number(), true));
    }
}
