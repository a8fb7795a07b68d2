package io.everleaf.kafka.bench;

import java.nio.ByteBuffer;
import java.util.SplittableRandom;
import org.apache.kafka.common.utils.Bytes;

/** Keys of 16 bytes in no order, and values of 100 bytes that do not compress. */
final class Pairs {
    static final int VALUE_BYTES = 100;
    private static final byte[][] VALUES = new byte[1_000][VALUE_BYTES];

    static {
        SplittableRandom random = new SplittableRandom(1);
        for (byte[] value : VALUES) {
            random.nextBytes(value);
        }
    }

    private Pairs() {}

    /** A number that looks like none of its neighbours; different ones for different numbers. */
    static long mix(long number) {
        long mixed = number;
        mixed = (mixed ^ mixed >>> 33) * 0xFF51_AFD7_ED55_8CCDL;
        mixed = (mixed ^ mixed >>> 33) * 0xC4CE_B9FE_1A85_EC53L;
        return mixed ^ mixed >>> 33;
    }

    static Bytes key(long number) {
        return Bytes.wrap(ByteBuffer.allocate(16).putLong(mix(number)).putLong(number).array());
    }

    static byte[] value(long number) {
        return VALUES[(int) Math.floorMod(number, (long) VALUES.length)];
    }

    /** The keys of so many numbers. */
    static Bytes[] keys(long from, int count) {
        Bytes[] keys = new Bytes[count];
        for (int at = 0; at < count; at++) {
            keys[at] = key(from + at);
        }
        return keys;
    }
}
