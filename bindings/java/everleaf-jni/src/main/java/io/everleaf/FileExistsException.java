package io.everleaf;

/** A file has a name that the pool or a backup needs. It was not touched. */
public final class FileExistsException extends EverleafException {
    private static final long serialVersionUID = 1;

    FileExistsException(Details details) {
        super(details);
    }
}
