package io.everleaf.kafka;

import java.time.Duration;
import java.util.Objects;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/**
 * State stores of Kafka Streams on Everleaf, as {@link org.apache.kafka.streams.state.Stores} has them on RocksDB.
 *
 * <p>Each store has a pool of its own in the folder of its task. Its data, the changelog's offset and its position are one epoch,
 * which ends with the commit of the task and never before: after a crash the store is exactly as some commit has left it.
 *
 * <p>All stores of the virtual machine share memory outside of the heap: by default that of all pools of the process, a quarter of
 * what it may use. The setting {@value #MEMORY_CONFIG} of the application says another number of bytes.
 */
public final class EverleafStores {
    /**
     * The setting for the most bytes of memory of all stores together, outside of the heap. Applications of one virtual machine that
     * say the same number share it.
     */
    public static final String MEMORY_CONFIG = "everleaf.memory.bytes";
    /** The setting for the most bytes of memory of each store by itself, in place of what it shares. */
    public static final String STORE_MEMORY_CONFIG = "everleaf.store.memory.bytes";

    /** Segments are half as long as the retention, and not shorter than this. */
    private static final long SEGMENT_LEAST = 60_000;

    private EverleafStores() {}

    /** A store of keys and values. */
    public static KeyValueBytesStoreSupplier persistentKeyValueStore(String name) {
        return new Keys(expect(name), Layout.Format.PLAIN);
    }

    /** A store of keys and values with timestamps, such as a table of the DSL has. */
    public static KeyValueBytesStoreSupplier persistentTimestampedKeyValueStore(String name) {
        return new Keys(expect(name), Layout.Format.TIMESTAMPED);
    }

    /** A store of keys and values with timestamps and headers. */
    public static KeyValueBytesStoreSupplier persistentTimestampedKeyValueStoreWithHeaders(String name) {
        return new KeysWithHeaders(expect(name));
    }

    /**
     * A store of windows. Records expire after the retention, by the time of the latest record.
     *
     * @throws IllegalArgumentException if a time is below 0, or the window longer than the retention
     */
    public static WindowBytesStoreSupplier persistentWindowStore(
            String name, Duration retention, Duration size, boolean retainDuplicates) {
        return new Windows(name, Layout.Format.PLAIN, retention, size, retainDuplicates);
    }

    /** A store of windows whose values have timestamps, such as an aggregate of the DSL has. */
    public static WindowBytesStoreSupplier persistentTimestampedWindowStore(
            String name, Duration retention, Duration size, boolean retainDuplicates) {
        return new Windows(name, Layout.Format.TIMESTAMPED, retention, size, retainDuplicates);
    }

    /** A store of windows whose values have timestamps and headers. */
    public static WindowBytesStoreSupplier persistentTimestampedWindowStoreWithHeaders(
            String name, Duration retention, Duration size, boolean retainDuplicates) {
        return new WindowsWithHeaders(name, retention, size, retainDuplicates);
    }

    /** A store of sessions. They expire when the latest one ends more than the retention after them. */
    public static SessionBytesStoreSupplier persistentSessionStore(String name, Duration retention) {
        return new Sessions(name, Layout.Format.PLAIN, retention);
    }

    /** A store of sessions whose values have headers. */
    public static SessionBytesStoreSupplier persistentSessionStoreWithHeaders(String name, Duration retention) {
        return new SessionsWithHeaders(name, retention);
    }

    private static String expect(String name) {
        return Objects.requireNonNull(name, "name cannot be null");
    }

    private static long milliseconds(String what, Duration duration) {
        try {
            long milliseconds = Objects.requireNonNull(duration, what + " cannot be null").toMillis();
            if (milliseconds < 0) {
                throw new IllegalArgumentException(what + " cannot be negative");
            }
            return milliseconds;
        } catch (ArithmeticException overflow) {
            throw new IllegalArgumentException(what + " is " + duration + ": the milliseconds are too many", overflow);
        }
    }

    private static class Keys implements KeyValueBytesStoreSupplier {
        private final String name;
        private final Layout.Format format;

        Keys(String name, Layout.Format format) {
            this.name = name;
            this.format = format;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public KeyValueStore<Bytes, byte[]> get() {
            return switch (format) {
                case PLAIN -> new EverleafKeyValueStore(name);
                case TIMESTAMPED -> new EverleafKeyValueStore.Timestamped(name);
                case HEADERS -> new EverleafKeyValueStore.WithHeaders(name);
            };
        }

        @Override
        public String metricsScope() {
            return Layout.Kind.KEYS.scope;
        }
    }

    private static final class KeysWithHeaders extends Keys implements HeadersBytesStoreSupplier {
        KeysWithHeaders(String name) {
            super(name, Layout.Format.HEADERS);
        }
    }

    /** Window stores, and all that they need to know. */
    static class Windows implements WindowBytesStoreSupplier {
        private final String name;
        private final Layout.Format format;
        private final long retention;
        private final long size;
        private final boolean retainDuplicates;

        Windows(String name, Layout.Format format, Duration retention, Duration size, boolean retainDuplicates) {
            this.name = expect(name);
            this.format = format;
            this.retention = milliseconds("retentionPeriod", retention);
            this.size = milliseconds("windowSize", size);
            this.retainDuplicates = retainDuplicates;
            if (this.size > this.retention) {
                throw new IllegalArgumentException("The retention period of the window store " + name
                        + " must be no smaller than its window size. Got size=[" + this.size + "], retention=["
                        + this.retention + "]");
            }
        }

        @Override
        public String name() {
            return name;
        }

        Layout.Format format() {
            return format;
        }

        @Override
        public WindowStore<Bytes, byte[]> get() {
            return switch (format) {
                case PLAIN -> new EverleafWindowStore(this);
                case TIMESTAMPED -> new EverleafWindowStore.Timestamped(this);
                case HEADERS -> new EverleafWindowStore.WithHeaders(this);
            };
        }

        @Override
        public String metricsScope() {
            return Layout.Kind.WINDOWS.scope;
        }

        @Override
        public long segmentIntervalMs() {
            return Math.max(retention / 2, SEGMENT_LEAST);
        }

        @Override
        public long windowSize() {
            return size;
        }

        @Override
        public boolean retainDuplicates() {
            return retainDuplicates;
        }

        @Override
        public long retentionPeriod() {
            return retention;
        }
    }

    private static final class WindowsWithHeaders extends Windows implements HeadersBytesStoreSupplier {
        WindowsWithHeaders(String name, Duration retention, Duration size, boolean retainDuplicates) {
            super(name, Layout.Format.HEADERS, retention, size, retainDuplicates);
        }
    }

    /** Session stores, and all that they need to know. */
    static class Sessions implements SessionBytesStoreSupplier {
        private final String name;
        private final Layout.Format format;
        private final long retention;

        Sessions(String name, Layout.Format format, Duration retention) {
            this.name = expect(name);
            this.format = format;
            this.retention = milliseconds("retentionPeriod", retention);
        }

        @Override
        public String name() {
            return name;
        }

        Layout.Format format() {
            return format;
        }

        @Override
        public SessionStore<Bytes, byte[]> get() {
            return format == Layout.Format.HEADERS
                    ? new EverleafSessionStore.WithHeaders(this)
                    : new EverleafSessionStore(this);
        }

        @Override
        public String metricsScope() {
            return Layout.Kind.SESSIONS.scope;
        }

        @Override
        public long segmentIntervalMs() {
            return Math.max(retention / 2, SEGMENT_LEAST);
        }

        @Override
        public long retentionPeriod() {
            return retention;
        }
    }

    private static final class SessionsWithHeaders extends Sessions implements HeadersBytesStoreSupplier {
        SessionsWithHeaders(String name, Duration retention) {
            super(name, Layout.Format.HEADERS, retention);
        }
    }
}
