package io.everleaf.demo;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Many clients in one program. Each sends a command, waits for its answer and sends the next one, until the file {@code stop}
 * is there. Then all keys are read once more. Each operation is a line of the history: the client, the key, its partition,
 * the operation, the value expected, the value written, the answer, and the microseconds since 1970 of its call and its end. An
 * answer {@code ?} never came: the operation may have happened or not, and the client goes on under another number.
 */
public final class Client {
    private static final long PATIENCE_S = 60;

    private final KafkaProducer<String, String> producer;
    private final KafkaConsumer<String, String> consumer;
    private final PrintWriter history;
    private final Path stop;
    private final int keys;
    private final Map<String, CompletableFuture<String>> waiting = new ConcurrentHashMap<>();
    private final AtomicInteger clients = new AtomicInteger();
    private final AtomicLong answers = new AtomicLong();
    private final AtomicLong unknown = new AtomicLong();
    /** The value of each key that was seen last: a compare-and-set that expects it may well succeed. */
    private final Map<String, String> seen = new ConcurrentHashMap<>();

    private final long clock = System.currentTimeMillis() * 1000 - System.nanoTime() / 1000;
    private volatile boolean isOver;

    private Client(Arguments arguments) throws IOException {
        String servers = arguments.text("servers");
        producer = new KafkaProducer<>(
                Map.of(
                        "bootstrap.servers", servers,
                        "acks", "all",
                        "enable.idempotence", "true",
                        "linger.ms", "0",
                        "request.timeout.ms", "5000",
                        "reconnect.backoff.max.ms", "500",
                        "delivery.timeout.ms", String.valueOf(PATIENCE_S * 1000)),
                new StringSerializer(),
                new StringSerializer());
        consumer = new KafkaConsumer<>(
                Map.of(
                        "bootstrap.servers", servers,
                        "isolation.level", "read_committed",
                        "request.timeout.ms", "5000",
                        "reconnect.backoff.max.ms", "500",
                        "fetch.max.wait.ms", "20"),
                new StringDeserializer(),
                new StringDeserializer());
        history = new PrintWriter(Files.newBufferedWriter(Path.of(arguments.text("history"))));
        stop = Path.of(arguments.text("stop"));
        keys = arguments.number("keys", 2000);
    }

    /** Runs until the file is there that says so, and until all keys were read. */
    public static void main(String[] given) throws Exception {
        Arguments arguments = new Arguments(given);
        Topics.make(arguments.text("servers"));
        Client client = new Client(arguments);
        client.run(arguments.number("clients", 64));
        System.exit(0);
    }

    private void run(int count) throws Exception {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            partitions.add(new TopicPartition(Command.REPLIES, i));
        }
        consumer.assign(partitions);
        consumer.seekToEnd(partitions);
        partitions.forEach(consumer::position);
        Thread replies = new Thread(this::receive);
        replies.start();
        inParallel(count, this::load);
        System.out.println("load ended: " + answers + " answers, " + unknown + " unknown");
        AtomicInteger next = new AtomicInteger();
        inParallel(count, number -> readAll(number, next));
        isOver = true;
        replies.join();
        history.close();
        System.out.println("over: " + answers + " answers, " + unknown + " unknown");
    }

    private interface Body {
        void run(int number);
    }

    private void inParallel(int count, Body body) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int number = clients.getAndIncrement();
            threads.add(new Thread(() -> body.run(number)));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void receive() {
        while (!isOver) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                Command.Reply reply = Command.Reply.parse(record.value());
                CompletableFuture<String> future = waiting.remove(reply.id());
                if (future != null) {
                    future.complete(reply.result());
                }
            }
        }
        consumer.close();
    }

    private long now() {
        return clock + System.nanoTime() / 1000;
    }

    private void load(int number) {
        Random random = new Random(number);
        int client = number;
        // The file is looked for after an answer, so an operation is never left alone.
        for (long n = 0; !Files.exists(stop); n++) {
            String key = "key-" + random.nextInt(keys);
            int dice = random.nextInt(10);
            String value = client + "." + n;
            Command.Op op = dice < 4 ? Command.Op.GET : dice < 6 ? Command.Op.PUT : Command.Op.CAS;
            String expected = op == Command.Op.CAS ? seen.getOrDefault(key, "") : "";
            if (!operate(client, n, key, op, expected, op == Command.Op.GET ? "" : value)) {
                client = clients.getAndIncrement();
            }
        }
    }

    private void readAll(int number, AtomicInteger next) {
        int client = number;
        for (int at = next.getAndIncrement(); at < keys; at = next.getAndIncrement()) {
            if (!operate(client, at, "key-" + at, Command.Op.GET, "", "")) {
                client = clients.getAndIncrement();
            }
        }
    }

    /** Says whether an answer came. */
    private boolean operate(int client, long n, String key, Command.Op op, String expected, String value) {
        String id = client + "-" + n;
        CompletableFuture<String> future = new CompletableFuture<>();
        waiting.put(id, future);
        String result = "?";
        int partition = -1;
        long call = now();
        try {
            Command command = new Command(op, "c" + client, id, expected, value);
            RecordMetadata sent = producer.send(new ProducerRecord<>(Command.COMMANDS, key, command.toString()))
                    .get(PATIENCE_S + 5, TimeUnit.SECONDS);
            partition = sent.partition();
            result = future.get(PATIENCE_S, TimeUnit.SECONDS);
        } catch (Exception failure) {
            waiting.remove(id);
            System.out.println("no answer to " + op + " of " + key + ": " + failure);
        }
        long end = now();
        note(key, op, value, result);
        synchronized (history) {
            history.println(String.join(
                    "\t",
                    List.of(
                            String.valueOf(client), key, String.valueOf(partition), op.name(), expected, value, result,
                            String.valueOf(call), String.valueOf(end))));
        }
        return !result.equals("?");
    }

    private void note(String key, Command.Op op, String value, String result) {
        if (result.equals("?")) {
            unknown.incrementAndGet();
            return;
        }
        if (op == Command.Op.GET) {
            seen.put(key, result);
        } else if (result.equals("ok")) {
            seen.put(key, value);
        } else {
            seen.remove(key);
        }
        long count = answers.incrementAndGet();
        if (count == 1 || count % 5000 == 0) {
            System.out.println("answers: " + count);
        }
    }
}
