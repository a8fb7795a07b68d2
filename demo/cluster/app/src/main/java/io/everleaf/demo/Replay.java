package io.everleaf.demo;

import io.everleaf.kafka.EverleafStores;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.Stores;

/**
 * An application that is killed at its last record, and how many records of the changelog it needs when it starts again.
 *
 * <ul>
 *   <li>{@code task=fill records=N}: makes the topic with so many records, once for all stores
 *   <li>{@code task=first}: works on them, and halts without a word at the last
 *   <li>{@code task=again}: starts on the folder that is left, says what was replayed, waits until all is there, and counts it
 * </ul>
 */
public final class Replay {
    private static final String INPUT = "input";
    private static final String STORE = "kv";

    private final Arguments arguments;
    private final long records;
    private final boolean isFirst;
    private final AtomicLong worked = new AtomicLong();
    private final AtomicLong replayed = new AtomicLong();
    private volatile long began;

    private Replay(Arguments arguments) {
        this.arguments = arguments;
        records = Long.parseLong(arguments.text("records"));
        isFirst = arguments.text("task").equals("first");
    }

    /** Does one task. */
    public static void main(String[] given) throws Exception {
        Replay replay = new Replay(new Arguments(given));
        if (replay.arguments.text("task").equals("fill")) {
            replay.fill();
        } else {
            replay.run();
        }
    }

    private static byte[] key(long number) {
        return ByteBuffer.allocate(16)
                .putLong(number * 0x9e3779b97f4a7c15L)
                .putLong(number)
                .array();
    }

    private static byte[] value(long number) {
        byte[] value = new byte[100];
        new Random(number).nextBytes(value);
        return value;
    }

    private void fill() throws Exception {
        String servers = arguments.text("servers");
        long end = System.currentTimeMillis() + 60_000;
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            while (true) {
                try {
                    admin.createTopics(List.of(new NewTopic(INPUT, 1, (short) 1))).all().get(10, TimeUnit.SECONDS);
                    break;
                } catch (java.util.concurrent.ExecutionException | java.util.concurrent.TimeoutException failure) {
                    if (System.currentTimeMillis() > end) {
                        throw failure;
                    }
                    Thread.sleep(200);
                }
            }
        }
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "linger.ms", "20", "batch.size", "262144");
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (long i = 0; i < records; i++) {
                producer.send(new ProducerRecord<>(INPUT, key(i), value(i)));
            }
        }
        System.out.println("filled " + records);
    }

    private Properties settings() {
        Properties settings = new Properties();
        boolean isExact = arguments.text("guarantee").equals("exactly_once_v2");
        settings.putAll(Map.of(
                "application.id", arguments.text("id"),
                "bootstrap.servers", arguments.text("servers"),
                "state.dir", arguments.text("dir"),
                "processing.guarantee", arguments.text("guarantee"),
                "enable.transactional.statestores", String.valueOf(isExact),
                "commit.interval.ms", arguments.text("interval"),
                "replication.factor", "1",
                "statestore.cache.max.bytes", "0"));
        settings.putAll(Map.of(
                "consumer.auto.offset.reset", "earliest",
                "consumer.session.timeout.ms", "6000",
                "consumer.heartbeat.interval.ms", "1500",
                "producer.transaction.timeout.ms", "6000"));
        return settings;
    }

    private void run() throws Exception {
        Topology topology = new Topology();
        topology.addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(), INPUT);
        topology.addProcessor("processor", Work::new, "source");
        boolean isEverleaf = arguments.text("store").equals("everleaf");
        topology.addStateStore(
                Stores.keyValueStoreBuilder(
                        isEverleaf ? EverleafStores.persistentKeyValueStore(STORE) : Stores.persistentKeyValueStore(STORE),
                        Serdes.ByteArray(),
                        Serdes.ByteArray()),
                "processor");
        KafkaStreams streams = new KafkaStreams(topology, settings());
        streams.setUncaughtExceptionHandler(failure -> {
            System.out.println("uncaught: " + failure + ", by " + failure.getCause());
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setGlobalStateRestoreListener(new Restores());
        long start = System.currentTimeMillis();
        streams.start();
        while (streams.state() != KafkaStreams.State.RUNNING) {
            Thread.sleep(5);
        }
        if (!isFirst) {
            System.out.println("running-ms " + (System.currentTimeMillis() - start));
            System.out.println("replayed " + replayed);
            System.out.println("pairs " + count(streams));
            System.out.println("worked " + worked);
            Runtime.getRuntime().halt(0);
        }
    }

    /** Waits until all records are there, compares each with what was sent, and gives their number. */
    private long count(KafkaStreams streams) throws InterruptedException {
        var store = streams.store(StoreQueryParameters.fromNameAndType(
                STORE, QueryableStoreTypes.<byte[], byte[]>keyValueStore()));
        long end = System.currentTimeMillis() + 60_000;
        while (store.get(key(records - 1)) == null && System.currentTimeMillis() < end) {
            Thread.sleep(20);
        }
        long pairs = 0;
        try (KeyValueIterator<byte[], byte[]> iterator = store.all()) {
            while (iterator.hasNext()) {
                KeyValue<byte[], byte[]> pair = iterator.next();
                long number = ByteBuffer.wrap(pair.key).getLong(8);
                if (!Arrays.equals(pair.key, key(number)) || !Arrays.equals(pair.value, value(number))) {
                    throw new IllegalStateException("record " + number + " is not what was sent");
                }
                pairs++;
            }
        }
        return pairs;
    }

    private final class Work implements Processor<byte[], byte[], Void, Void> {
        private KeyValueStore<byte[], byte[]> store;

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            store = context.getStateStore(STORE);
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            long number = worked.incrementAndGet();
            if (number == 1) {
                began = System.nanoTime();
            }
            store.put(record.key(), record.value());
            if (isFirst && number == records) {
                double seconds = (System.nanoTime() - began) / 1e9;
                System.out.printf("rate %.0f%n", records / seconds);
                System.out.flush();
                Runtime.getRuntime().halt(137);
            }
        }
    }

    private final class Restores implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition partition, String store, long from, long to) {}

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long at, long count) {
            replayed.addAndGet(count);
        }

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long count) {
            System.out.println("restored " + partition + ": " + count);
        }
    }
}
