package io.everleaf;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Something that the native library holds. Close it when it is not needed any more; a second close does nothing, and each
 * other call of a closed object throws a {@link ClosedException}. Any thread may close it at any time.
 *
 * <p>If it is collected without a close, a warning is logged and it is closed then. With the property {@code
 * everleaf.leak.trace} set to {@code true} the warning says where the object was made, and each object takes longer to make.
 */
public abstract class Handle implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create(run -> {
        Thread thread = new Thread(run, "everleaf-cleaner");
        thread.setDaemon(true);
        return thread;
    });
    private static final boolean TRACE = Boolean.getBoolean("everleaf.leak.trace");

    /** The state that the cleaner needs: it must not know the object itself. */
    private static final class Held implements Runnable {
        private final long number;
        private final String what;
        private final Held pool;
        private final Throwable made;
        private final AtomicBoolean closed = new AtomicBoolean();

        Held(long number, String what, Held pool) {
            this.number = number;
            this.what = what;
            this.pool = pool;
            made = TRACE ? new Throwable("it was made here") : null;
        }

        /** A close in due time marks it first, so this means that nobody has closed it. */
        @Override
        public void run() {
            if (closed.getAndSet(true)) {
                return;
            }
            // After the close of its pool it holds memory, and nothing else.
            if (pool == null || !pool.closed.get()) {
                System.getLogger("io.everleaf")
                        .log(System.Logger.Level.WARNING, "a " + what + " was not closed before it was collected", made);
            }
            Native.free(number);
        }
    }

    private final Held held;
    private final Cleaner.Cleanable cleanable;
    /** It keeps the pool from being collected, and so from being closed. */
    final Db db;

    /** Of a pool itself, or of a budget. */
    Handle(long number, String what) {
        this(number, what, null);
    }

    /** Of something that belongs to a pool. */
    Handle(long number, String what, Db db) {
        this.db = db;
        held = new Held(number, what, db == null ? null : ((Handle) db).held);
        cleanable = CLEANER.register(this, held);
    }

    final long number() {
        return held.number;
    }

    /** Whether it was closed. Something of a pool that was closed is not closed by that. */
    public final boolean isClosed() {
        return held.closed.get();
    }

    /** Takes the number away, once. */
    final boolean end() {
        boolean first = !held.closed.getAndSet(true);
        if (first) {
            Native.free(held.number);
            cleanable.clean();
        }
        return first;
    }

    /** Releases what the library holds for this. */
    @Override
    public void close() {
        end();
    }
}
