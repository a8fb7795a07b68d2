package io.everleaf;

/** The file is not a pool, or is one of another version. It was not touched. */
public final class ForeignException extends EverleafException {
    private static final long serialVersionUID = 1;

    ForeignException(Details details) {
        super(details);
    }
}
