package io.everleaf;

/** A transaction or a batch would take too much memory. */
public final class TransactionTooLargeException extends EverleafException {
    private static final long serialVersionUID = 1;

    TransactionTooLargeException(Details details) {
        super(details);
    }
}
