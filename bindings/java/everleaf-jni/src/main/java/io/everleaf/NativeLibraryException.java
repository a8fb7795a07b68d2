package io.everleaf;

/** The native library cannot be loaded: the text says why, and what helps. */
public final class NativeLibraryException extends EverleafException {
    private static final long serialVersionUID = 1;

    NativeLibraryException(String text, Throwable cause) {
        super(new Details(ErrorCode.NO_LIBRARY, 0, text, "", null, 0));
        initCause(cause);
    }
}
