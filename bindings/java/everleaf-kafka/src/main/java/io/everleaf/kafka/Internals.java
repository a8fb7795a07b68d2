package io.everleaf.kafka;

import java.nio.ByteBuffer;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.streams.kstream.Window;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.processor.internals.StreamThread;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.processor.internals.metrics.TaskMetrics;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.internals.PositionSerde;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;

/**
 * All that the stores use of the classes that Kafka may change without notice, and what an older Kafka has not. Windows are among
 * them because queries return them, and the sensor because no public method finds the one that a task has.
 */
final class Internals {
    /** Whether queries have a level of isolation, as they do since 4.4.0. */
    static final boolean HAS_ISOLATION = hasIsolation();

    private Internals() {}

    private static boolean hasIsolation() {
        try {
            QueryConfig.class.getMethod("getIsolationLevel");
            return true;
        } catch (NoSuchMethodException before44) {
            return false;
        }
    }

    /** Whether a changelog has what a store has. */
    static boolean isLogged(StateStoreContext context, String store) {
        return !(context instanceof InternalProcessorContext<?, ?> internal) || internal.changelogFor(store) != null;
    }

    /** Whether a thread does the work of tasks, and not that of queries. */
    static boolean isOfTasks(Thread thread) {
        return thread instanceof StreamThread;
    }

    static byte[] serialize(Position position) {
        ByteBuffer bytes = PositionSerde.serialize(position);
        byte[] array = new byte[bytes.remaining()];
        bytes.get(array);
        return array;
    }

    static Position deserialize(byte[] bytes) {
        return PositionSerde.deserialize(ByteBuffer.wrap(bytes));
    }

    static boolean asksForCommitted(QueryConfig config) {
        return HAS_ISOLATION && config.getIsolationLevel() == IsolationLevel.READ_COMMITTED;
    }

    /** A window, whose end is bounded by the largest number. */
    static Window window(long start, long size) {
        long end = start + size;
        return new TimeWindow(start, end < 0 ? Long.MAX_VALUE : end);
    }

    static Window session(long start, long end) {
        return new SessionWindow(start, end);
    }

    /** The sensor of a task for records that come too late, or null. */
    static Sensor droppedRecords(StateStoreContext context) {
        if (context.metrics() instanceof StreamsMetricsImpl metrics) {
            String thread = Thread.currentThread().getName();
            return TaskMetrics.droppedRecordsSensor(thread, context.taskId().toString(), metrics);
        }
        return null;
    }

    static <R> QueryResult<R> answer(
            Query<R> query,
            PositionBound bound,
            QueryConfig config,
            StateStore store,
            Position position,
            StateStoreContext context) {
        return StoreQueryUtils.handleBasicQueries(query, bound, config, store, position, context);
    }
}
