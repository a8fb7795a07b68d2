package io.everleaf.demo;

import io.everleaf.kafka.EverleafStores;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StandbyUpdateListener;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** An application of the cluster: it does what the commands say to its store, and answers. */
public final class App {
    /** What an application counts, for its status. */
    static final class Counts {
        final AtomicLong answers = new AtomicLong();
        final AtomicLong restored = new AtomicLong();
        final AtomicLong standby = new AtomicLong();
        final AtomicLong failures = new AtomicLong();
        /** Milliseconds from the start of the program to its first answer; 0 before. */
        final AtomicLong firstAnswer = new AtomicLong();
        /** After so many writes of a compare-and-set the processor throws; 0 for never. */
        final AtomicInteger failAfter = new AtomicInteger();

        void answered() {
            if (answers.getAndIncrement() == 0) {
                firstAnswer.set(uptime());
            }
        }
    }

    static final Counts COUNTS = new Counts();

    private App() {}

    static long uptime() {
        return ManagementFactory.getRuntimeMXBean().getUptime();
    }

    private static void say(String text) {
        System.out.println("+" + uptime() + " ms " + text);
    }

    /** Runs until it is told to end. */
    public static void main(String[] given) throws Exception {
        Arguments arguments = new Arguments(given);
        Topics.make(arguments.text("servers"));
        KafkaStreams streams = new KafkaStreams(topology(arguments), settings(arguments));
        streams.setStateListener((now, before) -> say(before + " -> " + now));
        streams.setUncaughtExceptionHandler(App::failed);
        streams.setGlobalStateRestoreListener(new Restores());
        streams.setStandbyUpdateListener(new Standbys());
        Web web = new Web(streams, arguments);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            say("ends");
            web.close();
            // Its tasks move at once, and not when its session has run out.
            streams.close(org.apache.kafka.streams.CloseOptions.timeout(Duration.ofSeconds(15))
                    .withGroupMembershipOperation(
                            org.apache.kafka.streams.CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
        }));
        streams.start();
        web.start();
    }

    /** Another thread goes on; but if Streams itself is in disorder, as after KAFKA-20731, the program ends. */
    private static StreamThreadExceptionResponse failed(Throwable failure) {
        COUNTS.failures.incrementAndGet();
        say("uncaught: " + failure + (failure.getCause() == null ? "" : ", by " + failure.getCause()));
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (cause instanceof IllegalStateException) {
                say("ends, because Streams is in disorder");
                System.out.flush();
                Runtime.getRuntime().halt(70);
            }
        }
        return StreamThreadExceptionResponse.REPLACE_THREAD;
    }

    /** Of a processor that was asked to fail. */
    private static final class AskedToFail extends RuntimeException {
        private static final long serialVersionUID = 1;

        AskedToFail() {
            super("the processor was asked to fail");
        }
    }

    static Properties settings(Arguments arguments) {
        Properties settings = new Properties();
        settings.putAll(Map.of(
                "application.id", Command.APPLICATION,
                "bootstrap.servers", arguments.text("servers"),
                "state.dir", arguments.text("dir"),
                "application.server", arguments.text("host", "127.0.0.1") + ":" + arguments.number("port", 8081),
                "processing.guarantee", "exactly_once_v2",
                "enable.transactional.statestores", "true",
                "commit.interval.ms", "100",
                "num.standby.replicas", arguments.text("standbys", "1"),
                "replication.factor", "3",
                "num.stream.threads", "1"));
        settings.putAll(Map.of(
                "default.key.serde", Serdes.StringSerde.class,
                "default.value.serde", Serdes.StringSerde.class,
                "statestore.cache.max.bytes", "0",
                "topic.min.insync.replicas", "2",
                "poll.ms", "10",
                // A query never sees what a transaction has written that may still be taken back.
                "default.interactive.query.isolation.level", "read_committed",
                EverleafStores.STORE_MEMORY_CONFIG, String.valueOf(8 << 20)));
        // A fault shall show within seconds: the defaults are those of a network that spans towns.
        settings.putAll(Map.of(
                "consumer.session.timeout.ms", "6000",
                "consumer.heartbeat.interval.ms", "1500",
                "consumer.fetch.max.wait.ms", "20",
                "producer.transaction.timeout.ms", "6000",
                "producer.linger.ms", "0",
                "request.timeout.ms", "6000",
                "producer.delivery.timeout.ms", "60000",
                "reconnect.backoff.max.ms", "500",
                "socket.connection.setup.timeout.ms", "2000"));
        return settings;
    }

    /** The store that the arguments name, with the defect that they name. */
    static KeyValueBytesStoreSupplier store(Arguments arguments) {
        KeyValueBytesStoreSupplier store =
                switch (arguments.text("store", "everleaf")) {
                    case "everleaf" -> EverleafStores.persistentKeyValueStore(Command.STORE);
                    case "rocksdb" -> Stores.persistentKeyValueStore(Command.STORE);
                    default -> throw new IllegalArgumentException("store=everleaf or store=rocksdb");
                };
        int mutant = arguments.number("mutant", 0);
        return mutant == 0 ? store : Mutant.supplier(store, mutant);
    }

    private static Topology topology(Arguments arguments) {
        Topology topology = new Topology();
        topology.addSource("source", Command.COMMANDS);
        topology.addProcessor("processor", Work::new, "source");
        topology.addStateStore(
                Stores.keyValueStoreBuilder(store(arguments), Serdes.String(), Serdes.String())
                        .withLoggingEnabled(Map.of("min.insync.replicas", "2")),
                "processor");
        topology.addSink("sink", Command.REPLIES, "processor");
        return topology;
    }

    private static final class Work implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;
        private KeyValueStore<String, String> store;

        @Override
        public void init(ProcessorContext<String, String> context) {
            this.context = context;
            store = context.getStateStore(Command.STORE);
        }

        @Override
        public void process(Record<String, String> record) {
            Command command = Command.parse(record.value());
            String now = store.get(record.key());
            String result;
            switch (command.op()) {
                case PUT -> {
                    store.put(record.key(), command.value());
                    result = "ok";
                }
                case CAS -> {
                    boolean matches = command.expected().equals(now == null ? "" : now);
                    if (matches) {
                        store.put(record.key(), command.value());
                        failIfAsked();
                    }
                    result = matches ? "ok" : "no";
                }
                default -> result = now == null ? "" : now;
            }
            context.forward(record.withKey(command.client()).withValue(new Command.Reply(command.id(), result).toString()));
            COUNTS.answered();
        }

        /** After the write and before the commit: the task ends with a write that nobody has seen. */
        private static void failIfAsked() {
            if (COUNTS.failAfter.get() > 0 && COUNTS.failAfter.decrementAndGet() == 0) {
                throw new AskedToFail();
            }
        }
    }

    private static final class Restores implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition partition, String store, long from, long to) {
            say("restores " + partition + " from " + from + " to " + to);
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long at, long records) {
            COUNTS.restored.addAndGet(records);
        }

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long records) {
            say("restored " + partition + ": " + records + " records");
        }
    }

    private static final class Standbys implements StandbyUpdateListener {
        @Override
        public void onUpdateStart(TopicPartition partition, String store, long from) {
            say("stands by for " + partition + " from " + from);
        }

        @Override
        public void onBatchLoaded(
                TopicPartition partition, String store, TaskId task, long at, long records, long end) {
            COUNTS.standby.addAndGet(records);
        }

        @Override
        public void onUpdateSuspended(
                TopicPartition partition, String store, long at, long end, SuspendReason reason) {
            say("stands by no more for " + partition + " at " + at + " of " + end + ": " + reason);
        }
    }
}
