package io.everleaf.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.test.TestRecord;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A topology with all kinds of stores gives the same with the stores of this library as with those of RocksDB. */
class DslTest {
    private static final Duration SPAN = Duration.ofSeconds(20);
    private static final Duration GRACE = Duration.ofSeconds(30);
    private static final Duration GAP = Duration.ofSeconds(3);
    private static final List<String> OUTPUTS =
            List.of("table", "windows", "closed", "sliding", "sessions", "closed-sessions", "join", "outer-join");

    @TempDir
    File folder;

    private static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> left = builder.stream("left");
        KStream<String, String> right = builder.stream("right");
        TimeWindows windows = TimeWindows.ofSizeAndGrace(SPAN, GRACE);
        SessionWindows sessions = SessionWindows.ofInactivityGapAndGrace(GAP, GRACE);
        left.groupByKey().reduce((one, two) -> one + two).toStream().to("table");
        left.groupByKey()
                .windowedBy(windows)
                .reduce((one, two) -> one + two, Materialized.as("windows-store"))
                .toStream((window, value) -> "" + window)
                .to("windows");
        left.groupByKey()
                .windowedBy(windows)
                .emitStrategy(EmitStrategy.onWindowClose())
                .reduce((one, two) -> one + two)
                .toStream((window, value) -> "" + window)
                .to("closed");
        left.groupByKey()
                .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(SPAN, GRACE))
                .reduce((one, two) -> one + two)
                .toStream((window, value) -> "" + window)
                .to("sliding");
        left.groupByKey()
                .windowedBy(sessions)
                .reduce((one, two) -> one + two)
                .toStream((window, value) -> "" + window)
                .to("sessions");
        left.groupByKey()
                .windowedBy(sessions)
                .emitStrategy(EmitStrategy.onWindowClose())
                .reduce((one, two) -> one + two)
                .toStream((window, value) -> "" + window)
                .to("closed-sessions");
        JoinWindows near = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(2), GRACE);
        left.join(right, (one, two) -> one + "|" + two, near).to("join");
        left.outerJoin(right, (one, two) -> one + "|" + two, near).to("outer-join");
        return builder.build();
    }

    /** All that comes out, with times and headers; the names of the files of state; and the latest time of the left side. */
    private record Outcome(
            Map<String, List<TestRecord<String, String>>> records, TreeSet<String> files, long latest) {}

    private static Outcome run(Class<?> stores, String format, Path folder) throws IOException {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "application");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder.toString());
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, stores);
        settings.put(StreamsConfig.DSL_STORE_FORMAT_CONFIG, format);
        // A cache finds sessions that have expired in the store behind it.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0L);
        // Emit at each record that closes a window, and not once a second of the machine's clock.
        settings.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        settings.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        Random random = new Random(3);
        try (TopologyTestDriver driver = new TopologyTestDriver(topology(), settings, Instant.EPOCH)) {
            TestInputTopic<String, String> left =
                    driver.createInputTopic("left", new StringSerializer(), new StringSerializer());
            TestInputTopic<String, String> right =
                    driver.createInputTopic("right", new StringSerializer(), new StringSerializer());
            long latest = 0;
            for (int n = 0; n < 160; n++) {
                Headers headers = new RecordHeaders().add("n", new byte[] {(byte) n});
                long time = Math.max(0, n * 800L - random.nextInt(60_000));
                String key = "k".repeat(random.nextInt(3)) + random.nextInt(3);
                boolean isLeft = random.nextBoolean();
                latest = isLeft ? Math.max(latest, time) : latest;
                (isLeft ? left : right)
                        .pipeInput(new TestRecord<>(
                                key, Character.toString('a' + n % 26), headers, Instant.ofEpochMilli(time)));
            }
            Map<String, List<TestRecord<String, String>>> records = new HashMap<>();
            Deserializer<String> texts = new StringDeserializer();
            for (String output : OUTPUTS) {
                records.put(output, driver.createOutputTopic(output, texts, texts).readRecordsToList());
            }
            return new Outcome(records, names(folder), latest);
        }
    }

    private static TreeSet<String> names(Path folder) throws IOException {
        try (Stream<Path> paths = Files.walk(folder)) {
            return new TreeSet<>(paths.map(path -> path.getFileName().toString()).toList());
        }
    }

    /** The last value of each session that is closed in the end, by all that was said of sessions on the way. */
    private static TreeMap<String, String> closed(List<TestRecord<String, String>> sessions, long latest) {
        TreeMap<String, String> closed = new TreeMap<>();
        for (TestRecord<String, String> record : sessions) {
            closed.remove(record.key());
            if (record.value() != null) {
                closed.put(record.key(), record.value());
            }
        }
        closed.keySet().removeIf(key -> Long.parseLong(key.replaceAll(".*/|]", "")) >= latest);
        return closed;
    }

    @ParameterizedTest
    @ValueSource(strings = {"DEFAULT", "HEADERS"})
    void allStoresOfATopologyGiveTheSame(String format) throws IOException {
        Outcome found = run(EverleafDslStoreSuppliers.class, format, folder.toPath().resolve("ours"));
        Outcome expected = run(
                BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers.class, format, folder.toPath().resolve("others"));
        for (String output : OUTPUTS) {
            List<TestRecord<String, String>> ours = found.records.get(output);
            List<TestRecord<String, String>> others = expected.records.get(output);
            assertFalse(others.isEmpty(), output);
            if (output.equals("closed")) {
                // Records that close at once come in the order of the store, which is that of time there and of keys here.
                assertEquals(sorted(others), sorted(ours));
            } else if (output.equals("closed-sessions")) {
                // A segment of RocksDB may go with the record that closes its sessions: then nobody hears of them.
                assertTrue(ours.containsAll(others));
                TreeMap<String, String> all = new TreeMap<>();
                ours.forEach(record -> assertNull(all.put(record.key(), record.value())));
                assertEquals(closed(found.records.get("sessions"), found.latest - GAP.plus(GRACE).toMillis()), all);
            } else {
                assertEquals(others, ours, output);
            }
        }
        assertTrue(found.files.containsAll(List.of("pool.ever", "windows-store")), found.files.toString());
        assertFalse(found.files.contains("rocksdb"));
    }

    private static List<String> sorted(List<TestRecord<String, String>> records) {
        return records.stream().map(TestRecord::toString).sorted().toList();
    }
}
