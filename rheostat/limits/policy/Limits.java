package rheostat.policy;

import java.io.IOException;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;

/** The limits of KIP-578 and the partitions that existed at one moment, as rheostat writes them. Never changes. */
final class Limits {
    static final long UNLIMITED = Long.MAX_VALUE;
    static final String FORMAT = "1";
    static final long USABLE_S_MAX = 3600;
    /** A writer's clock may be ahead by this much. */
    static final long AHEAD_MS_MAX = 60_000;
    /** Larger ids are looked up more slowly. */
    private static final int BROKER_ID_MAX = 100_000;

    final long countedAtMs;
    final long usableForS;
    final long brokerPartitionsMax;
    final long partitionsMax;
    /** The partitions of the cluster, including those on brokers that are down. */
    final long partitions;

    /** The brokers that are alive, in ascending order, and for each of them its limit and its partitions. */
    final int[] brokers;

    final long[] limitOf;
    final long[] partitionsOf;
    private final Set<String> exemptTopics;
    /** The position in the arrays + 1 by broker id, because a request may name 30,000 replicas; 0: unknown. */
    private final int[] positions;

    private Limits(Properties file) throws UnusableLimitsException {
        countedAtMs = count(file, "counted.at.ms");
        usableForS = count(file, "usable.for.s");
        if (usableForS > USABLE_S_MAX) {
            throw new UnusableLimitsException("usable.for.s: expected at most " + USABLE_S_MAX + ", found " + usableForS);
        }
        brokerPartitionsMax = limit(file, "max.broker.partitions", UNLIMITED);
        partitionsMax = limit(file, "max.partitions", UNLIMITED);
        partitions = count(file, "partitions");
        exemptTopics = Set.copyOf(Arrays.asList(file.getProperty("exempt.topics", "").split(",")));
        Map<Integer, Long> counts = brokerCounts(file);
        int index = 0;
        brokers = new int[counts.size()];
        limitOf = new long[counts.size()];
        partitionsOf = new long[counts.size()];
        for (Map.Entry<Integer, Long> entry : counts.entrySet()) {
            brokers[index] = entry.getKey();
            partitionsOf[index] = entry.getValue();
            limitOf[index++] = limit(file, "max.broker.partitions." + entry.getKey(), brokerPartitionsMax);
        }
        positions = new int[Math.min(BROKER_ID_MAX, brokers[brokers.length - 1]) + 1];
        for (index = 0; index < brokers.length && brokers[index] < positions.length; index++) {
            positions[brokers[index]] = index + 1;
        }
    }

    /** Returns the content of a limits file. */
    static Limits parse(byte[] content) throws UnusableLimitsException {
        Properties file = new Properties();
        try {
            file.load(new StringReader(new String(content, StandardCharsets.UTF_8)));
        } catch (IOException | IllegalArgumentException error) {
            throw new UnusableLimitsException("it is not a properties file: " + error.getMessage());
        }
        // The writer's last line. Without it the file is half written or was cut off.
        if (!"true".equals(file.getProperty("complete"))) {
            throw new UnusableLimitsException("it is incomplete: its last line complete=true is missing");
        }
        String format = file.getProperty("format");
        if (!FORMAT.equals(format)) {
            throw new UnusableLimitsException("format: expected " + FORMAT + ", found " + format);
        }
        return new Limits(file);
    }

    /** Returns why topics cannot be checked at this time; null if they can. */
    String unusableReason(long nowMs) {
        long ageMs = nowMs - countedAtMs;
        if (ageMs > usableForS * 1000) {
            return "its counts are " + ageMs / 1000 + " s old, and usable for " + usableForS + " s: rheostat does not write it";
        }
        return ageMs < -AHEAD_MS_MAX ? "its counts are from the future: compare the clocks of both machines" : null;
    }

    boolean isExempt(String topic) {
        return exemptTopics.contains(topic);
    }

    /** Returns the position of a broker in the arrays; negative if the broker is unknown. */
    int indexOf(int broker) {
        if (broker >= 0 && broker < positions.length) {
            return positions[broker] - 1;
        }
        return broker <= BROKER_ID_MAX ? -1 : Arrays.binarySearch(brokers, broker);
    }

    private static Map<Integer, Long> brokerCounts(Properties file) throws UnusableLimitsException {
        Map<Integer, Long> counts = new TreeMap<>();
        for (String key : file.stringPropertyNames()) {
            if (key.startsWith("partitions.")) {
                counts.put(brokerIn(key), count(file, key));
            }
        }
        if (counts.isEmpty()) {
            throw new UnusableLimitsException("it has no broker: expected keys such as partitions.1");
        }
        return counts;
    }

    private static int brokerIn(String key) throws UnusableLimitsException {
        String id = key.substring("partitions.".length());
        try {
            int broker = Integer.parseInt(id);
            if (broker >= 0) {
                return broker;
            }
        } catch (NumberFormatException error) {
            // Refused below, as a negative number is.
        }
        throw new UnusableLimitsException(key + ": expected a broker id after the last dot, found " + id);
    }

    private static long limit(Properties file, String key, long absent) throws UnusableLimitsException {
        return file.containsKey(key) ? count(file, key) : absent;
    }

    private static long count(Properties file, String key) throws UnusableLimitsException {
        String text = file.getProperty(key, "nothing");
        try {
            long value = Long.parseLong(text.strip());
            if (value >= 0) {
                return value;
            }
        } catch (NumberFormatException error) {
            // Refused below, as a negative number is.
        }
        throw new UnusableLimitsException(key + ": expected a number from 0 to 2^63-1, found " + text);
    }
}
