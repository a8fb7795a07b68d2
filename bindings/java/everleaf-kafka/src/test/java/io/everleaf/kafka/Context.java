package io.everleaf.kafka;

import java.io.File;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsMetrics;
import org.apache.kafka.streams.processor.BatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.CommitCallback;
import org.apache.kafka.streams.processor.StateRestoreCallback;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.RecordMetadata;

/** The part of a task's context that a store needs. */
final class Context implements StateStoreContext {
    final Map<String, Object> configs = new HashMap<>();
    StreamsMetrics metrics;
    Runnable onCallback = () -> {};
    Runnable onRegister = () -> {};
    private final File folder;
    private Optional<RecordMetadata> metadata = Optional.empty();
    private StateRestoreCallback restore;

    Context(File folder) {
        this.folder = folder;
    }

    /** A record is worked on. */
    void record(String topic, int partition, long offset) {
        metadata = Optional.of(new RecordMetadata() {
            @Override
            public String topic() {
                return topic;
            }

            @Override
            public int partition() {
                return partition;
            }

            @Override
            public long offset() {
                return offset;
            }
        });
    }

    void restore(List<KeyValue<byte[], byte[]>> records) {
        Collection<KeyValue<byte[], byte[]>> all = records;
        ((BatchingStateRestoreCallback) restore).restoreAll(all);
    }

    @Override
    public String applicationId() {
        return "application";
    }

    @Override
    public TaskId taskId() {
        return new TaskId(0, 0);
    }

    @Override
    public Optional<RecordMetadata> recordMetadata() {
        onCallback.run();
        return metadata;
    }

    @Override
    public Serde<?> keySerde() {
        return null;
    }

    @Override
    public Serde<?> valueSerde() {
        return null;
    }

    @Override
    public File stateDir() {
        return folder;
    }

    @Override
    public StreamsMetrics metrics() {
        return metrics;
    }

    @Override
    public void register(StateStore store, StateRestoreCallback callback) {
        onRegister.run();
        restore = callback;
    }

    @Override
    public void register(StateStore store, StateRestoreCallback callback, CommitCallback commit) {
        restore = callback;
    }

    @Override
    public Map<String, Object> appConfigs() {
        return configs;
    }

    @Override
    public Map<String, Object> appConfigsWithPrefix(String prefix) {
        return Map.of();
    }
}
