package rheostat.policy;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy.RequestMetadata;

/**
 * Calls the policy as a controller does. Each line of standard input is a call, and is answered by one line:
 *
 * <pre>
 * state                       ok, or why topics are not checked
 * topic PARTITIONS REPLICAS   allowed, unchecked, or the refusal
 * topic 1,2;2,3               the same, with the brokers of each partition
 * figures                     refused allowed unchecked
 * parse FILE                  ok, or why this limits file cannot be used
 * time CALLS PARTITIONS       processor time in microseconds: the first call, p50 and p99, for a topic whose 3 replicas of each partition
 *                             are given, and the same for a topic that Kafka places
 * </pre>
 */
public final class PolicyCalls {
    private PolicyCalls() {}

    public static void main(String[] arguments) throws Exception {
        PartitionLimitsPolicy policy = new PartitionLimitsPolicy();
        policy.configure(arguments.length == 0 ? Map.of() : Map.of(PartitionLimitsPolicy.FILE_SETTING, arguments[0]));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(policy, line.split(" ")));
        }
        policy.close();
    }

    private static String answer(PartitionLimitsPolicy policy, String[] words) throws Exception {
        switch (words[0]) {
            case "state":
                return policy.getState();
            case "figures":
                return policy.getRefused() + " " + policy.getAllowed() + " " + policy.getAllowedUnchecked();
            case "parse":
                return parse(Path.of(words[1]));
            case "time":
                return times(policy, Integer.parseInt(words[1]), Integer.parseInt(words[2]));
            default:
                long unchecked = policy.getAllowedUnchecked();
                try {
                    policy.validate(request(words));
                } catch (PolicyViolationException refusal) {
                    return refusal.getMessage();
                }
                return policy.getAllowedUnchecked() > unchecked ? "unchecked" : "allowed";
        }
    }

    private static RequestMetadata request(String[] words) {
        if (words.length == 3) {
            return new RequestMetadata(words[0], Integer.valueOf(words[1]), Short.valueOf(words[2]), null, Map.of());
        }
        Map<Integer, List<Integer>> assignments = new HashMap<>();
        for (String partition : words[1].split(";")) {
            List<Integer> brokers = new ArrayList<>();
            for (String broker : partition.split(",")) {
                brokers.add(broker.equals("null") ? null : Integer.valueOf(broker));
            }
            assignments.put(assignments.size(), brokers);
        }
        return new RequestMetadata(words[0], null, null, assignments, Map.of());
    }

    private static String parse(Path file) throws Exception {
        try {
            Limits.parse(Files.readAllBytes(file));
            return "ok";
        } catch (UnusableLimitsException error) {
            return error.getMessage();
        }
    }

    private static String times(PartitionLimitsPolicy policy, int calls, int partitions) {
        Map<Integer, List<Integer>> assignments = new HashMap<>();
        for (int partition = 0; partition < partitions; partition++) {
            int first = 1 + partition % 900;
            assignments.put(partition, List.of(first, first + 1, first + 2));
        }
        RequestMetadata placed = new RequestMetadata("placed", null, null, assignments, Map.of());
        RequestMetadata unplaced = new RequestMetadata("unplaced", partitions, (short) 3, null, Map.of());
        return timesOf(policy, calls, placed) + " " + timesOf(policy, calls, unplaced);
    }

    /** Measures the processor time of this thread: another process on the machine does not change it. */
    private static String timesOf(PartitionLimitsPolicy policy, int calls, RequestMetadata request) {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long[] nanos = new long[calls];
        for (int call = 0; call < calls; call++) {
            long start = threads.getCurrentThreadCpuTime();
            policy.validate(request);
            nanos[call] = threads.getCurrentThreadCpuTime() - start;
        }
        long first = nanos[0];
        Arrays.sort(nanos);
        return first / 1000 + " " + nanos[calls / 2] / 1000 + " " + nanos[calls * 99 / 100] / 1000;
    }
}
