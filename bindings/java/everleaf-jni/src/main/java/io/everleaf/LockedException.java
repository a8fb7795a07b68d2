package io.everleaf;

/** The pool is open already, in another process or in this one. */
public final class LockedException extends EverleafException {
    private static final long serialVersionUID = 1;

    LockedException(Details details) {
        super(details);
    }
}
