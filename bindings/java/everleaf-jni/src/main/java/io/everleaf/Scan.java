package io.everleaf;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.ArrayBlockingQueue;

/**
 * A walk over a range, which gets many pairs from the library at once: so it may not see what others write near the place where
 * it is. Call {@link #next}, and then {@link #key} and {@link #value}. If one pair cannot be read, those before it are given
 * first, and the call after the exception goes on behind it. A scan of a transaction counts what it has got as read, and ends
 * with the transaction.
 */
public final class Scan extends Handle {
    /** Bytes of the first buffer: most ranges are short. */
    private static final int FIRST_BYTES = 4 << 10;
    /** The buffer grows up to this, and beyond only for a pair that needs it. */
    private static final int MOST_BYTES = 256 << 10;
    /** Bytes before each pair: two lengths. */
    private static final int HEAD = 8;

    /** Buffers of scans that were closed: a new one takes longer than a short range. */
    private static final ArrayBlockingQueue<ByteBuffer> SPARE = new ArrayBlockingQueue<>(32);

    private ByteBuffer buffer;
    /** Bytes of it that are filled the next time. */
    private int limit;
    /** Bytes of it that hold pairs. */
    private int used;
    /** Where the pair is, and the one behind it. */
    private int at;

    private int behind;
    private boolean isAtPair;
    private boolean ended;

    Scan(long number, Db db) {
        super(number, "scan", db);
    }

    /** Goes to the next pair; whether there is one. */
    public synchronized boolean next() {
        if (isClosed()) {
            throw EverleafException.closed("the scan was closed");
        }
        if (db.isClosed()) {
            throw EverleafException.closed("the pool was closed");
        }
        isAtPair = false;
        if (behind == used && !fill()) {
            return false;
        }
        at = behind;
        behind = at + HEAD + buffer.getInt(at) + buffer.getInt(at + 4);
        isAtPair = true;
        return true;
    }

    /** Gets the next pairs. */
    private boolean fill() {
        if (ended) {
            return false;
        }
        behind = 0;
        limit = buffer == null ? FIRST_BYTES : Math.min(limit * 2, Math.max(limit, MOST_BYTES));
        used = 0;
        long filled = fill(limit);
        while (filled < 0) {
            if (-filled > Integer.MAX_VALUE - HEAD) {
                throw EverleafException.invalid("a pair of the scan does not fit a buffer of Java: scan keys, and read parts "
                        + "of the value by readAt");
            }
            // One pair alone, this once. Somebody may make its value longer in between.
            filled = fill((int) -filled);
        }
        used = (int) filled;
        ended = used == 0;
        return !ended;
    }

    private long fill(int bytes) {
        if (buffer == null) {
            buffer = SPARE.poll();
        }
        if (buffer == null || buffer.capacity() < bytes) {
            giveBack();
            buffer = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
        }
        return Native.scanFill(this, number(), buffer, bytes);
    }

    private void giveBack() {
        if (buffer != null && buffer.capacity() <= MOST_BYTES) {
            SPARE.offer(buffer);
        }
        buffer = null;
    }

    /** Releases what the library holds for this. */
    @Override
    public synchronized void close() {
        if (end()) {
            isAtPair = false;
            giveBack();
        }
    }

    private void expectPair() {
        if (isClosed()) {
            throw EverleafException.closed("the scan was closed");
        }
        if (!isAtPair) {
            throw new IllegalStateException("the scan is at no pair");
        }
    }

    /** The key of the pair. */
    public synchronized byte[] key() {
        expectPair();
        byte[] key = new byte[buffer.getInt(at)];
        buffer.get(at + HEAD, key);
        return key;
    }

    /** The value of the pair; empty if the scan is over keys alone. */
    public synchronized byte[] value() {
        expectPair();
        int key = buffer.getInt(at);
        byte[] value = new byte[buffer.getInt(at + 4)];
        buffer.get(at + HEAD + key, value);
        return value;
    }
}
