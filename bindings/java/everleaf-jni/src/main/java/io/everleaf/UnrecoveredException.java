package io.everleaf;

/** A crash has left work that an open for writing must do first. */
public final class UnrecoveredException extends EverleafException {
    private static final long serialVersionUID = 1;

    UnrecoveredException(Details details) {
        super(details);
    }
}
