package io.everleaf.kafka;

import io.everleaf.EverleafException;
import io.everleaf.ReadTree;
import io.everleaf.Stats;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToDoubleFunction;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.MeasurableStat;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.Sensor.RecordingLevel;
import org.apache.kafka.common.metrics.stats.Avg;
import org.apache.kafka.common.metrics.stats.CumulativeCount;
import org.apache.kafka.common.metrics.stats.CumulativeSum;
import org.apache.kafka.common.metrics.stats.Max;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.WindowedCount;
import org.apache.kafka.streams.StreamsMetrics;
import org.apache.kafka.streams.processor.StateStoreContext;

/**
 * The metrics of one store, beside those that Streams measures around it. A metric that RocksDB's stores have in the same
 * meaning has the same name; the group and the tags are the same in any case. The names of Streams itself are not used again.
 */
final class StoreMetrics {
    private static final String GROUP = "stream-state-metrics";

    private final StreamsMetrics metrics;
    private final StorePool pool;
    private final String prefix;
    private final Map<String, String> tags = new LinkedHashMap<>();
    private final List<Sensor> sensors = new ArrayList<>();
    /** Null where nobody measures. */
    private Sensor epochs;

    private Sensor hits;
    private Sensor misses;
    private Sensor evictions;
    private Stats last;

    StoreMetrics(StateStoreContext context, String scope, String store, StorePool pool) {
        this.pool = pool;
        metrics = context.metrics();
        String thread = Thread.currentThread().getName();
        String task = context.taskId().toString();
        prefix = "everleaf." + thread + "." + task + "." + scope + "." + store + ".";
        if (metrics == null) {
            return;
        }
        tags.put("thread-id", thread);
        tags.put("task-id", task);
        tags.put(scope + "-state-id", store);
        addEpochs();
        addGauges();
        addPages();
    }

    private Sensor sensor(String name, RecordingLevel level) {
        Sensor sensor = metrics.addSensor(prefix + name, level);
        sensors.add(sensor);
        return sensor;
    }

    private MetricName name(String name, String what) {
        return new MetricName(name, GROUP, what, tags);
    }

    private void addEpochs() {
        epochs = sensor("epochs", RecordingLevel.INFO);
        epochs.add(name("epoch-latency-avg", "The average nanoseconds of a commit, in the thread of the task"), new Avg());
        epochs.add(name("epoch-latency-max", "The most nanoseconds of a commit, in the thread of the task"), new Max());
        epochs.add(name("epoch-rate", "The commits a second"), new Rate(new WindowedCount()));
        epochs.add(name("epoch-total", "The commits"), new CumulativeCount());
    }

    private void addGauges() {
        Sensor gauges = sensor("gauges", RecordingLevel.INFO);
        gauge(gauges, "pending-bytes", "The bytes that no commit has ended", pool -> pool.db.pendingBytes());
        gauge(gauges, "file-bytes", "The bytes of the file", pool -> pool.db.stats().fileBytes());
        gauge(gauges, "live-bytes", "The bytes of the file that are in use", pool -> pool.db.stats().liveBytes());
        gauge(
                gauges,
                "journal-bytes",
                "The bytes of journal that an open would read after a crash",
                pool -> pool.db.stats().journalBytes());
        gauge(gauges, "block-cache-usage", "The bytes of memory in use", pool -> pool.db.stats().memoryBytes());
        gauge(gauges, "block-cache-capacity", "The most bytes of memory", pool -> pool.db.stats().memoryMostBytes());
        gauge(
                gauges,
                "estimate-num-keys",
                "The number of keys",
                pool -> pool.trees().values().stream().mapToLong(ReadTree::size).sum());
    }

    private void gauge(Sensor sensor, String name, String what, ToDoubleFunction<StorePool> measure) {
        sensor.add(name(name, what), new Gauge(pool, measure));
    }

    /** There is no ratio of hits: the library does not count the reads that memory answers. */
    private void addPages() {
        hits = counter("hit", "in memory that had been used again when room was needed, and stayed");
        misses = counter("miss", "that were needed and not in memory");
        evictions = counter("eviction", "that have left memory");
    }

    private Sensor counter(String name, String which) {
        Sensor sensor = sensor(name, RecordingLevel.DEBUG);
        sensor.add(name(name + "-rate", "The pages a second " + which), new Rate());
        sensor.add(name(name + "-total", "The pages " + which), new CumulativeSum());
        return sensor;
    }

    /** A commit has taken so long. */
    void committed(long nanoseconds) {
        if (epochs == null) {
            return;
        }
        epochs.record(nanoseconds);
        if (hits.shouldRecord()) {
            Stats now = pool.db.stats();
            hits.record(now.memoryHits() - (last == null ? 0 : last.memoryHits()));
            misses.record(now.memoryMisses() - (last == null ? 0 : last.memoryMisses()));
            evictions.record(now.memoryEvictions() - (last == null ? 0 : last.memoryEvictions()));
            last = now;
        }
    }

    /** The next open makes others. */
    void close() {
        sensors.forEach(sensor -> metrics.removeSensor(sensor));
    }

    /** A figure that is looked up when somebody asks. */
    private record Gauge(StorePool pool, ToDoubleFunction<StorePool> figure) implements MeasurableStat {
        @Override
        public void record(MetricConfig config, double value, long time) {}

        @Override
        public double measure(MetricConfig config, long now) {
            try {
                return figure.applyAsDouble(pool);
            } catch (EverleafException closed) {
                // Somebody may ask while the store is closed.
                return Double.NaN;
            }
        }
    }
}
