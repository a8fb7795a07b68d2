package io.everleaf;

/** Writes have stopped after a failure. Close the pool and open it again: all that was durable is there. */
public final class PoisonedException extends EverleafException {
    private static final long serialVersionUID = 1;

    PoisonedException(Details details) {
        super(details);
    }
}
