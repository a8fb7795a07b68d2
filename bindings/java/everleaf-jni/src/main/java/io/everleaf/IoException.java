package io.everleaf;

/** The operating system failed a call: {@link #errno} says how. */
public final class IoException extends EverleafException {
    private static final long serialVersionUID = 1;

    IoException(Details details) {
        super(details);
    }
}
