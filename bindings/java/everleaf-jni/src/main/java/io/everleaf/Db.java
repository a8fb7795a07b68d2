package io.everleaf;

import java.lang.ref.Reference;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;

/**
 * An open pool of named trees. Any number of threads may use it at once.
 *
 * <p>What comes from it may be closed before or after it, in any order; after the close of the pool all calls throw a {@link
 * ClosedException}. A virtual machine that ends without a close leaves the pool as a crash does.
 */
public final class Db extends Handle {
    private final Path path;

    private Db(long number, Path path) {
        super(number, "pool");
        this.path = path;
    }

    /** Opens the pool at a path, and makes it if it is not there. */
    public static Db open(Path path) {
        return open(path, new Options());
    }

    /** Opens the pool at a path. */
    public static Db open(Path path, Options options) {
        NativeLibrary.expect();
        try {
            return new Db(Native.poolOpen(Texts.path(path), options.numbers()), path);
        } finally {
            Reference.reachabilityFence(options);
        }
    }

    /** Makes a pool in memory, of which nothing outlives the process but backups. */
    public static Db inMemory(Options options) {
        Objects.requireNonNull(options);
        NativeLibrary.expect();
        try {
            return new Db(Native.poolOpen(null, options.numbers()), null);
        } finally {
            Reference.reachabilityFence(options);
        }
    }

    /** The version of the native library. */
    public static String version() {
        NativeLibrary.expect();
        return Texts.string(Native.version());
    }

    /** The path of the pool's file, or null if it is in memory. */
    public Path path() {
        return path;
    }

    /** Makes everything durable and closes the pool. A second close does nothing. */
    @Override
    public void close() {
        end(true);
    }

    /**
     * Closes the pool as a crash would: all epochs that have ended stay, and everything of the one that has not is gone. If the
     * program does not end epochs itself, one may end at any moment. After a close it does nothing.
     */
    public void abandon() {
        end(false);
    }

    private synchronized void end(boolean keep) {
        if (isClosed()) {
            return;
        }
        try {
            if (keep) {
                Native.poolClose(this, number());
            } else {
                Native.poolAbandon(this, number());
            }
        } finally {
            end();
        }
    }

    /** The tree with this name, which is made if it is not there. Its name has 1 to 255 bytes in UTF-8. */
    public Tree tree(String name) {
        return tree(name, Durability.AS_OPENED);
    }

    /** The same, as a handle whose writes are as durable as this says. */
    public Tree tree(String name, Durability durability) {
        return new Tree(Native.poolTree(this, number(), Texts.bytes(name), durability.ordinal(), true), name, this);
    }

    /** The tree with this name, or null if it is not there. */
    public Tree openTree(String name) {
        long tree = Native.poolTree(this, number(), Texts.bytes(name), 0, false);
        return tree == 0 ? null : new Tree(tree, name, this);
    }

    /** Removes a tree with all that it holds; whether there was one. */
    public boolean dropTree(String name) {
        return Native.poolDropTree(this, number(), Texts.bytes(name));
    }

    /** Gives a tree another name; whether there was one. */
    public boolean renameTree(String name, String to) {
        return Native.poolRenameTree(this, number(), Texts.bytes(name), Texts.bytes(to));
    }

    /** The names of all trees, in bytewise order. */
    public List<String> treeNames() {
        return Texts.strings(Native.poolTreeNames(this, number()));
    }

    /** An empty batch. */
    public Batch batch() {
        return batch(Durability.AS_OPENED);
    }

    /** An empty batch that is as durable as this says, whatever that of the trees is. */
    public Batch batch(Durability durability) {
        return new Batch(Native.poolBatch(this, number(), durability.ordinal()), this);
    }

    /** All trees as they are now. */
    public Snapshot snapshot() {
        return new Snapshot(Native.poolSnapshot(this, number()), this);
    }

    /** Begins a serializable transaction. */
    public Transaction begin() {
        return begin(new TransactionOptions());
    }

    /** Begins a transaction. */
    public Transaction begin(TransactionOptions options) {
        return new Transaction(options.begin(this, number()), this);
    }

    /**
     * Runs a transaction until nobody is in its way, and returns what the function has returned. An exception of the function
     * ends it without a write.
     *
     * @throws ConflictException if others were in the way at each attempt
     */
    public <T> T transact(Function<Transaction, T> run) {
        return transact(new TransactionOptions(), run);
    }

    /** The same, with options. */
    public <T> T transact(TransactionOptions options, Function<Transaction, T> run) {
        Objects.requireNonNull(run);
        long attempts = Native.poolAttempts(this, number(), options.attempts());
        int deadlocks = 0;
        try {
            while (true) {
                try (Transaction transaction = begin(options)) {
                    T answer = run.apply(transaction);
                    if (Native.triesCommit(this, attempts, transaction.number())) {
                        return answer;
                    }
                } catch (DeadlockException deadlock) {
                    if (++deadlocks >= options.attempts()) {
                        throw deadlock;
                    }
                }
            }
        } finally {
            Native.free(attempts);
        }
    }

    /** Waits until everything before this call is on disk. Where the program ends epochs, it ends one. */
    public void sync() {
        Native.poolSync(this, number());
    }

    /** Writes all changed pages to their places and empties the journal. It ends no epoch of the program. */
    public void checkpoint() {
        Native.poolCheckpoint(this, number());
    }

    /**
     * Ends the current epoch and returns its number, without waiting for the disk: for pools with {@link
     * Options#manualEpochs}. All that was written since the last end becomes durable together, or not at all. A killed process
     * loses nothing of it.
     */
    public long endEpoch() {
        return Native.poolEndEpoch(this, number());
    }

    /** The epoch that runs. */
    public long epoch() {
        return Native.poolEpoch(this, number());
    }

    /** The last epoch that is on disk. */
    public long durableEpoch() {
        return Native.poolDurableEpoch(this, number());
    }

    /** About how many bytes of changes the current epoch has. A thread counts its own when they come to 8 KiB. */
    public long pendingBytes() {
        return Native.poolPendingBytes(this, number());
    }

    /** Waits until an epoch is on disk, however long that takes. An epoch that the program has to end waits for that. */
    public void waitDurable(long epoch) {
        Native.poolWaitDurable(this, number(), epoch, -1);
    }

    /** Waits until an epoch is on disk, or for a time; whether it is. An interrupt is heard within a tenth of a second. */
    public boolean waitDurable(long epoch, Duration atMost) throws InterruptedException {
        long end = System.nanoTime() + Texts.nanos(atMost);
        while (true) {
            if (Thread.interrupted()) {
                throw new InterruptedException("while it waited for epoch " + epoch);
            }
            long rest = Math.max(0, end - System.nanoTime()) / 1_000;
            long piece = Math.min(rest, 100_000);
            if (Native.poolWaitDurable(this, number(), epoch, piece)) {
                return true;
            }
            if (rest == piece) {
                return false;
            }
        }
    }

    /** Copies the pool to a new file, and returns the epoch that the copy holds. Others read and write meanwhile. */
    public long backup(Path to) {
        return Native.poolBackup(this, number(), Texts.path(to));
    }

    /** Makes the pool's file short. Others read and write meanwhile. */
    public Compaction compact() {
        long[] bytes = Native.poolCompact(this, number());
        return new Compaction(bytes[0], bytes[1]);
    }

    /** Reads all of the pool and lists what is wrong with it. */
    public List<Damage> check() {
        List<String> pieces = Texts.strings(Native.poolCheck(this, number()));
        List<Damage> damages = new ArrayList<>(pieces.size() / 3);
        for (int at = 0; at < pieces.size(); at += 3) {
            damages.add(new Damage(pieces.get(at), Long.parseLong(pieces.get(at + 1)), pieces.get(at + 2)));
        }
        return damages;
    }

    /** Counts everything in the pool. It walks all trees, so it takes longer the more there is. Others write meanwhile. */
    public Counts count() {
        return Counts.of(Texts.strings(Native.poolCount(this, number())));
    }

    /** Figures of the pool at this moment. */
    public Stats stats() {
        return Stats.of(Native.poolStats(this, number()));
    }

    /** Lengths of the file before and after a {@link Db#compact}. */
    public record Compaction(long beforeBytes, long afterBytes) {}

    /** Something that is wrong with a pool: the file, the offset of the place, and what it is. */
    public record Damage(String file, long offset, String what) {}

    @Override
    public String toString() {
        return "Db[" + (path == null ? "in memory" : path) + (isClosed() ? ", closed]" : "]");
    }
}
