package io.everleaf;

/** The system gave no memory. The call changed nothing. */
public final class NoMemoryException extends EverleafException {
    private static final long serialVersionUID = 1;

    NoMemoryException(Details details) {
        super(details);
    }
}
