package rheostat.stream;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Computes the value of a signal from the rows of one entity in one window. shared/contract/signals.py defines the fields. */
final class Signal {
    /** A gauge is valid for this many scrape intervals. */
    private static final double GAUGE_INTERVALS = 1.5;

    private static final double MS_PER_S = 1000.0;
    /** The two rows of a step are at least the scrape interval divided by this apart. */
    private static final double STEP_PARTS_MAX = 4.0;
    private static final String[] STEP_FIELDS = {"reassignment_in", "reassignment_out", "network_out"};
    // Kafka URL-encodes special characters in these labels.
    private static final Pattern USER = Pattern.compile("(?:^|,)user=([^,]*)");
    private static final Pattern CLIENT_ID = Pattern.compile("(?:^|,)client_id=([^,]*)");

    private final Tables tables;
    private final Entity entity;
    private final long windowMs;
    private final boolean backlog;

    /** The subject of a signal. */
    record Entity(String cluster, String kind, int node, String part) {
        byte[] key(long endMs) {
            String partText = part.isEmpty() ? "" : part + "|";
            return Fold.utf8(cluster + "|" + kind + "|" + node + "|" + partText + endMs);
        }
    }

    /** @param backlog marks the signal as history, not for control */
    Signal(Tables tables, Entity entity, long windowMs, boolean backlog) {
        this.tables = tables;
        this.entity = entity;
        this.windowMs = windowMs;
        this.backlog = backlog;
    }

    /**
     * Returns the signal's JSON; null while the kind of the node is not certain.
     *
     * @param window rows of the window in ascending order, one per scrape
     */
    byte[] value(List<Row> window, long endMs) {
        List<Row> history = scrapesOfNode(window);
        if (history.isEmpty()) {
            return null;
        }
        Row newest = history.get(history.size() - 1);
        Json out = new Json().open();
        switch (entity.kind) {
            case "broker" -> {
                if (history.stream().noneMatch(row -> row.kindProven)) {
                    return null;
                }
                head(out, history, newest, endMs);
                broker(out, Rates.perSecond(history, tables.broker), gauges(window, newest));
                step(out, history);
            }
            case "controller" -> {
                if (history.stream().noneMatch(row -> row.kindProven)) {
                    return null;
                }
                head(out, history, newest, endMs);
                controller(out, Rates.perSecond(history, tables.controller), gauges(window, newest));
                changes(out, history, "partitions");
                changes(out, history, "topics");
            }
            case "move" -> {
                head(out, history, newest, endMs);
                new Moving(history).into(out, entity.node, entity.part, newest.ts);
            }
            case "replication" -> {
                head(out, history, newest, endMs);
                new Lagging(tables, history).into(out, entity.node);
            }
            case "tenant" -> {
                head(out, history, newest, endMs);
                tenant(out, gauges(window, newest));
            }
            default -> throw new IllegalStateException("an entity of kind " + entity.kind);
        }
        return out.close().toArray();
    }

    /**
     * Returns the rows without those that have nothing but gauges whose largest value counts. Another program measures these about
     * the machine, at other times, so they say nothing about the age or the number of the node's scrapes.
     */
    private List<Row> scrapesOfNode(List<Row> window) {
        boolean[] largest = tables.largest(entity.kind);
        return window.stream().filter(row -> row.hasOtherThan(largest)).toList();
    }

    private void head(Json out, List<Row> history, Row newest, long endMs) {
        int samples = scrapes(history);
        out.field("v", tables.signalVersion).field("kind", entity.kind).field("cluster", entity.cluster);
        out.field("window_end_ms", endMs).field("sampled_at_ms", newest.ts).field("samples", samples);
        out.field("completeness", (double) (samples * newest.everyMs) / windowMs);
        if (backlog) {
            out.field("backlog", true);
        }
    }

    /** Returns the number of scrapes; rows closer together than half an interval are parts of one scrape. */
    private static int scrapes(List<Row> history) {
        int count = 1;
        for (int i = 1; i < history.size(); i++) {
            Row row = history.get(i);
            count += row.ownMs - history.get(i - 1).ownMs > row.everyMs / 2.0 ? 1 : 0;
        }
        return count;
    }

    /** Returns the latest valid value of each gauge. This also joins records of one metric each. */
    private double[] gauges(List<Row> history, Row newest) {
        boolean[] largest = tables.largest(entity.kind);
        double[] latest = {};
        for (Row row : history) {
            if (newest.ownMs - row.ownMs < row.everyMs * GAUGE_INTERVALS) {
                latest = latest(latest, row.gauges(), largest);
            }
        }
        return latest;
    }

    /** @param largest by gauge: whether the largest value counts instead of the latest */
    static double[] latest(double[] older, double[] now, boolean[] largest) {
        double[] latest = Arrays.copyOf(now, Math.max(older.length, now.length));
        for (int i = 0; i < older.length; i++) {
            boolean isUnknown = i >= now.length || Double.isNaN(now[i]);
            if (isUnknown || i < largest.length && largest[i] && older[i] > now[i]) {
                latest[i] = older[i];
            }
        }
        return latest;
    }

    private void broker(Json out, double[] perS, double[] gauges) {
        Tables.NodeTable table = tables.broker;
        double[] rates = Arrays.copyOf(perS, table.rates.length);
        for (int i = 0; i < rates.length; i++) {
            // Without a counter, use the smoothed rate that some sources send as a gauge.
            if (Double.isNaN(rates[i]) && table.smoothed[i] >= 0) {
                rates[i] = gauges[table.smoothed[i]];
            }
        }
        rates[table.index("network_in")] = inboundBytesPerS(rates);
        throttled(out, rates, gauges);
        out.field("broker", entity.node);
        numbers(out, table, rates, gauges);
        means(out, table, perS);
    }

    /**
     * Returns all inbound bytes/s. A broker's listener metrics omit what it fetches as a follower, because it opens those
     * connections itself (Kafka 4.2). They include what it sends to its followers. Unknown if either part is unknown.
     */
    private double inboundBytesPerS(double[] rates) {
        return rates[tables.broker.index("network_in")] + rates[tables.broker.index("replication_in")];
    }

    /**
     * Adds rates over the last step, because a window's mean hides recent changes: a move that began 5 s ago shows as a sixth in a
     * mean of 30 s. Both rows must be whole scrapes; a partial one would give too small a rate.
     */
    private void step(Json out, List<Row> history) {
        Row newest = history.get(history.size() - 1);
        int index = history.size() - 2;
        // A closer row is a duplicate, or follows too soon for a meaningful rate.
        while (index >= 0 && newest.ownMs - history.get(index).ownMs < newest.everyMs / STEP_PARTS_MAX) {
            index--;
        }
        if (index < 0) {
            return;
        }
        Row before = history.get(index);
        double[] perS = Rates.step(before, newest, history, tables.broker);
        if (perS == null || !isKnown(inboundBytesPerS(perS)) && !isKnown(perS[tables.broker.index("network_out")])) {
            return;
        }
        out.field("step_s", (newest.ownMs - before.ownMs) / MS_PER_S);
        for (String field : STEP_FIELDS) {
            out.field("step_" + field + "_bytes_per_s", perS[tables.broker.index(field)]);
        }
        out.field("step_network_in_bytes_per_s", inboundBytesPerS(perS));
    }

    /**
     * Adds the two throttled rates from the best available source, and names that source.
     *
     * <p>Kafka's LeaderReplication metric exists from a follower's first fetch on, so its presence shows that the collector reads
     * both. FollowerReplication exists only after something was throttled, so its absence then means 0.
     */
    private void throttled(Json out, double[] rates, double[] gauges) {
        Tables.NodeTable table = tables.broker;
        double leader = gauges[table.index("leader_throttled")];
        double follower = gauges[table.index("follower_throttled")];
        if (isKnown(leader) || isKnown(follower)) {
            throttled(out, isKnown(leader) ? leader : 0.0, isKnown(follower) ? follower : 0.0, "quota");
            return;
        }
        for (String source : new String[] {"reassignment", "replication"}) {
            leader = rates[table.index(source + "_out")];
            follower = rates[table.index(source + "_in")];
            if (isKnown(leader) || isKnown(follower)) {
                throttled(out, leader, follower, source);
                return;
            }
        }
    }

    private static void throttled(Json out, double leader, double follower, String source) {
        out.field("leader_throttled_bytes_per_s", leader).field("follower_throttled_bytes_per_s", follower);
        out.field("throttled_by", source);
    }

    private void controller(Json out, double[] perS, double[] gauges) {
        Tables.NodeTable table = tables.controller;
        out.field("node", entity.node);
        means(out, table, perS);
        // Little's law: milliseconds waited per second is the mean queue length × 1,000.
        out.field("queue_depth_mean", perS[table.index("queued_ms")] / MS_PER_S);
        double addedMs = perS[table.index("added_ms")];
        // Sources without the times of additions leave them out.
        double inProgressMs = perS[table.index("created_ms")] + perS[table.index("deleted_ms")] + (isKnown(addedMs) ? addedMs : 0);
        out.field("topic_requests_in_progress_mean", inProgressMs / MS_PER_S);
        numbers(out, table, perS, gauges);
    }

    /** Adds the rises and falls per second of a gauge that counts what the cluster has. */
    private void changes(Json out, List<Row> history, String gauge) {
        Tables.NodeTable table = tables.controller;
        Rates.Changes changes = Rates.changes(history, table.index("active"), table.index(gauge));
        out.field(gauge + "_created_per_s", changes.risesPerS()).field(gauge + "_deleted_per_s", changes.fallsPerS());
    }

    private void tenant(Json out, double[] gauges) {
        out.field("node", entity.node).field("user", label(USER)).field("client_id", label(CLIENT_ID));
        for (int i = 0; i < tables.tenantFields.length; i++) {
            out.field(tables.tenantFields[i], gauges[i]);
        }
    }

    private String label(Pattern pattern) {
        Matcher matcher = pattern.matcher(entity.part);
        if (!matcher.find() || matcher.group(1).isEmpty()) {
            return null;
        }
        try {
            return URLDecoder.decode(matcher.group(1), StandardCharsets.UTF_8);
        } catch (IllegalArgumentException notEncoded) {
            return null;
        }
    }

    private static void numbers(Json out, Tables.NodeTable table, double[] rates, double[] gauges) {
        for (int i = 0; i < table.rates.length; i++) {
            out.field(table.rates[i], rates[i]);
        }
        for (int i = 0; i < table.copiedGauges.length; i++) {
            out.field(table.copiedGauges[i], gauges[table.copiedGaugeIndexes[i]]);
        }
    }

    /** Adds means over the events of the window; unknown if there were none. */
    private static void means(Json out, Tables.NodeTable table, double[] perS) {
        for (int i = 0; i < table.means.length; i++) {
            double count = perS[table.meanDenominators[i]];
            out.field(table.means[i], count == 0 ? Double.NaN : perS[table.meanNumerators[i]] / count);
        }
    }

    private static boolean isKnown(double value) {
        return !Double.isNaN(value);
    }
}
