package io.everleaf.demo;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TopicExistsException;

/** The topics of the cluster, and who leads their partitions. */
final class Topics {
    private static final long PATIENCE_MS = 90_000;

    private Topics() {}

    private static Admin admin(String servers) {
        return Admin.create(Map.of(
                "bootstrap.servers", servers,
                "request.timeout.ms", "2000",
                "default.api.timeout.ms", "5000",
                "reconnect.backoff.max.ms", "200"));
    }

    /** Makes the topics of commands and replies, with three copies each, as soon as there are three brokers. */
    static void make(String servers) throws InterruptedException {
        Map<String, String> settings = Map.of("min.insync.replicas", "2");
        List<NewTopic> topics = List.of(
                new NewTopic(Command.COMMANDS, Command.PARTITIONS, (short) 3).configs(settings),
                new NewTopic(Command.REPLIES, 3, (short) 3).configs(settings));
        long end = System.currentTimeMillis() + PATIENCE_MS;
        try (Admin admin = admin(servers)) {
            for (NewTopic topic : topics) {
                while (!make(admin, topic)) {
                    if (System.currentTimeMillis() > end) {
                        throw new IllegalStateException("no three brokers after " + PATIENCE_MS / 1000 + " s");
                    }
                    Thread.sleep(200);
                }
            }
        }
    }

    /** Says whether the topic is there now. */
    private static boolean make(Admin admin, NewTopic topic) throws InterruptedException {
        try {
            admin.createTopics(List.of(topic)).all().get(6, TimeUnit.SECONDS);
            return true;
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof TopicExistsException) {
                return true;
            }
            if (failure.getCause() instanceof RetriableException
                    || failure.getCause() instanceof InvalidReplicationFactorException) {
                return false;
            }
            throw new IllegalStateException("cannot make the topic " + topic.name(), failure);
        } catch (java.util.concurrent.TimeoutException late) {
            return false;
        }
    }

    /** How many partitions each broker leads, a line each with both numbers; then how many lack a copy that is in step. */
    static String leaders(String servers) throws Exception {
        Map<Integer, Integer> counts = new TreeMap<>();
        int under = 0;
        try (Admin admin = admin(servers)) {
            ListTopicsOptions all = new ListTopicsOptions().listInternal(true);
            Set<String> names = admin.listTopics(all).names().get(6, TimeUnit.SECONDS);
            for (TopicDescription topic :
                    admin.describeTopics(names).allTopicNames().get(6, TimeUnit.SECONDS).values()) {
                for (TopicPartitionInfo partition : topic.partitions()) {
                    if (partition.leader() != null) {
                        counts.merge(partition.leader().id(), 1, Integer::sum);
                    }
                    under += partition.isr().size() < partition.replicas().size() ? 1 : 0;
                }
            }
        }
        StringBuilder lines = new StringBuilder();
        counts.forEach((broker, count) -> lines.append("broker ").append(broker).append(' ').append(count).append('\n'));
        return lines + "under " + under + "\n";
    }
}
