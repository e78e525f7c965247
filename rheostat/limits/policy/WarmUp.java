package rheostat.policy;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.server.policy.CreateTopicPolicy.RequestMetadata;
import org.slf4j.LoggerFactory;

/** Checks invented topics when the node starts, so that the JVM has loaded and compiled the check before the first real request. */
final class WarmUp {
    private static final int ROUNDS = 300;

    private WarmUp() {}

    static void run() {
        try {
            Limits limits = Limits.parse(example().getBytes(StandardCharsets.UTF_8));
            Map<Integer, List<Integer>> assignments = new HashMap<>();
            for (int partition = 0; partition < 100; partition++) {
                assignments.put(partition, List.of(1, 2, 3));
            }
            for (int round = 0; round < ROUNDS; round++) {
                Pending pending = new Pending();
                Checker checker = new Checker(limits, pending, round);
                checker.check(new RequestMetadata("warm-up", 10, (short) 3, null, Map.of()));
                checker.check(new RequestMetadata("warm-up", 10_000, (short) 3, null, Map.of()));
                checker.check(new RequestMetadata("warm-up", null, null, assignments, Map.of()));
                pending.forgetAll();
            }
        } catch (UnusableLimitsException | RuntimeException error) {
            LoggerFactory.getLogger(PartitionLimitsPolicy.class).warn("Partition limits: the warm-up failed.", error);
        }
    }

    private static String example() {
        return "format=1\ncounted.at.ms=0\nusable.for.s=1\npartitions=3000\nmax.broker.partitions=9000\nmax.partitions=20000\n"
                + "partitions.1=1000\npartitions.2=1000\npartitions.3=1000\ncomplete=true\n";
    }
}
