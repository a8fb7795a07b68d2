package io.everleaf;

/** Bytes are not what was written: list the damage with {@link Db#check}, then restore a backup. */
public final class CorruptException extends EverleafException {
    private static final long serialVersionUID = 1;

    CorruptException(Details details) {
        super(details);
    }

    /** The damaged file: {@code data}, or {@code memory} if the pool has no file. */
    public String file() {
        return details().place();
    }

    /** Bytes from the start of the file. */
    public long offset() {
        return details().offset();
    }
}
