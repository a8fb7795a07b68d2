package io.everleaf;

/** Another tree has that name. */
public final class TreeExistsException extends EverleafException {
    private static final long serialVersionUID = 1;

    TreeExistsException(Details details) {
        super(details);
    }
}
