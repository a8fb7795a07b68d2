package io.everleaf;

/**
 * Memory that pools share: open them with {@link Options#budget}. All pools of a budget together take no more than it has; one that
 * is busy takes what the others leave. It is not memory of Java. Any number of threads may use it at once.
 *
 * <p>A close gives up this object, and nothing else: pools go on sharing the budget, and options that name it have to be used
 * before.
 */
public final class Budget extends Handle {
    private Budget(long number) {
        super(number, "budget");
    }

    /** A budget of so many bytes. Any number will do: the pages that operations need are in memory, however low it is. */
    public static Budget of(long bytes) {
        if (bytes < 0) {
            throw new IllegalArgumentException("bytes is " + bytes);
        }
        NativeLibrary.expect();
        return new Budget(Native.budgetNew(bytes));
    }

    /** The one that pools share by default: a quarter of what the process may use when it is first asked for. */
    public static Budget ofProcess() {
        NativeLibrary.expect();
        return new Budget(Native.budgetOfProcess());
    }

    /** How many bytes it has. */
    public long bytes() {
        return Native.budgetBytes(this, number());
    }

    /** About how many of them the pools take. */
    public long used() {
        return Native.budgetUsed(this, number());
    }

    /** How many pools are open that share it. */
    public long pools() {
        return Native.budgetPools(this, number());
    }

    @Override
    public String toString() {
        return isClosed() ? "Budget[closed]" : "Budget[" + used() + " of " + bytes() + " bytes]";
    }
}
