package io.everleaf.kafka;

import io.everleaf.ReadTree;
import io.everleaf.Tree;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;

/** A store of keys and values. */
class EverleafKeyValueStore extends EverleafStore implements KeyValueStore<Bytes, byte[]> {
    /** Has Streams know that values begin with a timestamp: without it they are lost without a word. */
    static final class Timestamped extends EverleafKeyValueStore implements TimestampedBytesStore {
        Timestamped(String name) {
            super(name, Layout.Format.TIMESTAMPED);
        }
    }

    /** Has Streams know that values begin with headers, and then a timestamp. */
    static final class WithHeaders extends EverleafKeyValueStore implements HeadersBytesStore {
        WithHeaders(String name) {
            super(name, Layout.Format.HEADERS);
        }
    }

    EverleafKeyValueStore(String name) {
        this(name, Layout.Format.PLAIN);
    }

    private EverleafKeyValueStore(String name, Layout.Format format) {
        super(name, Layout.keys(format));
    }

    /** The only tree with data. */
    private Tree data;

    @Override
    void opened() {
        data = pool.data();
    }

    @Override
    void restore(Iterable<KeyValue<byte[], byte[]>> records) {
        for (KeyValue<byte[], byte[]> record : records) {
            set(record.key, record.value);
        }
    }

    private void set(byte[] key, byte[] value) {
        pool.touch();
        DamagedException.at(data, key, () -> {
            if (value == null) {
                data.delete(key);
            } else {
                data.put(key, value);
            }
            return null;
        });
    }

    @Override
    public void put(Bytes key, byte[] value) {
        Objects.requireNonNull(key, "key cannot be null");
        write("putting a key into", () -> {
            set(key.get(), value);
            updatePosition();
            return null;
        });
    }

    @Override
    public byte[] putIfAbsent(Bytes key, byte[] value) {
        Objects.requireNonNull(key, "key cannot be null");
        return write("putting a key into", () -> {
            byte[] old = DamagedException.at(data, key.get(), () -> data.get(key.get()));
            if (old == null) {
                set(key.get(), value);
                updatePosition();
            }
            return old;
        });
    }

    /** An epoch holds all of it in any case. */
    @Override
    public void putAll(List<KeyValue<Bytes, byte[]>> entries) {
        for (KeyValue<Bytes, byte[]> entry : entries) {
            put(entry.key, entry.value);
        }
    }

    @Override
    public byte[] delete(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        return write("deleting a key from", () -> {
            pool.touch();
            byte[] old = DamagedException.at(data, key.get(), () -> data.take(key.get()));
            updatePosition();
            return old;
        });
    }

    @Override
    public byte[] get(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        return run("getting a key from", () -> DamagedException.at(data, key.get(), () -> data.get(key.get())));
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
        return current.range(from, to);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
        return current.reverseRange(from, to);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> all() {
        return current.all();
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseAll() {
        return current.reverseAll();
    }

    @Override
    public <PS extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(P prefix, PS serializer) {
        return current.prefixScan(prefix, serializer);
    }

    @Override
    public long approximateNumEntries() {
        return run("counting", () -> data.size());
    }

    /** The store as the last commit has left it, or as it is. */
    public ReadOnlyKeyValueStore<Bytes, byte[]> readOnly(IsolationLevel level) {
        Objects.requireNonNull(level, "isolation level cannot be null");
        return isCommitted(level) ? committed : this;
    }

    private final StoreView current = new StoreView(this) {
        @Override
        <T> T read(String what, Function<ReadTree, T> body) {
            return EverleafKeyValueStore.this.read(what, moment -> body.apply(data));
        }
    };

    private final StoreView committed = new StoreView(this) {
        @Override
        <T> T read(String what, Function<ReadTree, T> body) {
            return readCommitted(what, moment -> body.apply(moment.trees().get(0L)));
        }
    };
}
