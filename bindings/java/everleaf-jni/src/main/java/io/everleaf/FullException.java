package io.everleaf;

/** There is no room: the disk is full, or the pool has as many bytes as it may have. */
public final class FullException extends EverleafException {
    private static final long serialVersionUID = 1;

    FullException(Details details) {
        super(details);
    }
}
