package io.everleaf;

/** Other threads were in the way for more than ten minutes. */
public final class StuckException extends RetryException {
    private static final long serialVersionUID = 1;

    StuckException(Details details) {
        super(details);
    }
}
