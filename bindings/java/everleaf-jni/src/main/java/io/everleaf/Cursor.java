package io.everleaf;

import java.util.Objects;

/**
 * A place in a tree. A new cursor is at neither end: {@link #next} goes to the first pair, {@link #prev} to the last one. If the
 * pair under it is removed, it keeps key and value, and goes on from there. If one pair cannot be read, the next step goes on
 * behind it. One thread at a time may use it. For many pairs in a row a {@link Scan} is faster.
 */
public final class Cursor extends Handle {
    Cursor(long number, Db db) {
        super(number, "cursor", db);
    }

    /** Goes to the pair with the smallest key; whether there is one. */
    public boolean first() {
        return Native.cursorGo(this, number(), 0, null);
    }

    /** Goes to the pair with the largest key; whether there is one. */
    public boolean last() {
        return Native.cursorGo(this, number(), 1, null);
    }

    /** Goes to the next pair; whether there is one. */
    public boolean next() {
        return Native.cursorGo(this, number(), 2, null);
    }

    /** Goes to the pair before this one; whether there is one. */
    public boolean prev() {
        return Native.cursorGo(this, number(), 3, null);
    }

    /** Goes to the first pair whose key is this one or above it; whether there is one. */
    public boolean seek(byte[] key) {
        return Native.cursorGo(this, number(), 4, Objects.requireNonNull(key));
    }

    /** Goes to the last pair whose key is this one or below it; whether there is one. */
    public boolean seekForPrev(byte[] key) {
        return Native.cursorGo(this, number(), 5, Objects.requireNonNull(key));
    }

    /** The key of the pair, or null if it is at none. */
    public byte[] key() {
        return Native.cursorKey(this, number());
    }

    /** The value of the pair, or null if it is at none. */
    public byte[] value() {
        return Native.cursorValue(this, number());
    }
}
