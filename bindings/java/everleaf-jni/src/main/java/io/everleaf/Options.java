package io.everleaf;

import java.time.Duration;
import java.util.Arrays;
import java.util.Objects;

/** Settings for opening a pool. A setting that is left out has its default. Each setter returns this object. */
public final class Options {
    private static final long UNSET = Long.MIN_VALUE;
    private final long[] numbers = new long[16];
    /** So that it is not collected before an open. */
    private Budget budget;

    /** The defaults. */
    public Options() {
        Arrays.fill(numbers, UNSET);
    }

    /** Where a pool is. */
    public enum Storage {
        /** An ordinary file. */
        FILE,
        /** Persistent memory: a mapped file on a DAX file system. */
        DAX,
        /** A mapped file on any file system, which survives a crash of the process, not of the system. */
        EMULATED_DAX
    }

    /** How pages and large values are compressed. */
    public enum Compression {
        /** Not at all. */
        NONE,
        /** With LZ4, each by itself, where that saves more than an eighth. */
        LZ4
    }

    private Options set(int setting, long number) {
        numbers[setting] = number;
        return this;
    }

    /** A number that may not be below 0. */
    private Options count(int setting, String name, long number) {
        if (number < 0) {
            throw new IllegalArgumentException(name + " is " + number);
        }
        return set(setting, number);
    }

    /** How long an epoch lasts if the program ends none. Default: 10 ms. */
    public Options interval(Duration interval) {
        return set(0, Texts.micros(interval));
    }

    /** When a write is durable. Default: {@link Durability#BUFFERED}. */
    public Options durability(Durability durability) {
        return set(1, durability.ordinal());
    }

    /** The most bytes of the journal; one epoch more may follow. Default: 256 MiB. */
    public Options journalBytes(long bytes) {
        return count(2, "journalBytes", bytes);
    }

    /** The most bytes of changes that may wait to become durable; above it, writers wait for the disk. Default: 8 MiB. */
    public Options pendingBytes(long bytes) {
        return count(3, "pendingBytes", bytes);
    }

    /** Bytes of a page of a new pool: a power of two from 512 to 32,768. Default: 4,096. */
    public Options pageBytes(int bytes) {
        return count(4, "pageBytes", bytes);
    }

    /** The most bytes of pages of the pool. Default: 256 GiB. */
    public Options maxBytes(long bytes) {
        return count(5, "maxBytes", bytes);
    }

    /** Whether a missing pool is made. Default: true. */
    public Options create(boolean create) {
        return set(6, create ? 1 : 0);
    }

    /** Whether the pool is opened for reading alone. Default: false. */
    public Options readOnly(boolean readOnly) {
        return set(7, readOnly ? 1 : 0);
    }

    /** Where the pool is. Default: {@link Storage#FILE}. */
    public Options storage(Storage storage) {
        return set(8, storage.ordinal());
    }

    /** Whether the program alone ends epochs, by {@link Db#endEpoch} or {@link Db#sync}. Default: false. */
    public Options manualEpochs(boolean manualEpochs) {
        return set(9, manualEpochs ? 1 : 0);
    }

    /** Whether threads of the library end epochs, or write those that the program ends, and checkpoints. Default: true. */
    public Options background(boolean background) {
        return set(10, background ? 1 : 0);
    }

    /** How pages and large values are compressed. Default: {@link Compression#NONE}. */
    public Options compression(Compression compression) {
        return set(11, compression.ordinal());
    }

    /**
     * The most bytes of memory for pages and large values of this pool alone. It is not memory of Java. By default all pools
     * of the process share a quarter of what it may use. The last call of this and of {@link #budget} counts.
     */
    public Options memory(long bytes) {
        count(12, "memory", bytes);
        budget = null;
        return this;
    }

    /** Has the pool share memory with others that are opened with the same budget, in place of {@link #memory}. */
    public Options budget(Budget budget) {
        this.budget = Objects.requireNonNull(budget);
        return set(12, UNSET);
    }

    /** The most bytes of memory for old values that snapshots and transactions see. Default: a quarter of the memory. */
    public Options snapshotMemory(long bytes) {
        return count(13, "snapshotMemory", bytes);
    }

    /** The most bytes of memory for one transaction or batch. Default: a quarter of the memory. */
    public Options transactionMemory(long bytes) {
        return count(14, "transactionMemory", bytes);
    }

    /** In the order that the library reads them in. */
    long[] numbers() {
        long[] all = numbers.clone();
        all[15] = budget == null ? UNSET : budget.number();
        return all;
    }
}
