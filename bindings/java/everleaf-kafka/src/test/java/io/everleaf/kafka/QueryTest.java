package io.everleaf.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.query.KeyQuery;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Queries at a level of isolation, and a topology with a table. */
class QueryTest {
    @TempDir
    File folder;

    @Test
    void aCommittedQueryHasTheCommittedPosition() {
        assumeTrue(Internals.HAS_ISOLATION, "this Kafka knows no levels of isolation");
        Context context = new Context(folder);
        context.configs.put("enable.transactional.statestores", "true");
        context.configs.put("default.interactive.query.isolation.level", "READ_COMMITTED");
        EverleafKeyValueStore store = new EverleafKeyValueStore("s");
        store.init(context, store);
        Bytes key = Bytes.wrap(new byte[] {1});
        context.record("input", 0, 5);
        store.put(key, new byte[] {5});
        store.commit(Map.of());
        context.record("input", 0, 6);
        store.put(key, new byte[] {6});
        for (IsolationLevel level : IsolationLevel.values()) {
            long seen = level == IsolationLevel.READ_COMMITTED ? 5 : 6;
            QueryConfig config = new QueryConfig(false, level);
            QueryResult<byte[]> result =
                    store.query(KeyQuery.<Bytes, byte[]>withKey(key), PositionBound.unbounded(), config);
            assertTrue(result.isSuccess());
            assertEquals(seen, result.getResult()[0]);
            assertEquals(Position.emptyPosition().withComponent("input", 0, seen), result.getPosition());
            PositionBound six = PositionBound.at(Position.emptyPosition().withComponent("input", 0, 6));
            QueryResult<byte[]> bound = store.query(KeyQuery.<Bytes, byte[]>withKey(key), six, config);
            assertEquals(seen == 6, bound.isSuccess());
        }
        store.close();
        assertFalse(store.isOpen());
    }

    @Test
    void aTableKeepsItsTimestamps() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.table(
                "orders",
                Consumed.with(Serdes.String(), Serdes.String()),
                Materialized.<String, String>as(EverleafStores.persistentTimestampedKeyValueStore("orders"))
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.String()));
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "application");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder.getPath());
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings)) {
            TestInputTopic<String, String> orders =
                    driver.createInputTopic("orders", new StringSerializer(), new StringSerializer());
            orders.pipeInput("one", "2 chairs", Instant.ofEpochMilli(123));
            ValueAndTimestamp<String> value =
                    driver.<String, String>getTimestampedKeyValueStore("orders").get("one");
            assertEquals("2 chairs", value.value());
            assertEquals(123, value.timestamp());
        }
    }

    /** Which is what the README shows. */
    @Test
    void theExampleIsCompiled() throws Exception {
        Path readme = Path.of("../everleaf-kafka/README.md");
        Matcher block = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL).matcher(Files.readString(readme));
        assertTrue(block.find());
        Path source = folder.toPath().resolve("Example.java");
        Files.writeString(source, block.group(1));
        int failures = ToolProvider.getSystemJavaCompiler()
                .run(null, null, null, "-cp", System.getProperty("java.class.path"), "-proc:none", source.toString());
        assertEquals(0, failures);
    }
}
