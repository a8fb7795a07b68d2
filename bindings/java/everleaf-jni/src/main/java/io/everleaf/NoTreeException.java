package io.everleaf;

/** The tree was dropped. */
public final class NoTreeException extends EverleafException {
    private static final long serialVersionUID = 1;

    NoTreeException(Details details) {
        super(details);
    }
}
