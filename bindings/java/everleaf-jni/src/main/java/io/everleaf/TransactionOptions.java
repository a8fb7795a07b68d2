package io.everleaf;

import java.time.Duration;

/** Settings of a transaction. Each setter returns this object. */
public final class TransactionOptions {
    private boolean snapshot;
    private Durability durability = Durability.AS_OPENED;
    private int attempts = 100;
    private long locks = -1;

    /** The defaults: serializable, without locks, at most 100 attempts. */
    public TransactionOptions() {}

    /** Has a commit fail only if others have changed a key that the transaction writes, since its first read. */
    public TransactionOptions snapshotIsolation() {
        snapshot = true;
        return this;
    }

    /** When the commit is durable. */
    public TransactionOptions durability(Durability durability) {
        this.durability = java.util.Objects.requireNonNull(durability);
        return this;
    }

    /** How often {@link Db#transact} runs the transaction at most while others are in its way. */
    public TransactionOptions attempts(int attempts) {
        this.attempts = Math.max(1, attempts);
        return this;
    }

    /** Has the transaction lock what it uses, so that others wait for it; for so long after its begin at most. */
    public TransactionOptions pessimistic(Duration lasts) {
        locks = Texts.micros(lasts);
        return this;
    }

    int attempts() {
        return attempts;
    }

    long begin(Db db, long number) {
        return Native.poolBegin(db, number, snapshot, durability.ordinal(), locks);
    }
}
