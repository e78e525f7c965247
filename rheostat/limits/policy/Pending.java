package rheostat.policy;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;

/**
 * The replicas of topics that were allowed after the brokers' partitions were counted. Without them, all requests between two counts
 * would use the same headroom. Not thread-safe.
 */
final class Pending {
    /** A topic appears in the metadata of the brokers within this time after the check. */
    static final long VISIBLE_AFTER_MS = 2_000;

    /** The replicas of one second. */
    private static final class Span {
        final long startMs;
        long anywhere;
        final Map<Integer, Long> placed = new HashMap<>();

        Span(long startMs) {
            this.startMs = startMs;
        }
    }

    private static final long SPAN_MS = 1_000;
    private final ArrayDeque<Span> spans = new ArrayDeque<>();
    private final Map<Integer, Long> placed = new HashMap<>();
    private long anywhere;
    private long total;

    /** Notes replicas that Kafka places. */
    void add(long nowMs, long replicas) {
        span(nowMs).anywhere += replicas;
        anywhere += replicas;
        total += replicas;
    }

    /** Notes replicas that the request placed, by broker. */
    void add(long nowMs, Map<Integer, Long> replicas) {
        Map<Integer, Long> span = span(nowMs).placed;
        replicas.forEach((broker, count) -> {
            span.merge(broker, count, Long::sum);
            placed.merge(broker, count, Long::sum);
            total += count;
        });
    }

    /** Forgets the replicas that the counts of this time include. */
    void forgetCounted(long countedAtMs) {
        while (!spans.isEmpty() && spans.peekFirst().startMs + SPAN_MS + VISIBLE_AFTER_MS <= countedAtMs) {
            Span span = spans.removeFirst();
            anywhere -= span.anywhere;
            total -= span.anywhere;
            span.placed.forEach((broker, count) -> {
                placed.computeIfPresent(broker, (id, sum) -> sum.equals(count) ? null : sum - count);
                total -= count;
            });
        }
    }

    void forgetAll() {
        forgetCounted(Long.MAX_VALUE);
    }

    long total() {
        return total;
    }

    /** Returns the replicas on one broker. Kafka spreads the replicas that it places evenly over all brokers. */
    long on(int broker, int brokers) {
        return placed.getOrDefault(broker, 0L) + anywhere / brokers;
    }

    private Span span(long nowMs) {
        if (spans.isEmpty() || nowMs - spans.peekLast().startMs >= SPAN_MS) {
            spans.addLast(new Span(nowMs));
        }
        return spans.peekLast();
    }
}
