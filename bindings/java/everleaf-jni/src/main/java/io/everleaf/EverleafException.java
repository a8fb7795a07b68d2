package io.everleaf;

import java.io.Serializable;

/** An error of the store. There is a class for each thing that a program can act on; {@link #code} is finer. */
public class EverleafException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The system's numbers for a lack of room. */
    private static final int EFBIG = 27;

    private static final int ENOSPC = 28;
    private static final int EDQUOT = 122;

    /** The details that the library reports. */
    @SuppressWarnings("serial")
    record Details(ErrorCode code, int errno, String text, String place, byte[] key, long offset)
            implements Serializable {}

    private final Details details;

    EverleafException(Details details) {
        super(details.text);
        this.details = details;
    }

    /** The code of the error. */
    public ErrorCode code() {
        return details.code;
    }

    /** The number that the operating system has for it, or 0 if the system was not the reason. */
    public int errno() {
        return details.errno;
    }

    Details details() {
        return details;
    }

    /** The native library calls this. */
    static Throwable of(int number, int errno, byte[] text, byte[] place, byte[] key, long offset) {
        ErrorCode code = ErrorCode.of(number);
        String told = Texts.string(text);
        if (code == ErrorCode.UNKNOWN) {
            told += " (error " + number + ")";
        }
        return of(new Details(code, errno, told, Texts.string(place), key, offset));
    }

    static EverleafException closed(String text) {
        return of(new Details(ErrorCode.CLOSED, 0, text, "", null, 0));
    }

    static EverleafException invalid(String text) {
        return of(new Details(ErrorCode.INVALID, 0, text, "", null, 0));
    }

    private static EverleafException of(Details details) {
        return switch (details.code) {
            case CORRUPT -> new CorruptException(details);
            case FOREIGN, WRONG_LAYOUT -> new ForeignException(details);
            case LOCKED -> new LockedException(details);
            case IN_THE_WAY, FILE_EXISTS -> new FileExistsException(details);
            case CLOSED -> new ClosedException(details);
            case IO -> switch (details.errno) {
                case EFBIG, ENOSPC, EDQUOT -> new FullException(details);
                default -> new IoException(details);
            };
            case NO_MEMORY -> new NoMemoryException(details);
            case POISONED, INTERRUPTED -> new PoisonedException(details);
            case FULL -> new FullException(details);
            case EPOCH_TOO_LARGE -> new EpochTooLargeException(details);
            case SNAPSHOT_TOO_OLD -> new SnapshotTooOldException(details);
            case CONFLICT -> new ConflictException(details);
            case DEADLOCK -> new DeadlockException(details);
            case STUCK -> new StuckException(details);
            case TRANSACTION_TOO_LARGE -> new TransactionTooLargeException(details);
            case READ_ONLY -> new ReadOnlyException(details);
            case KEY_TOO_LONG, VALUE_TOO_LONG, RECORD_TOO_LONG -> new TooLongException(details);
            case TREE_EXISTS -> new TreeExistsException(details);
            case NO_TREE -> new NoTreeException(details);
            case NOT_DAX, UNSUPPORTED -> new UnsupportedException(details);
            case UNRECOVERED -> new UnrecoveredException(details);
            case PANIC -> new DefectException(details);
            case INVALID,
                    INVALID_OPTION,
                    TREE_NAME,
                    KEY_ENCODING,
                    NOT_ASCENDING,
                    READER_ENDED,
                    OTHER_POOL,
                    INSIDE_BATCH,
                    IN_USE,
                    NOT_EMPTY -> new InvalidException(details);
            default -> new EverleafException(details);
        };
    }
}
