import java.io.File;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import kafka.log.Cleaner;
import kafka.log.LogToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;
import scala.Option;
import scala.runtime.BoxedUnit;

/** Compacts the log in DIRECTORY once, from offset FIRST_DIRTY to its active segment, as if it were NOW (ms since 1970). */
public class KafkaCleaner {
    public static void main(String[] arguments) throws Exception {
        File directory = new File(arguments[0]);
        long firstDirty = Long.parseLong(arguments[1]);
        long now = Long.parseLong(arguments[2]);
        Map<String, Object> settings = new HashMap<>();
        settings.put("cleanup.policy", "compact");
        settings.put("file.delete.delay.ms", "0");
        // Producers of the log must not have expired.
        Time time = (Time) Proxy.newProxyInstance(
            Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, given) -> method.getName().equals("milliseconds") ? now : method.invoke(Time.SYSTEM, given));
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        UnifiedLog log = UnifiedLog.apply(
            directory, new LogConfig(settings), 0L, 1L << 40, scheduler, new BrokerTopicStats(false), time,
            900_000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Integer.MAX_VALUE,
            new LogDirFailureChannel(1), true, Option.empty(), true, new ConcurrentHashMap<>(), false,
            LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        log.updateHighWatermark(log.logEndOffset());
        Throttler throttler = new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "throttler", "entries", Time.SYSTEM);
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(1 << 20), 1 << 20, 1 << 20, 0.9, throttler, Time.SYSTEM, ignored -> BoxedUnit.UNIT);
        long end = log.activeSegment().baseOffset();
        TopicPartition where = new TopicPartition("events", 0);
        Object cleanedTo = cleaner.doClean(new LogToClean(where, log, firstDirty, end, false), now)._1();
        log.close();
        scheduler.shutdown();
        System.out.println(cleanedTo);
    }
}
