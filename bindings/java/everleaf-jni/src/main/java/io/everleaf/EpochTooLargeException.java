package io.everleaf;

/** An epoch has changed more than memory holds. */
public final class EpochTooLargeException extends EverleafException {
    private static final long serialVersionUID = 1;

    EpochTooLargeException(Details details) {
        super(details);
    }
}
