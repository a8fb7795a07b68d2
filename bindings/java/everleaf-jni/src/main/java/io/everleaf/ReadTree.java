package io.everleaf;

import java.util.Collection;
import java.util.List;
import java.util.Objects;

/**
 * A named ordered map from bytes to bytes that can be read. Keys compare byte by byte, as unsigned numbers. A key has 0 to
 * 65,536 bytes. Any number of threads may use it at once.
 */
public abstract sealed class ReadTree extends Handle permits Tree, SnapshotTree {
    static final int FIRST = 0;
    static final int LAST = 1;
    static final int FLOOR = 2;
    static final int CEILING = 3;

    private final String name;

    ReadTree(long number, String what, String name, Db db) {
        super(number, what, db);
        this.name = name;
    }

    /** The name that the tree had when this was made. */
    public final String name() {
        return name;
    }

    /** The value of a key, or null. */
    public final byte[] get(byte[] key) {
        return Native.readGet(this, number(), Objects.requireNonNull(key));
    }

    /** The values of keys, in their order; null for a key that is not there. It is faster than a {@link #get} of each. */
    public final List<byte[]> getMany(Collection<byte[]> keys) {
        return Texts.values(Native.readGetMany(this, number(), Texts.pack(keys)), keys.size());
    }

    /** Whether a key is there. */
    public final boolean contains(byte[] key) {
        return Native.readContains(this, number(), Objects.requireNonNull(key));
    }

    /** The bytes of the value of a key, or -1 if the key is not there. The value is not read. */
    public final long valueLength(byte[] key) {
        return Native.readValueLen(this, number(), Objects.requireNonNull(key));
    }

    /**
     * Copies a part of a value, which begins at an offset of it, to an array. Returns the bytes that were copied, fewer than
     * {@code length} only where the value ends; -1 if the key is not there. Two calls may see two values.
     */
    public final int readAt(byte[] key, long offset, byte[] into, int at, int length) {
        Objects.requireNonNull(key);
        Objects.checkFromIndexSize(at, length, into.length);
        return Native.readAt(this, number(), key, offset, into, at, length);
    }

    /** How many pairs there are. A snapshot counts them. */
    public final long size() {
        return Native.readLen(this, number());
    }

    /** Whether there is no pair. */
    public final boolean isEmpty() {
        return Native.readIsEmpty(this, number());
    }

    /** The pair with the smallest key, or null. */
    public final Pair first() {
        return Texts.pair(Native.readEdge(this, number(), FIRST, null));
    }

    /** The pair with the largest key, or null. */
    public final Pair last() {
        return Texts.pair(Native.readEdge(this, number(), LAST, null));
    }

    /** The last pair whose key is this one or below it, or null. */
    public final Pair floor(byte[] key) {
        return Texts.pair(Native.readEdge(this, number(), FLOOR, Objects.requireNonNull(key)));
    }

    /** The first pair whose key is this one or above it, or null. */
    public final Pair ceiling(byte[] key) {
        return Texts.pair(Native.readEdge(this, number(), CEILING, Objects.requireNonNull(key)));
    }

    /** A new cursor, which is at no pair yet. */
    public final Cursor cursor() {
        return new Cursor(Native.readCursor(this, number()), db);
    }

    /** A walk over all pairs. */
    public final Scan scan() {
        return scan(Range.all());
    }

    /** A walk over a range. It sees writes of others that come before it has read their place. */
    public final Scan scan(Range range) {
        return new Scan(Native.readScan(this, number(), range.from(), range.to(), range.flags()), db);
    }

    @Override
    public String toString() {
        return getClass().getSimpleName() + "[" + name + (isClosed() ? ", closed]" : "]");
    }
}
