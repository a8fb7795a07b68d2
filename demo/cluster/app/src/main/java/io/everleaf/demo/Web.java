package io.everleaf.demo;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.query.FailureReason;
import org.apache.kafka.streams.query.KeyQuery;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.RangeQuery;
import org.apache.kafka.streams.query.StateQueryRequest;
import org.apache.kafka.streams.query.StateQueryResult;
import org.apache.kafka.streams.state.HostInfo;
import org.apache.kafka.streams.state.KeyValueIterator;

/**
 * What an application answers by HTTP.
 *
 * <ul>
 *   <li>{@code GET /get/KEY}: the value, from the application that has the key
 *   <li>{@code PUT /put/KEY} with the value as the body, or {@code GET /put/KEY?value=V}: as soon as a commit has it
 *   <li>{@code GET /range?from=A&to=B&limit=N}: pairs of all applications in order
 *   <li>{@code GET /status}: tasks, and what was restored
 *   <li>{@code GET /leaders}: how many partitions each broker leads
 *   <li>{@code GET /fail?after=N}: the processor throws after its Nth compare-and-set from now that writes
 * </ul>
 */
final class Web {
    private static final int TIMEOUT_MS = 10_000;

    private final KafkaStreams streams;
    private final String servers;
    private final HostInfo self;
    private final HttpServer server;
    private final ExecutorService threads = Executors.newFixedThreadPool(8);
    private KafkaProducer<String, String> producer;

    Web(KafkaStreams streams, Arguments arguments) throws IOException {
        this.streams = streams;
        servers = arguments.text("servers");
        self = new HostInfo(arguments.text("host", "127.0.0.1"), arguments.number("port", 8081));
        server = HttpServer.create(new InetSocketAddress(self.host(), self.port()), 0);
        server.setExecutor(threads);
        answer("/get/", this::get);
        answer("/put/", this::put);
        answer("/range", this::range);
        answer("/status", (path, asked, body) -> status());
        answer("/leaders", (path, asked, body) -> Topics.leaders(servers));
        answer("/fail", (path, asked, body) -> {
            App.COUNTS.failAfter.set(Integer.parseInt(asked.getOrDefault("after", "1")));
            return "ok\n";
        });
    }

    void start() {
        server.start();
    }

    void close() {
        server.stop(0);
        threads.shutdownNow();
    }

    /** The rest of the path, what stands behind the question mark, and the body. */
    private interface Answer {
        String to(String path, Map<String, String> asked, String body) throws Exception;
    }

    /** A failure that the one who asks can wait for the end of. */
    private static final class Unavailable extends Exception {
        private static final long serialVersionUID = 1;

        Unavailable(String text) {
            super(text);
        }
    }

    private void answer(String path, Answer answer) {
        server.createContext(path, exchange -> {
            int code = 200;
            String text;
            try (InputStream body = exchange.getRequestBody()) {
                String rest = exchange.getRequestURI().getPath().substring(path.length());
                text = answer.to(rest, asked(exchange), new String(body.readAllBytes(), StandardCharsets.UTF_8));
                if (text == null) {
                    code = 404;
                    text = "no such key\n";
                }
            } catch (Unavailable failure) {
                code = 503;
                text = failure.getMessage() + "\n";
            } catch (Exception failure) {
                code = 500;
                text = failure + "\n";
            }
            byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(code, bytes.length == 0 ? -1 : bytes.length);
            exchange.getResponseBody().write(bytes);
            exchange.close();
        });
    }

    private static Map<String, String> asked(HttpExchange exchange) {
        Map<String, String> asked = new HashMap<>();
        String query = exchange.getRequestURI().getRawQuery();
        for (String part : query == null ? new String[0] : query.split("&")) {
            int at = part.indexOf('=');
            if (at > 0) {
                asked.put(part.substring(0, at), URLDecoder.decode(part.substring(at + 1), StandardCharsets.UTF_8));
            }
        }
        return asked;
    }

    /** {@code at=PARTITION:OFFSET} asks for a state that has this command; whoever asks waits for it. */
    private String get(String key, Map<String, String> asked, String body) throws Exception {
        long end = System.currentTimeMillis() + TIMEOUT_MS;
        while (true) {
            try {
                return getNow(key, asked);
            } catch (Unavailable failure) {
                if (System.currentTimeMillis() > end || "no".equals(asked.get("wait"))) {
                    throw failure;
                }
                Thread.sleep(20);
            }
        }
    }

    private String getNow(String key, Map<String, String> asked) throws Exception {
        KeyQueryMetadata owner = owner(key);
        if (!owner.activeHost().equals(self)) {
            if (asked.containsKey("local")) {
                throw new Unavailable("the key has moved to " + owner.activeHost());
            }
            String at = asked.containsKey("at") ? "&at=" + asked.get("at") : "";
            return fetch(owner.activeHost(), "/get/" + encode(key) + "?wait=no&local=1" + at);
        }
        StateQueryRequest<String> request = StateQueryRequest.inStore(Command.STORE)
                .withQuery(KeyQuery.<String, String>withKey(key))
                .withPartitions(Set.of(owner.partition()));
        if (asked.containsKey("at")) {
            String[] at = asked.get("at").split(":");
            request = request.withPositionBound(PositionBound.at(Position.emptyPosition()
                    .withComponent(Command.COMMANDS, Integer.parseInt(at[0]), Long.parseLong(at[1]))));
        } else {
            // Not in the other case: Streams looks at no position then.
            request = request.requireActive();
        }
        QueryResult<String> result = query(request).getPartitionResults().get(owner.partition());
        if (result == null) {
            throw new Unavailable("partition " + owner.partition() + " is not here now");
        }
        if (result.isSuccess()) {
            return result.getResult();
        }
        if (result.getFailureReason() == FailureReason.STORE_EXCEPTION
                || result.getFailureReason() == FailureReason.UNKNOWN_QUERY_TYPE) {
            throw new IllegalStateException(result.getFailureMessage());
        }
        throw new Unavailable(result.getFailureMessage());
    }

    private <R> StateQueryResult<R> query(StateQueryRequest<R> request) throws Unavailable {
        try {
            return streams.query(request);
        } catch (InvalidStateStoreException failure) {
            throw new Unavailable(failure.getMessage());
        }
    }

    private KeyQueryMetadata owner(String key) throws Unavailable {
        KeyQueryMetadata owner = streams.queryMetadataForKey(Command.STORE, key, new StringSerializer());
        if (owner == null || owner.equals(KeyQueryMetadata.NOT_AVAILABLE) || owner.partition() < 0) {
            throw new Unavailable("the application does not know yet which one has the key");
        }
        return owner;
    }

    /** The record is in the log when the brokers say so, and in the state when a commit there has it. */
    private String put(String key, Map<String, String> asked, String body) throws Exception {
        String value = asked.getOrDefault("value", body);
        if (value.isEmpty() || value.contains("\t") || key.contains("\t")) {
            return "a value is one line and not empty; put it into the body, or behind ?value=\n";
        }
        Command command = new Command(Command.Op.PUT, "web", "web", "", value);
        RecordMetadata done = producer()
                .send(new ProducerRecord<>(Command.COMMANDS, key, command.toString()))
                .get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        get(key, Map.of("at", done.partition() + ":" + done.offset()), "");
        return "ok, command " + done.offset() + " of partition " + done.partition() + "\n";
    }

    private synchronized KafkaProducer<String, String> producer() {
        if (producer == null) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", servers);
            settings.put("acks", "all");
            producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        }
        return producer;
    }

    private String range(String path, Map<String, String> asked, String body) throws Exception {
        int limit = Integer.parseInt(asked.getOrDefault("limit", "100"));
        TreeMap<String, String> pairs = new TreeMap<>();
        if (asked.containsKey("local")) {
            addRange(asked, limit, pairs);
        } else {
            String rest = "/range?local=1&limit=" + limit + bound(asked, "from") + bound(asked, "to");
            for (var other : streams.streamsMetadataForStore(Command.STORE)) {
                if (other.hostInfo().equals(self)) {
                    addRange(asked, limit, pairs);
                } else {
                    fetch(other.hostInfo(), rest).lines().forEach(line -> {
                        int at = line.indexOf('\t');
                        pairs.put(line.substring(0, at), line.substring(at + 1));
                    });
                }
            }
        }
        StringBuilder lines = new StringBuilder();
        pairs.entrySet().stream()
                .limit(limit)
                .forEach(pair -> lines.append(pair.getKey()).append('\t').append(pair.getValue()).append('\n'));
        return lines.toString();
    }

    private static String bound(Map<String, String> asked, String name) {
        return asked.containsKey(name) ? "&" + name + "=" + encode(asked.get(name)) : "";
    }

    private void addRange(Map<String, String> asked, int limit, Map<String, String> pairs) throws Unavailable {
        RangeQuery<String, String> range = RangeQuery.withRange(asked.get("from"), asked.get("to"));
        StateQueryRequest<KeyValueIterator<String, String>> request =
                StateQueryRequest.inStore(Command.STORE).withQuery(range).requireActive();
        Collection<QueryResult<KeyValueIterator<String, String>>> results =
                query(request).getPartitionResults().values();
        for (QueryResult<KeyValueIterator<String, String>> result : results) {
            if (!result.isSuccess()) {
                if (result.getFailureReason() == FailureReason.NOT_ACTIVE) {
                    continue;
                }
                throw new Unavailable(result.getFailureMessage());
            }
            try (KeyValueIterator<String, String> iterator = result.getResult()) {
                for (int i = 0; i < limit && iterator.hasNext(); i++) {
                    KeyValue<String, String> pair = iterator.next();
                    pairs.put(pair.key, pair.value);
                }
            }
        }
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    /** Asks another application; null if it does not have the key. */
    private static String fetch(HostInfo host, String path) throws Unavailable {
        try {
            URI address = URI.create("http://" + host.host() + ":" + host.port() + path);
            HttpURLConnection connection = (HttpURLConnection) address.toURL().openConnection();
            connection.setConnectTimeout(2_000);
            connection.setReadTimeout(TIMEOUT_MS);
            int code = connection.getResponseCode();
            if (code == 404) {
                return null;
            }
            if (code != 200) {
                throw new Unavailable(host + " says " + code);
            }
            try (InputStream body = connection.getInputStream()) {
                return new String(body.readAllBytes(), StandardCharsets.UTF_8);
            }
        } catch (IOException failure) {
            throw new Unavailable(host + ": " + failure.getMessage());
        }
    }

    private String status() {
        Set<String> active = new TreeSet<>();
        Set<String> standby = new TreeSet<>();
        for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
            thread.activeTasks().forEach(task -> active.add(task.taskId().toString()));
            thread.standbyTasks().forEach(task -> standby.add(task.taskId().toString()));
        }
        return "state " + streams.state() + "\nactive " + String.join(" ", active) + "\nstandby "
                + String.join(" ", standby) + "\nanswers " + App.COUNTS.answers + "\nfirst-answer-ms "
                + App.COUNTS.firstAnswer + "\nrestored-records " + App.COUNTS.restored + "\nstandby-records "
                + App.COUNTS.standby + "\nrestored-bytes " + restoredBytes() + "\nfailures " + App.COUNTS.failures
                + "\n";
    }

    /** What the consumer of changelogs has read, for tasks and standbys together. */
    private long restoredBytes() {
        return streams.metrics().entrySet().stream()
                .filter(metric -> metric.getKey().name().equals("bytes-consumed-total")
                        && metric.getKey().tags().getOrDefault("client-id", "").endsWith("restore-consumer")
                        && !metric.getKey().tags().containsKey("topic"))
                .mapToLong(metric -> ((Number) metric.getValue().metricValue()).longValue())
                .sum();
    }
}
