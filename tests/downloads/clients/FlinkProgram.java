import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Flink reads a topic and writes each record exactly once to another one, though its job fails in the middle and goes on
 * from its last checkpoint. Each line that it prints is the same on every broker.
 */
public final class FlinkProgram {
    private static final String FROM = "flink-from";
    private static final String TO = "flink-to";
    private static final int COUNT = 1500;

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            admin.createTopics(List.of(new NewTopic(FROM, 2, (short) 1), new NewTopic(TO, 2, (short) 1))).all().get();
            produce(address);
            run(address);
            say("found", found(address));
            say("committed", admin.listConsumerGroupOffsets("flink").partitionsToOffsetAndMetadata().get().size());
            say("states", admin.listTransactions().all().get().stream()
                    .filter(each -> each.transactionalId().startsWith("flink-"))
                    .map(each -> each.state().toString())
                    .filter(each -> !Set.of("CompleteCommit", "CompleteAbort", "Empty").contains(each)).count());
            admin.deleteTopics(List.of(FROM, TO)).all().get();
        }
        System.exit(0);
    }

    private static void say(String name, Object what) {
        System.out.println(name + ": " + what);
    }

    private static Map<String, Object> producer(String address) {
        return Map.of("bootstrap.servers", address, "linger.ms", 5);
    }

    /** Half of the records are sent in a transaction, and as many in one that is aborted. */
    private static void produce(String address) {
        Properties options = new Properties();
        options.putAll(producer(address));
        options.put("transactional.id", "before-flink");
        try (var sender = new KafkaProducer<>(options, new StringSerializer(), new StringSerializer())) {
            sender.initTransactions();
            for (boolean commits : new boolean[] {false, true}) {
                sender.beginTransaction();
                for (int number = 0; number < COUNT / 2; number++) {
                    sender.send(new ProducerRecord<>(FROM, "" + number, commits ? "" + number : "aborted"));
                }
                if (commits) {
                    sender.commitTransaction();
                } else {
                    sender.abortTransaction();
                }
            }
        }
        try (var sender = new KafkaProducer<>(producer(address), new StringSerializer(), new StringSerializer())) {
            for (int number = COUNT / 2; number < COUNT; number++) {
                sender.send(new ProducerRecord<>(FROM, "" + number, "" + number));
            }
        }
    }

    private static void run(String address) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", "3");
        settings.setString("restart-strategy.fixed-delay.delay", "10 ms");
        settings.setString("taskmanager.memory.network.max", "32mb");
        settings.setString("taskmanager.memory.network.min", "32mb");
        settings.setString("taskmanager.memory.managed.size", "32mb");
        var environment = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        environment.enableCheckpointing(150);
        var source = KafkaSource.<String>builder()
                .setBootstrapServers(address)
                .setTopics(FROM)
                .setGroupId("flink")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setBounded(OffsetsInitializer.latest())
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .setProperty("isolation.level", "read_committed")
                .build();
        var sink = KafkaSink.<String>builder()
                .setBootstrapServers(address)
                .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                        .setTopic(TO)
                        .setKeySerializationSchema(new SimpleStringSchema())
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix("flink-" + ProcessHandle.current().pid())
                .setProperty("transaction.timeout.ms", "60000")
                .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "from").map(new FailsOnce()).sinkTo(sink);
        environment.execute("copies");
        say("failures", FailsOnce.failures);
    }

    /** Records in both partitions, read committed: how many, and how many of them more than once. */
    private static String found(String address) {
        Map<String, Object> options =
                Map.of("bootstrap.servers", address, "isolation.level", "read_committed", "max.poll.records", COUNT);
        Map<String, Integer> counts = new TreeMap<>();
        try (var reader = new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer())) {
            var partitions = IntStream.range(0, 2).mapToObj(each -> new TopicPartition(TO, each)).collect(Collectors.toList());
            reader.assign(partitions);
            reader.seekToBeginning(partitions);
            var ends = reader.endOffsets(partitions);
            while (partitions.stream().anyMatch(each -> reader.position(each) < ends.get(each))) {
                reader.poll(Duration.ofMillis(200)).forEach(each -> counts.merge(each.value(), 1, Integer::sum));
            }
        }
        boolean isComplete = IntStream.range(0, COUNT).allMatch(each -> counts.containsKey("" + each));
        long repeated = counts.values().stream().filter(each -> each > 1).count();
        return counts.size() + " of " + COUNT + ", complete " + isComplete + ", repeated " + repeated;
    }

    /** Each record takes a millisecond, so that checkpoints are taken; one of them ends the job for once. */
    public static final class FailsOnce implements MapFunction<String, String> {
        static volatile int failures = 0;

        @Override
        public String map(String value) throws Exception {
            Thread.sleep(1);
            if (failures == 0 && value.equals("" + COUNT * 4 / 5)) {
                failures = 1;
                throw new IllegalStateException("this once");
            }
            return value;
        }
    }
}
