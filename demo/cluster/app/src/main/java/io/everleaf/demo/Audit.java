package io.everleaf.demo;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.MockProcessorContext;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Opens the stores that applications have left, each alone, and compares all their bytes with what its changelog says up to the
 * offset that the store has committed. Nobody else may have the folders open.
 *
 * <p>It also writes the committed records of all changelogs, one line each: partition, offset, key, value.
 */
public final class Audit {
    private final Map<Integer, List<ConsumerRecord<byte[], byte[]>>> changelog = new TreeMap<>();
    private final Map<Integer, Long> ends = new TreeMap<>();
    private final Arguments arguments;
    private int bad;

    private Audit(Arguments arguments) {
        this.arguments = arguments;
    }

    /** {@code folders=A:B:C} are folders of state; ends with 1 if a store is not what it has to be. */
    public static void main(String[] given) throws Exception {
        Arguments arguments = new Arguments(given);
        Audit audit = new Audit(arguments);
        audit.read();
        audit.write(Path.of(arguments.text("changelog")));
        int stores = 0;
        for (String folder : arguments.text("folders").split(":")) {
            stores += audit.folder(Path.of(folder));
        }
        System.out.println("stores " + stores + " bad " + audit.bad);
        System.exit(audit.bad == 0 && stores > 0 ? 0 : 1);
    }

    /** Reads all changelogs as a store that is restored does: committed records only. */
    private void read() {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments.text("servers"), "isolation.level", "read_committed",
                "auto.offset.reset", "earliest");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (int i = 0; i < Command.PARTITIONS; i++) {
                partitions.add(new TopicPartition(Command.CHANGELOG, i));
                changelog.put(i, new ArrayList<>());
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> last = consumer.endOffsets(partitions);
            last.forEach((partition, end) -> ends.put(partition.partition(), end));
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < last.get(partition))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    changelog.get(record.partition()).add(record);
                }
            }
        }
    }

    private void write(Path file) throws IOException {
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(file))) {
            changelog.forEach((partition, records) -> records.forEach(record -> out.println(partition + "\t"
                    + record.offset() + "\t" + new String(record.key()) + "\t"
                    + (record.value() == null ? "" : new String(record.value())))));
        }
    }

    private int folder(Path folder) throws IOException {
        List<Path> tasks;
        try (Stream<Path> entries = Files.list(folder.resolve(Command.APPLICATION))) {
            tasks = entries.filter(path -> path.getFileName().toString().matches("\\d+_\\d+"))
                    .sorted()
                    .toList();
        }
        int stores = 0;
        for (Path task : tasks) {
            // A task that came and went before it had a store.
            if (Files.isDirectory(task.resolve("rocksdb").resolve(Command.STORE))
                    || Files.isDirectory(task.resolve("everleaf").resolve(Command.STORE))) {
                store(folder, task);
                stores++;
            }
        }
        return stores;
    }

    private void store(Path folder, Path path) {
        TaskId task = TaskId.parse(path.getFileName().toString());
        MockProcessorContext<Void, Void> context = new MockProcessorContext<>(
                App.settings(new Arguments(new String[] {"servers=none:1", "dir=" + folder})), task, path.toFile());
        // Without the defect, if there is one: what is on the disk counts.
        String kind = arguments.text("store", "everleaf");
        KeyValueStore<Bytes, byte[]> store = App.store(new Arguments(new String[] {"store=" + kind})).get();
        String name = folder.getFileName() + " " + task;
        String verdict;
        store.init(context.getStateStoreContext(), store);
        try {
            Long offset = store.committedOffset(new TopicPartition(Command.CHANGELOG, task.partition()));
            verdict = compare(store, task.partition(), offset == null ? -1 : offset);
        } finally {
            store.close();
        }
        System.out.println(name + ": " + verdict);
    }

    private String compare(KeyValueStore<Bytes, byte[]> store, int partition, long offset) {
        TreeMap<Bytes, byte[]> expected = new TreeMap<>();
        for (ConsumerRecord<byte[], byte[]> record : changelog.getOrDefault(partition, Collections.emptyList())) {
            if (record.offset() > offset) {
                break;
            }
            if (record.value() == null) {
                expected.remove(Bytes.wrap(record.key()));
            } else {
                expected.put(Bytes.wrap(record.key()), record.value());
            }
        }
        int pairs = 0;
        int wrong = 0;
        String first = "";
        try (KeyValueIterator<Bytes, byte[]> iterator = store.all()) {
            while (iterator.hasNext()) {
                KeyValue<Bytes, byte[]> pair = iterator.next();
                byte[] right = expected.remove(pair.key);
                pairs++;
                if (!Arrays.equals(right, pair.value)) {
                    wrong++;
                    first = first.isEmpty() ? ", first " + pair.key + ": " + text(pair.value) + " for " + text(right) : first;
                }
            }
        }
        String at = pairs + " pairs at offset " + offset + " of " + (ends.getOrDefault(partition, 0L) - 1);
        if (wrong == 0 && expected.isEmpty()) {
            return at + ", equal";
        }
        bad++;
        return at + ", DIFFERENT: " + wrong + " wrong, " + expected.size() + " missing" + first;
    }

    private static String text(byte[] value) {
        return value == null ? "nothing" : new String(value);
    }
}
