package io.everleaf;

/** The processor, the file system or the kind of pool cannot do this. */
public final class UnsupportedException extends EverleafException {
    private static final long serialVersionUID = 1;

    UnsupportedException(Details details) {
        super(details);
    }
}
