import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/**
 * PulsarProgram URL TOPIC produce|consume FIRST COUNT: sends so many numbers, from FIRST on, or receives so many, which
 * have to be those; a durable subscription keeps its place. Prints "done".
 */
public class PulsarProgram {
    public static void main(String[] words) throws Exception {
        int first = Integer.parseInt(words[3]);
        int count = Integer.parseInt(words[4]);
        try (PulsarClient client = PulsarClient.builder().serviceUrl(words[0]).ioThreads(1).listenerThreads(1)
            .operationTimeout(60, TimeUnit.SECONDS).build()) {
            if (words[2].equals("produce")) {
                produce(client, words[1], first, count);
            } else {
                consume(client, words[1], first, count);
            }
        }
        System.out.println("done");
    }

    static void produce(PulsarClient client, String topic, int first, int count) throws Exception {
        try (Producer<String> producer = client.newProducer(Schema.STRING).topic(topic)
            .enableBatching(false).sendTimeout(60, TimeUnit.SECONDS).create()) {
            List<CompletableFuture<MessageId>> sent = new ArrayList<>();
            for (int number = first; number < first + count; number++) {
                sent.add(producer.sendAsync(String.valueOf(number)));
            }
            for (CompletableFuture<MessageId> each : sent) {
                each.get(60, TimeUnit.SECONDS);
            }
        }
    }

    static void consume(PulsarClient client, String topic, int first, int count) throws Exception {
        try (Consumer<String> consumer = client.newConsumer(Schema.STRING).topic(topic).subscriptionName("all")
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            for (int number = first; number < first + count; number++) {
                Message<String> message = consumer.receive(60, TimeUnit.SECONDS);
                if (message == null || !message.getValue().equals(String.valueOf(number))) {
                    throw new IllegalStateException("wanted " + number + ", got "
                        + (message == null ? "nothing" : message.getValue()));
                }
                consumer.acknowledgeAsync(message).get(60, TimeUnit.SECONDS);
            }
        }
    }
}
