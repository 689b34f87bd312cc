import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** What a program in Java does with topics, records and groups. Each line that it prints is the same on every broker. */
public class KafkaProgram {
    private static final String TOPIC = "in-java-" + AppInfoParser.getVersion();
    private static final TopicPartition FIRST = new TopicPartition(TOPIC, 0);
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final long BEGAN = 1_700_000_000_000L;

    private final String address;

    private KafkaProgram(String address) {
        this.address = address;
    }

    public static void main(String[] arguments) throws Exception {
        say("client", AppInfoParser.getVersion());
        KafkaProgram program = new KafkaProgram(arguments[0]);
        try (Admin admin = Admin.create(program.properties(Map.of()))) {
            program.topics(admin);
            for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
                program.produce(codec);
            }
            program.positions();
            program.group();
            program.cooperative();
            program.offsets(admin);
            program.settings(admin);
            program.end(admin);
        }
    }

    private Properties properties(Map<String, Object> more) {
        Properties found = new Properties();
        found.put("bootstrap.servers", address);
        found.put("key.serializer", ByteArraySerializer.class.getName());
        found.put("value.serializer", ByteArraySerializer.class.getName());
        found.put("key.deserializer", ByteArrayDeserializer.class.getName());
        found.put("value.deserializer", ByteArrayDeserializer.class.getName());
        found.putAll(more);
        return found;
    }

    private static void say(String name, Object what) {
        System.out.println(name + ": " + what);
    }

    private void topics(Admin admin) throws Exception {
        NewTopic topic = new NewTopic(TOPIC, 2, (short) 1).configs(Map.of("retention.ms", "-1"));
        say("configured", admin.createTopics(List.of(topic)).config(TOPIC).get().get("retention.ms").value());
        try {
            admin.createTopics(List.of(topic)).all().get();
        } catch (ExecutionException error) {
            say("again", error.getCause().getClass().getSimpleName());
        }
        try {
            admin.describeTopics(List.of("nothing")).allTopicNames().get();
        } catch (ExecutionException error) {
            say("missing", error.getCause().getClass().getSimpleName());
        }
        TopicDescription described = admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC);
        say("partitions", described.partitions().size());
        say("nodes", admin.describeCluster().nodes().get().size());
    }

    private void produce(String codec) throws Exception {
        Map<String, Object> options = Map.of("compression.type", codec, "linger.ms", 20, "acks", "all");
        List<Long> offsets = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties(options))) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < 20; number++) {
                byte[] value = "value ".repeat(20).getBytes();
                byte[] key = ("key " + number).getBytes();
                ProducerRecord<byte[], byte[]> record =
                    new ProducerRecord<>(TOPIC, 0, BEGAN + number * 1000L, key, value);
                record.headers().add("codec", codec.getBytes()).add("none", null);
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> each : sent) {
                offsets.add(each.get().offset());
            }
        }
        say(codec, offsets.get(0) + " to " + offsets.get(offsets.size() - 1));
    }

    private List<ConsumerRecord<byte[], byte[]>> taken(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (found.size() < count && System.nanoTime() < deadline) {
            consumer.poll(Duration.ofMillis(200)).forEach(found::add);
        }
        return found;
    }

    private void positions() {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties(Map.of()))) {
            consumer.assign(List.of(FIRST));
            consumer.seekToBeginning(List.of(FIRST));
            List<ConsumerRecord<byte[], byte[]>> records = taken(consumer, 100);
            ConsumerRecord<byte[], byte[]> last = records.get(99);
            say("read", records.size() + " records, the last " + last.offset() + " " + new String(last.key()) + " "
                + last.headers() + " " + last.timestamp() + " " + last.timestampType());
            consumer.seek(FIRST, 42);
            say("from the middle", taken(consumer, 58).get(0).offset());
            say("begins", consumer.beginningOffsets(List.of(FIRST)));
            say("ends", consumer.endOffsets(List.of(FIRST)));
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(FIRST, BEGAN + 3500)).get(FIRST);
            say("at a time", found.offset() + " " + found.timestamp());
            say("after all", consumer.offsetsForTimes(Map.of(FIRST, Long.MAX_VALUE)).get(FIRST));
        }
    }

    private void group() {
        Map<String, Object> options = Map.of(
            "group.id", "java", "auto.offset.reset", "earliest", "enable.auto.commit", false, "max.poll.records", 10);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties(options))) {
            consumer.subscribe(List.of(TOPIC));
            say("in the group", taken(consumer, 30).size() >= 30);
            consumer.commitSync(Map.of(FIRST, new OffsetAndMetadata(30, "thirty")));
            say("committed", consumer.committed(java.util.Set.of(FIRST)).get(FIRST).metadata());
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties(options))) {
            consumer.subscribe(List.of(TOPIC));
            say("goes on", taken(consumer, 1).get(0).offset());
        }
    }

    /** Two members, of which the second comes later: the first one gives up one of two partitions and keeps the other. */
    private void cooperative() {
        Map<String, Object> options = Map.of(
            "group.id", "cooperative", "auto.offset.reset", "earliest", "heartbeat.interval.ms", 100,
            "session.timeout.ms", 10000,
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        List<TopicPartition> given = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> first = new KafkaConsumer<>(properties(options));
             KafkaConsumer<byte[], byte[]> second = new KafkaConsumer<>(properties(options))) {
            first.subscribe(List.of(TOPIC), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    given.addAll(partitions);
                }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                }
            });
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (first.assignment().size() < 2 && System.nanoTime() < deadline) {
                first.poll(Duration.ofMillis(50));
            }
            second.subscribe(List.of(TOPIC));
            while (second.assignment().size() < 1 && System.nanoTime() < deadline) {
                first.poll(Duration.ofMillis(20));
                second.poll(Duration.ofMillis(20));
            }
            say("shared", first.assignment().size() + " and " + second.assignment().size() + ", given " + given.size());
        }
    }

    private void offsets(Admin admin) throws Exception {
        say("groups", admin.listConsumerGroups().all().get().stream().map(each -> each.groupId()).sorted().toList());
        Map<TopicPartition, OffsetAndMetadata> committed =
            admin.listConsumerGroupOffsets("java").partitionsToOffsetAndMetadata().get();
        say("of the group", committed.get(FIRST).offset());
        say("state", admin.describeConsumerGroups(List.of("java")).all().get().get("java").state());
        admin.alterConsumerGroupOffsets("java", Map.of(FIRST, new OffsetAndMetadata(7))).all().get();
        say("altered", admin.listConsumerGroupOffsets("java").partitionsToOffsetAndMetadata().get().get(FIRST).offset());
        admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(50))).all().get();
        say("earliest", admin.listOffsets(Map.of(FIRST, OffsetSpec.earliest())).partitionResult(FIRST).get().offset());
        say("latest", admin.listOffsets(Map.of(FIRST, OffsetSpec.latest())).partitionResult(FIRST).get().offset());
        say("greatest time",
            admin.listOffsets(Map.of(FIRST, OffsetSpec.maxTimestamp())).partitionResult(FIRST).get().timestamp());
        admin.deleteConsumerGroups(List.of("java", "cooperative")).all().get();
        say("groups left", admin.listConsumerGroups().all().get().size());
    }

    private void settings(Admin admin) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry("segment.bytes", "1048576"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(topic, List.of(set))).all().get();
        Map<String, String> own = new TreeMap<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(topic)).all().get().get(topic).entries()) {
            if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG) {
                own.put(entry.name(), entry.value());
            }
        }
        say("settings", own);
        AlterConfigOp wrong = new AlterConfigOp(new ConfigEntry("segment.bytes", "many"), AlterConfigOp.OpType.SET);
        try {
            admin.incrementalAlterConfigs(Map.of(topic, List.of(wrong))).all().get();
        } catch (ExecutionException error) {
            say("wrong", error.getCause().getClass().getSimpleName());
        }
    }

    private void end(Admin admin) throws Exception {
        admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(4))).all().get();
        say("grown", admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC).partitions().size());
        say("directories", admin.describeLogDirs(Arrays.asList(
            admin.describeCluster().controller().get().id())).allDescriptions().get().size());
        admin.deleteTopics(List.of(TOPIC)).all().get();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (admin.listTopics().names().get().contains(TOPIC) && System.nanoTime() < deadline) {
            Thread.sleep(20);
        }
        say("topics left", admin.listTopics().names().get());
    }
}
