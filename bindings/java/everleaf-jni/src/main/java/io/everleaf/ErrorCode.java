package io.everleaf;

/** The codes of errors. The numbers are those of the C library, and fixed for ever. */
public enum ErrorCode {
    /** Bytes of the pool are not what was written. The rest can still be used. */
    CORRUPT(-1),
    /** The file is no pool, or one of a version that this library cannot open. */
    FOREIGN(-2),
    /** The pool is open already. */
    LOCKED(-3),
    /** A file that is not the pool's has a name that the pool needs. */
    IN_THE_WAY(-4),
    /** The pool or the object was closed. */
    CLOSED(-5),
    /** The pool was opened by a process of which this one is a fork. */
    FORKED(-6),
    /** The file is not on a DAX file system. */
    NOT_DAX(-7),
    /** The operating system failed a call. */
    IO(-8),
    /** There is no memory. Nothing was changed. */
    NO_MEMORY(-9),
    /** Writes have stopped after an earlier failure. */
    POISONED(-10),
    /** The pool has as many bytes as it may have. */
    FULL(-11),
    /** The epoch has changed as many bytes as memory can hold. */
    EPOCH_TOO_LARGE(-12),
    /** The old values that a snapshot or a transaction sees were not kept any longer. */
    SNAPSHOT_TOO_OLD(-13),
    /** Others have changed what a transaction has read. */
    CONFLICT(-14),
    /** Other threads were in the way for more than ten minutes. */
    STUCK(-15),
    /** A transaction or a batch would take too much memory. */
    TRANSACTION_TOO_LARGE(-16),
    /** The pool was opened for reading alone, or the tree is that of a snapshot. */
    READ_ONLY(-17),
    /** A key has at most 65,536 bytes. */
    KEY_TOO_LONG(-18),
    /** A key does not hold what it was to be decoded to. */
    KEY_ENCODING(-19),
    /** A value has at most 4,294,967,295 bytes. */
    VALUE_TOO_LONG(-20),
    /** The source of a value failed. */
    READER(-21),
    /** The source of a value ended before it had all bytes. Nothing was changed. */
    READER_ENDED(-22),
    /** Key and value together do not fit a page of this pool. */
    RECORD_TOO_LONG(-23),
    /** The pairs of a sorted load do not ascend. */
    NOT_ASCENDING(-24),
    /** The name of a tree has 1 to 255 bytes. */
    TREE_NAME(-25),
    /** Another tree has that name. */
    TREE_EXISTS(-26),
    /** The tree was dropped after the object was made. */
    NO_TREE(-27),
    /** The tree belongs to another pool. */
    OTHER_POOL(-28),
    /** Only an empty tree can be discarded. */
    NOT_EMPTY(-29),
    /** The pool was made by another program with trees of another layout. */
    WRONG_LAYOUT(-30),
    /** Something that was to be made is there already, or is in use. */
    IN_USE(-31),
    /** A file has the name that a new one was to get. It was not touched. */
    FILE_EXISTS(-32),
    /** The call would wait for an epoch that this thread keeps from ending. */
    INSIDE_BATCH(-33),
    /** A crash has left work that an open for writing must do first. */
    UNRECOVERED(-34),
    /** A call ended half-way. */
    INTERRUPTED(-35),
    /** The processor, the file system or the kind of pool cannot do this. */
    UNSUPPORTED(-36),
    /** An option is outside its limits, or contradicts another one or the pool. */
    INVALID_OPTION(-37),
    /** An argument is not allowed. */
    INVALID(-38),
    /** Two transactions with locks have waited for each other. */
    DEADLOCK(-39),
    /** The call has met a defect of the library. Writes to the pool have stopped. */
    PANIC(-100),
    /** The native library cannot be loaded. Only the Java library has this number. */
    NO_LIBRARY(-200),
    /** A number that a newer native library has. */
    UNKNOWN(0);

    private final int number;

    ErrorCode(int number) {
        this.number = number;
    }

    /** The number that the C library has for it. */
    public int number() {
        return number;
    }

    static ErrorCode of(int number) {
        for (ErrorCode code : values()) {
            if (code.number == number) {
                return code;
            }
        }
        return UNKNOWN;
    }
}
