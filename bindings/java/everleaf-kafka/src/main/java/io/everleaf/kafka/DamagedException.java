package io.everleaf.kafka;

import io.everleaf.CorruptException;
import io.everleaf.EverleafException;
import io.everleaf.Pair;
import io.everleaf.Range;
import io.everleaf.ReadTree;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Bytes;

/**
 * A read or a write has met damage near a key of a tree. It never leaves the stores: they say it in the words of Streams, with the range
 * of keys that cannot be read.
 *
 * <p>The range is found by reads around the key: damage of a page takes all keys that the page is for, and which they are can be told
 * from their neighbours alone.
 */
final class DamagedException extends RuntimeException {
    private static final long serialVersionUID = 1;
    /** Bytes of a key that are told. */
    private static final int TOLD = 64;

    private final transient CorruptException corruption;
    private final transient ReadTree tree;
    /** A key that cannot be read, or whose value cannot, or that has one behind it, as near as need be. */
    private final transient byte[] key;

    private DamagedException(CorruptException corruption, ReadTree tree, byte[] key) {
        super(corruption);
        this.corruption = corruption;
        this.tree = tree;
        this.key = key;
    }

    /** Reads or writes at a key. */
    static <T> T at(ReadTree tree, byte[] key, Supplier<T> body) {
        try {
            return body.get();
        } catch (CorruptException corruption) {
            throw new DamagedException(corruption, tree, key);
        }
    }

    /** A walk has met it behind the last key that it has read, in its direction; null if it has read none. */
    static DamagedException behind(CorruptException corruption, ReadTree tree, byte[] last, Range range) {
        byte[] key;
        if (range.isReversed()) {
            byte[] behind = last == null ? range.toKey() : last;
            key = behind == null ? highest() : before(behind);
        } else if (last == null) {
            key = range.fromKey() == null ? new byte[0] : range.fromKey();
        } else {
            key = Arrays.copyOf(last, last.length + 1);
        }
        return new DamagedException(corruption, tree, key);
    }

    CorruptException corruption() {
        return corruption;
    }

    /** Says which keys cannot be read, or nothing if all can. */
    String range() {
        try {
            Edge low = edge(key, new byte[0], tree::floor);
            Edge high = edge(key, highest(), tree::ceiling);
            if (low.isAt(key) || high.isAt(key)) {
                // A write that has met damage elsewhere.
                return "";
            }
            String from = low.pair == null ? "from the first one on" : "behind " + tell(low.pair.key());
            String to = high.pair == null ? "up to the last one" : "before " + tell(high.pair.key());
            return ", in the keys " + from + " and " + to;
        } catch (EverleafException closedMeanwhile) {
            return "";
        }
    }

    /** The end of a range that cannot be read: the pair beside it, unless that cannot be read either. */
    private record Edge(boolean isSound, Pair pair) {
        boolean isAt(byte[] key) {
            return pair != null && Arrays.equals(pair.key(), key);
        }
    }

    /**
     * The pair that is nearest to a key on one side. If it cannot be read, the place from which it can is between the key and the end of
     * all keys on that side; each step halves what is between.
     */
    private static Edge edge(byte[] near, byte[] end, Function<byte[], Pair> read) {
        Edge edge = read(near, read);
        if (edge.isSound) {
            return edge;
        }
        edge = read(end, read);
        int length = Math.min(near.length, TOLD) + 2;
        BigInteger bad = number(near, length);
        BigInteger good = number(end, length);
        while (edge.isSound && bad.subtract(good).abs().bitLength() > 1) {
            BigInteger middle = bad.add(good).shiftRight(1);
            Edge there = read(bytes(middle, length), read);
            if (there.isSound) {
                good = middle;
                edge = there;
            } else {
                bad = middle;
            }
        }
        return edge;
    }

    private static Edge read(byte[] key, Function<byte[], Pair> read) {
        try {
            return new Edge(true, read.apply(key));
        } catch (CorruptException damaged) {
            return new Edge(false, null);
        }
    }

    /** A key behind all that a store has. */
    private static byte[] highest() {
        byte[] highest = new byte[256];
        Arrays.fill(highest, (byte) -1);
        return highest;
    }

    /** A key below another one, as near as need be. */
    private static byte[] before(byte[] key) {
        if (key.length == 0) {
            return key;
        }
        byte[] before = key.clone();
        if (before[key.length - 1]-- == 0) {
            return Arrays.copyOf(key, key.length - 1);
        }
        before = Arrays.copyOf(before, key.length + 8);
        Arrays.fill(before, key.length, before.length, (byte) -1);
        return before;
    }

    /** A key as a number of so many bytes: in the same order, as far as they are so long. */
    private static BigInteger number(byte[] key, int length) {
        return new BigInteger(1, Arrays.copyOf(key, length));
    }

    private static byte[] bytes(BigInteger number, int length) {
        byte[] all = number.toByteArray();
        byte[] bytes = new byte[length];
        int count = Math.min(all.length, length);
        System.arraycopy(all, all.length - count, bytes, length - count, count);
        return bytes;
    }

    private static String tell(byte[] key) {
        return key.length <= TOLD ? Bytes.wrap(key).toString() : Bytes.wrap(Arrays.copyOf(key, TOLD)) + "…";
    }
}
