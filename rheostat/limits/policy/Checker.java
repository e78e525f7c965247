package rheostat.policy;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.server.policy.CreateTopicPolicy.RequestMetadata;

/**
 * Compares the requested topic with the limits. Does no input or output, and takes time in proportion to the brokers and to the
 * replicas that the request names. A topic is refused only if no placement of its replicas is within the limits.
 */
final class Checker {
    private static final int BROKERS_SHOWN_MAX = 10;
    private final Limits limits;
    private final Pending pending;
    private final long nowMs;

    Checker(Limits limits, Pending pending, long nowMs) {
        this.limits = limits;
        this.pending = pending;
        this.nowMs = nowMs;
    }

    /** The result of a check: allowed, allowed without a check, or refused. */
    static final class Verdict {
        static final Verdict ALLOWED = new Verdict(true, null);
        /** Allowed, because the limits file does not say enough for a check. */
        static final Verdict UNCHECKED = new Verdict(false, null);

        final boolean isChecked;
        /** The text for the client; null: the topic may be created. */
        final String refusal;

        private Verdict(boolean isChecked, String refusal) {
            this.isChecked = isChecked;
            this.refusal = refusal;
        }
    }

    /** Returns whether the topic may be created, and notes its replicas if it may. */
    Verdict check(RequestMetadata request) {
        Map<Integer, List<Integer>> assignments = request.replicasAssignments();
        if (assignments != null && !assignments.isEmpty()) {
            return checkPlaced(request.topic(), assignments);
        }
        Integer partitions = request.numPartitions();
        Short replication = request.replicationFactor();
        if (partitions == null || replication == null || partitions < 1 || replication < 1) {
            return Verdict.UNCHECKED;
        }
        return checkUnplaced(request.topic(), partitions, replication);
    }

    private Verdict checkUnplaced(String topic, int partitions, int replication) {
        if (replication > limits.brokers.length) {
            return Verdict.UNCHECKED; // Kafka refuses it, or a broker has just joined the cluster.
        }
        long replicas = (long) partitions * replication;
        long brokersHeadroom = 0;
        for (int index = 0; index < limits.brokers.length; index++) {
            brokersHeadroom += Math.min(partitions, headroom(index)); // A broker can have one replica of each partition.
        }
        if (brokersHeadroom >= replicas && clusterHeadroom() >= replicas) {
            pending.add(nowMs, replicas);
            return Verdict.ALLOWED;
        }
        String subject = partitions + " partitions of topic " + topic + " with replication factor " + replication;
        return refuse(subject, replicas, "The brokers can take " + brokersHeadroom + ", one of each partition at most");
    }

    private Verdict checkPlaced(String topic, Map<Integer, List<Integer>> assignments) {
        long[] added = new long[limits.brokers.length];
        long replicas = 0;
        boolean isKnown = true;
        for (List<Integer> brokers : assignments.values()) {
            for (int replica = 0; replica < brokers.size(); replica++) {
                int index = limits.indexOf(brokers.get(replica));
                if (index >= 0) {
                    added[index]++;
                } else {
                    isKnown = false;
                }
                replicas++;
            }
        }
        String excess = null;
        Map<Integer, Long> placed = new HashMap<>();
        for (int index = 0; index < added.length; index++) {
            if (added[index] > 0) {
                placed.put(limits.brokers[index], added[index]);
                if (added[index] > headroom(index) && excess == null) {
                    excess = "Broker " + limits.brokers[index] + " is to get " + added[index] + " and can take "
                            + headroom(index);
                }
            }
        }
        if (excess == null && clusterHeadroom() >= replicas) {
            pending.add(nowMs, placed);
            return isKnown ? Verdict.ALLOWED : Verdict.UNCHECKED;
        }
        String subject = assignments.size() + " placed partitions of topic " + topic;
        return refuse(subject, replicas, excess == null ? "Each broker has room" : excess);
    }

    private long headroom(int index) {
        long pendingOnBroker = pending.on(limits.brokers[index], limits.brokers.length);
        return Math.max(0, limits.limitOf[index] - limits.partitionsOf[index] - pendingOnBroker);
    }

    private long clusterHeadroom() {
        return Math.max(0, limits.partitionsMax - limits.partitions - pending.total());
    }

    private Verdict refuse(String subject, long replicas, String cause) {
        String since = pending.total() == 0 ? "" : ", and topics with " + pending.total() + " were allowed since";
        return new Verdict(
                true,
                subject + " need room for " + replicas + " replicas within max.broker.partitions="
                        + text(limits.brokerPartitionsMax) + " and max.partitions=" + text(limits.partitionsMax) + ". " + cause
                        + " (" + brokerTexts() + "); the cluster can take " + text(clusterHeadroom()) + " (" + limits.partitions + " of "
                        + text(limits.partitionsMax) + "). rheostat counted them " + Math.max(0, nowMs - limits.countedAtMs) / 1000
                        + " s ago" + since + ".");
    }

    private String brokerTexts() {
        StringBuilder texts = new StringBuilder();
        for (int index = 0; index < Math.min(BROKERS_SHOWN_MAX, limits.brokers.length); index++) {
            texts.append(index == 0 ? "" : ", ").append(limits.brokers[index]).append(": ");
            texts.append(limits.partitionsOf[index]).append(" of ").append(text(limits.limitOf[index]));
        }
        int left = limits.brokers.length - BROKERS_SHOWN_MAX;
        return left > 0 ? texts + ", and " + left + " more brokers" : texts.toString();
    }

    /** Returns a limit or what is left of it. Half of 2^63-1 and more means that there is no limit. */
    private static String text(long limit) {
        return limit >= Limits.UNLIMITED / 2 ? "unlimited" : Long.toString(limit);
    }
}
