package io.everleaf.kafka;

import java.nio.ByteBuffer;

/**
 * The keys in the tree of a segment: the key of the record, and numbers behind it. A zero byte of the key has 255 behind
 * it, and the key ends with 0 and 1. So the order is that of key and then numbers, whatever the bytes are, and each query is one exact range.
 * Kafka's own form, in which the changelog has them, is the key and the numbers without anything between: there the numbers of a
 * short key may look like a longer key.
 */
final class SegmentKey {
    private static final byte ZERO = -1;
    private static final byte END = 1;
    private static final int NUMBER = Long.BYTES;

    private SegmentKey() {}

    /** The key of a window that begins at a time. */
    static byte[] window(byte[] key, long start) {
        return begin(key, NUMBER).putLong(ordered(start)).array();
    }

    /** The key of one of several records of a window. */
    static byte[] duplicate(byte[] key, long start, int number) {
        return begin(key, NUMBER + Integer.BYTES)
                .putLong(ordered(start))
                .putInt(number)
                .array();
    }

    /** The key of a session. */
    static byte[] session(byte[] key, long end, long start) {
        return begin(key, 2 * NUMBER)
                .putLong(ordered(end))
                .putLong(ordered(start))
                .array();
    }

    /** The first of the numbers. */
    static long first(byte[] bytes, int tail) {
        return ordered(ByteBuffer.wrap(bytes).getLong(bytes.length - tail));
    }

    /** The second of two numbers. */
    static long second(byte[] bytes) {
        return ordered(ByteBuffer.wrap(bytes).getLong(bytes.length - NUMBER));
    }

    /** The key of the record, before numbers of so many bytes. */
    static byte[] key(byte[] bytes, int tail) {
        int end = bytes.length - tail - 2;
        int length = end;
        for (int at = 0; at < end; at++) {
            if (bytes[at] == 0) {
                length--;
                at++;
            }
        }
        byte[] key = new byte[length];
        for (int at = 0, to = 0; at < end; at++, to++) {
            key[to] = bytes[at];
            if (bytes[at] == 0) {
                at++;
            }
        }
        return key;
    }

    /** The order of bytes is that of numbers without a sign. */
    private static long ordered(long number) {
        return number ^ Long.MIN_VALUE;
    }

    private static ByteBuffer begin(byte[] key, int more) {
        int zeros = 0;
        for (byte one : key) {
            if (one == 0) {
                zeros++;
            }
        }
        ByteBuffer bytes = ByteBuffer.allocate(key.length + zeros + 2 + more);
        if (zeros == 0) {
            bytes.put(key);
        } else {
            for (byte one : key) {
                bytes.put(one);
                if (one == 0) {
                    bytes.put(ZERO);
                }
            }
        }
        return bytes.put((byte) 0).put(END);
    }
}
