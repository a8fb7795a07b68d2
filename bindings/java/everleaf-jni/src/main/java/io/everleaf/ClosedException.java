package io.everleaf;

/** The pool was closed, or the object was closed, committed or aborted. */
public final class ClosedException extends EverleafException {
    private static final long serialVersionUID = 1;

    ClosedException(Details details) {
        super(details);
    }
}
