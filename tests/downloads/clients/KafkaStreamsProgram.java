import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Count words with Kafka Streams, exactly once: `KafkaStreamsProgram REPLICAS DIRECTORY ADDRESSES`.
 *
 * Lines are written one by one while they are counted. Each count that is committed is the next one of its word: one that
 * comes twice, or is left out, is a fault. Each tenth of all counts is told on standard error.
 */
public class KafkaStreamsProgram {
    private static final List<String> LINES = List.of("to be or not to be", "that is the question", "to sleep to dream");
    private static final int ROUNDS = 400;
    private static final int WORDS = 14 * ROUNDS;
    private static final long PATIENCE_NANOS = Duration.ofSeconds(150).toNanos();

    private final short replicas;
    private final String directory;
    private final String addresses;

    private KafkaStreamsProgram(String... arguments) {
        replicas = Short.parseShort(arguments[0]);
        directory = arguments[1];
        addresses = arguments[2];
    }

    public static void main(String... arguments) throws Exception {
        new KafkaStreamsProgram(arguments).run();
    }

    private Properties properties(Map<String, Object> more) {
        Properties found = new Properties();
        found.put("bootstrap.servers", addresses);
        found.putAll(more);
        return found;
    }

    private void run() throws Exception {
        try (Admin admin = Admin.create(properties(Map.of()))) {
            NewTopic lines = new NewTopic("lines", 2, replicas);
            NewTopic counts = new NewTopic("counts", 2, replicas);
            admin.createTopics(List.of(lines, counts)).all().get();
            Thread writer = new Thread(this::write);
            try (KafkaStreams streams = new KafkaStreams(topology(), properties(Map.of(
                    "application.id", "word-count",
                    "state.dir", directory,
                    "processing.guarantee", "exactly_once_v2",
                    "commit.interval.ms", 100,
                    "num.stream.threads", 2,
                    "replication.factor", (int) replicas,
                    "statestore.cache.max.bytes", 0,
                    "default.key.serde", Serdes.StringSerde.class.getName(),
                    "default.value.serde", Serdes.StringSerde.class.getName()
                    )))) {
                streams.setUncaughtExceptionHandler(error -> {
                    error.printStackTrace();
                    return StreamThreadExceptionResponse.REPLACE_THREAD;
                });
                streams.start();
                writer.start();
                read();
                writer.join();
            }
            List<String> own = admin.listTopics().names().get().stream().filter(name -> name.startsWith("word-count"))
                .sorted().toList();
            System.out.println("topics of its own: " + own);
        }
    }

    private org.apache.kafka.streams.Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("lines").flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word).count().toStream()
            .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    private void write() {
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties(Map.of()), new StringSerializer(), new StringSerializer())) {
            for (int round = 0; round < ROUNDS; round++) {
                for (String line : LINES) {
                    producer.send(new ProducerRecord<>("lines", String.valueOf(round), line)).get();
                }
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private void read() {
        Map<String, Long> last = new TreeMap<>();
        Map<String, Object> options = new HashMap<>(Map.of(
            "group.id", "reader", "auto.offset.reset", "earliest", "isolation.level", "read_committed"));
        int count = 0;
        int wrong = 0;
        long deadline = System.nanoTime() + PATIENCE_NANOS;
        try (KafkaConsumer<String, Long> consumer =
                new KafkaConsumer<>(properties(options), new StringDeserializer(), new LongDeserializer())) {
            consumer.subscribe(List.of("counts"));
            while (count < WORDS && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(100))) {
                    if (record.value() != last.getOrDefault(record.key(), 0L) + 1) {
                        System.err.println("wrong: " + record);
                        wrong++;
                    }
                    last.put(record.key(), record.value());
                    if (++count % (WORDS / 10) == 0) {
                        System.err.println("counted " + count * 10 / WORDS);
                    }
                }
            }
            // Nothing comes after the last.
            count += consumer.poll(Duration.ofMillis(500)).count();
        }
        last.forEach((word, number) -> System.out.println(word + ": " + number));
        System.out.println("counts: " + count + " of " + WORDS + ", wrong " + wrong);
    }
}
