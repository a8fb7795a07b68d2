package io.everleaf.kafka;

import io.everleaf.CorruptException;
import io.everleaf.Range;
import io.everleaf.ReadTree;
import io.everleaf.Scan;

/** A walk over a range of a tree. It knows where it is, so that it can say where damage is. */
final class Walk implements AutoCloseable {
    private final ReadTree tree;
    private final Range range;
    private final Scan scan;
    /** Of the last pair that was read, or null. */
    private byte[] key;

    Walk(ReadTree tree, Range range) {
        this.tree = tree;
        this.range = range;
        scan = tree.scan(range);
    }

    /** Goes to the next pair; whether there is one. */
    boolean next() {
        try {
            if (!scan.next()) {
                return false;
            }
            key = scan.key();
            return true;
        } catch (CorruptException corruption) {
            throw DamagedException.behind(corruption, tree, key, range);
        }
    }

    byte[] key() {
        return key;
    }

    byte[] value() {
        return scan.value();
    }

    boolean isClosed() {
        return scan.isClosed();
    }

    @Override
    public void close() {
        scan.close();
    }
}
