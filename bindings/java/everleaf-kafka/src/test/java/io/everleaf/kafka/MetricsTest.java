package io.everleaf.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.everleaf.Stats;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.StreamsMetrics;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The metrics of stores in a topology. */
class MetricsTest {
    /** Less than the table takes. */
    private static final int MEMORY = 1 << 20;

    @TempDir
    File folder;

    private TopologyTestDriver driver(String level) {
        Duration span = Duration.ofSeconds(10);
        StreamsBuilder builder = new StreamsBuilder();
        builder.table("orders", Consumed.with(Serdes.String(), Serdes.String()), Materialized.as("orders-store"));
        builder.stream("clicks", Consumed.with(Serdes.String(), Serdes.String()))
                .groupByKey()
                .windowedBy(TimeWindows.ofSizeWithNoGrace(span))
                .count(Materialized.as("clicks-store"));
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "application");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder.getPath());
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, EverleafDslStoreSuppliers.class);
        settings.put(EverleafStores.STORE_MEMORY_CONFIG, MEMORY);
        settings.put(StreamsConfig.METRICS_RECORDING_LEVEL_CONFIG, level);
        return new TopologyTestDriver(builder.build(), settings);
    }

    /** The figures of a store, by their names. */
    private static Map<String, Double> figures(Map<MetricName, ? extends Metric> metrics, String tag, String store) {
        Map<String, Double> figures = new TreeMap<>();
        metrics.forEach((name, metric) -> {
            if (store.equals(name.tags().get(tag)) && metric.metricValue() instanceof Double value) {
                assertEquals("stream-state-metrics", name.group());
                assertTrue(name.tags().keySet().containsAll(java.util.Set.of("thread-id", "task-id")));
                figures.put(name.name(), value);
            }
        });
        return figures;
    }

    @ParameterizedTest
    @ValueSource(strings = {"INFO", "DEBUG"})
    void storesSayWhatTheyDo(String level) {
        try (TopologyTestDriver driver = driver(level)) {
            TestInputTopic<String, String> orders =
                    driver.createInputTopic("orders", new StringSerializer(), new StringSerializer());
            TestInputTopic<String, String> clicks =
                    driver.createInputTopic("clicks", new StringSerializer(), new StringSerializer());
            for (int n = 0; n < 300; n++) {
                orders.pipeInput("key " + n, "value".repeat(10), Instant.ofEpochMilli(n));
                clicks.pipeInput("key " + n % 10, "value", Instant.ofEpochMilli(n));
            }
            Map<String, Double> keys = figures(driver.metrics(), "everleaf-state-id", "orders-store");
            Map<String, Double> windows = figures(driver.metrics(), "everleaf-window-state-id", "clicks-store");
            assertEquals(300, keys.get("estimate-num-keys"), keys.toString());
            assertEquals(10, windows.get("estimate-num-keys"), windows.toString());
            assertTrue(keys.get("epoch-total") >= 300, keys.toString());
            assertTrue(keys.get("epoch-rate") > 0, keys.toString());
            assertTrue(keys.get("epoch-latency-avg") > 0, keys.toString());
            assertTrue(keys.get("epoch-latency-max") >= keys.get("epoch-latency-avg"), keys.toString());
            assertTrue(keys.get("file-bytes") >= keys.get("live-bytes"), keys.toString());
            assertTrue(keys.get("journal-bytes") > 0, keys.toString());
            assertEquals(0, keys.get("pending-bytes"), keys.toString());
            assertTrue(keys.get("block-cache-usage") > 0, keys.toString());
            assertTrue(keys.get("block-cache-capacity") > 0, keys.toString());
            assertTrue(keys.get("block-cache-capacity") <= MEMORY, keys.toString());
        }
    }

    /** The metrics of a task, without a task. */
    private record Registry(Metrics metrics0) implements StreamsMetrics {
        @Override
        public Map<MetricName, ? extends Metric> metrics() {
            return metrics0.metrics();
        }

        @Override
        public Sensor addLatencyRateTotalSensor(
                String scope, String entity, String operation, Sensor.RecordingLevel level, String... tags) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Sensor addRateTotalSensor(
                String scope, String entity, String operation, Sensor.RecordingLevel level, String... tags) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Sensor addSensor(String name, Sensor.RecordingLevel level) {
            return metrics0.sensor(name, level);
        }

        @Override
        public Sensor addSensor(String name, Sensor.RecordingLevel level, Sensor... parents) {
            return metrics0.sensor(name, level, parents);
        }

        @Override
        public void removeSensor(Sensor sensor) {
            metrics0.removeSensor(sensor.name());
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"INFO", "DEBUG"})
    void pagesAreCountedForWhoDebugs(Sensor.RecordingLevel level) {
        Registry registry = new Registry(new Metrics(new MetricConfig().recordLevel(level)));
        Context context = new Context(folder);
        context.metrics = registry;
        context.configs.put(EverleafStores.STORE_MEMORY_CONFIG, MEMORY);
        EverleafKeyValueStore store = new EverleafKeyValueStore("s");
        store.init(context, store);
        for (int n = 0; n < 60_000; n++) {
            int key = n * 7_919 % 60_000;
            store.put(Bytes.wrap(("key " + key).getBytes(StandardCharsets.UTF_8)), new byte[100]);
            store.get(Bytes.wrap(("key " + n % 10).getBytes(StandardCharsets.UTF_8)));
            if (n % 10_000 == 9_999) {
                Map<String, Double> before = figures(registry.metrics(), "everleaf-state-id", "s");
                assertTrue(before.get("pending-bytes") > 1_000_000, before.toString());
                store.commit(Map.of());
            }
        }
        Map<String, Double> figures = figures(registry.metrics(), "everleaf-state-id", "s");
        Stats stats = store.pool.db.stats();
        assertEquals(6, figures.get("epoch-total"));
        boolean isDebug = level == Sensor.RecordingLevel.DEBUG;
        assertTrue(stats.memoryEvictions() > 1_000 && stats.memoryHits() > 0, stats.toString());
        assertEquals(isDebug, figures.get("eviction-total") > 1_000, figures.toString());
        assertTrue(figures.get("eviction-total") <= stats.memoryEvictions());
        assertEquals(isDebug, figures.get("hit-total") > 0, figures.toString());
        assertEquals(isDebug, figures.get("miss-total") > 0, figures.toString());
        store.close();
        assertTrue(figures(registry.metrics(), "everleaf-state-id", "s").isEmpty());
        registry.metrics0.close();
    }

    /** Otherwise a task that comes back to its thread would find the names taken. */
    @Test
    void aCloseTakesThemAway() {
        Map<MetricName, ? extends Metric> metrics;
        try (TopologyTestDriver driver = driver("DEBUG")) {
            metrics = driver.metrics();
            assertTrue(figures(metrics, "everleaf-state-id", "orders-store").containsKey("file-bytes"));
        }
        assertFalse(figures(metrics, "everleaf-state-id", "orders-store").containsKey("file-bytes"));
        assertFalse(figures(metrics, "everleaf-state-id", "orders-store").containsKey("hit-total"));
    }
}
