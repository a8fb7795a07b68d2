package io.everleaf;

/** Two transactions with locks have waited for each other, and this one has given up. */
public final class DeadlockException extends RetryException {
    private static final long serialVersionUID = 1;

    DeadlockException(Details details) {
        super(details);
    }

    /** The name of the tree. */
    public String tree() {
        return details().place();
    }

    /** The key. */
    public byte[] key() {
        return details().key();
    }
}
