package io.everleaf;

/** The old values that a snapshot or a transaction sees were not kept any longer. Take a new one. */
public final class SnapshotTooOldException extends RetryException {
    private static final long serialVersionUID = 1;

    SnapshotTooOldException(Details details) {
        super(details);
    }
}
