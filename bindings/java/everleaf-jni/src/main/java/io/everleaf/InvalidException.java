package io.everleaf;

/** An argument, an option or an order of calls is not allowed. */
public final class InvalidException extends EverleafException {
    private static final long serialVersionUID = 1;

    InvalidException(Details details) {
        super(details);
    }
}
