package io.everleaf;

/** The library has a defect: please report it. Writes to the pool have stopped. */
public final class DefectException extends EverleafException {
    private static final long serialVersionUID = 1;

    DefectException(Details details) {
        super(details);
    }
}
