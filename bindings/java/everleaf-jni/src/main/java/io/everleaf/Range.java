package io.everleaf;

import java.util.Arrays;

/** A range of keys, and how a scan goes through it. It never changes: each method returns another one. */
public final class Range {
    static final int FROM_EXCLUDED = 1;
    static final int TO_INCLUDED = 2;
    static final int REVERSE = 4;
    static final int KEYS_ONLY = 8;

    private static final Range ALL = new Range(null, null, 0);

    private final byte[] from;
    private final byte[] to;
    private final int flags;

    private Range(byte[] from, byte[] to, int flags) {
        this.from = from;
        this.to = to;
        this.flags = flags;
    }

    /** All keys, from the smallest one on. */
    public static Range all() {
        return ALL;
    }

    /** The keys that begin with a prefix. */
    public static Range prefix(byte[] prefix) {
        int length = prefix.length;
        while (length > 0 && prefix[length - 1] == -1) {
            length--;
        }
        byte[] end = null;
        if (length > 0) {
            end = Arrays.copyOf(prefix, length);
            end[length - 1]++;
        }
        return new Range(prefix.clone(), end, 0);
    }

    /** The keys from one on and before another one. */
    public static Range of(byte[] from, byte[] to) {
        return ALL.from(from).to(to);
    }

    /** From a key on. */
    public Range from(byte[] key) {
        return new Range(key.clone(), to, flags & ~FROM_EXCLUDED);
    }

    /** Behind a key. */
    public Range above(byte[] key) {
        return new Range(key.clone(), to, flags | FROM_EXCLUDED);
    }

    /** Before a key. */
    public Range to(byte[] key) {
        return new Range(from, key.clone(), flags & ~TO_INCLUDED);
    }

    /** Up to a key, which is part of it. */
    public Range upTo(byte[] key) {
        return new Range(from, key.clone(), flags | TO_INCLUDED);
    }

    /** From the largest key to the smallest one. The bounds stay as they are. */
    public Range reversed() {
        return new Range(from, to, flags ^ REVERSE);
    }

    /** Keys alone: values are not read, and are empty. */
    public Range keysOnly() {
        return new Range(from, to, flags | KEYS_ONLY);
    }

    /** The bound below, or null. */
    public byte[] fromKey() {
        return from == null ? null : from.clone();
    }

    /** The bound above, or null. */
    public byte[] toKey() {
        return to == null ? null : to.clone();
    }

    /** Whether it goes from the largest key to the smallest one. */
    public boolean isReversed() {
        return (flags & REVERSE) != 0;
    }

    byte[] from() {
        return from;
    }

    byte[] to() {
        return to;
    }

    int flags() {
        return flags;
    }
}
