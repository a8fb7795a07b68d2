package io.everleaf;

/** A key or a value is too long. */
public final class TooLongException extends EverleafException {
    private static final long serialVersionUID = 1;

    TooLongException(Details details) {
        super(details);
    }
}
