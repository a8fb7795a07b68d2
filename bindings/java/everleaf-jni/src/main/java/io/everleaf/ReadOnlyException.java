package io.everleaf;

/** The pool was opened for reading alone. */
public final class ReadOnlyException extends EverleafException {
    private static final long serialVersionUID = 1;

    ReadOnlyException(Details details) {
        super(details);
    }
}
