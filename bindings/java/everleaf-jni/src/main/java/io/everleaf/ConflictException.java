package io.everleaf;

/** Others have changed what a transaction has read: {@link #tree} and {@link #key} say where. */
public final class ConflictException extends RetryException {
    private static final long serialVersionUID = 1;

    ConflictException(Details details) {
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
