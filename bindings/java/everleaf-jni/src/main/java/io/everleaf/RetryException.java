package io.everleaf;

/** Nothing has happened, and the same work may succeed if it is done again. */
public sealed class RetryException extends EverleafException
        permits SnapshotTooOldException, ConflictException, DeadlockException, StuckException {
    private static final long serialVersionUID = 1;

    RetryException(Details details) {
        super(details);
    }
}
