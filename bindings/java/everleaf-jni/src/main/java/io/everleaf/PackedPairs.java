package io.everleaf;

import java.nio.ByteBuffer;
import java.util.Iterator;

/** Pairs for the library, many at a time: a call for each would take longer than its put. */
final class PackedPairs {
    private static final int BYTES = 64 << 10;
    private static final int HEADS = 8;

    private final Iterator<Pair> pairs;
    private ByteBuffer packed = ByteBuffer.allocate(BYTES);
    /** It did not fit behind those that were given. */
    private Pair waits;
    /** Came up behind pairs that were given. */
    private Throwable failed;

    PackedPairs(Iterator<Pair> pairs) {
        this.pairs = pairs;
    }

    /** The next pairs, each piece behind its length; null at the end. The library calls this. */
    byte[] next() throws Throwable {
        packed.clear();
        while (failed == null && take()) {
            // Until it is full.
        }
        if (packed.position() > 0) {
            byte[] bytes = new byte[packed.flip().remaining()];
            packed.get(bytes);
            return bytes;
        }
        if (failed != null) {
            throw failed;
        }
        return null;
    }

    /** Adds a pair; whether another one may fit. */
    private boolean take() {
        try {
            if (waits == null && !pairs.hasNext()) {
                return false;
            }
            Pair pair = waits == null ? pairs.next() : waits;
            waits = null;
            long bytes = (long) HEADS + pair.key().length + pair.value().length;
            if (bytes > packed.remaining()) {
                if (packed.position() > 0) {
                    waits = pair;
                    return false;
                }
                if (bytes > Integer.MAX_VALUE - 8) {
                    throw EverleafException.invalid("a pair of " + bytes + " bytes does not fit an array of Java: use putFrom");
                }
                packed = ByteBuffer.allocate((int) bytes);
            }
            packed.putInt(pair.key().length).put(pair.key());
            packed.putInt(pair.value().length).put(pair.value());
            return true;
        } catch (Throwable failure) {
            // Those before it are not lost for that.
            failed = failure;
            return false;
        }
    }
}
