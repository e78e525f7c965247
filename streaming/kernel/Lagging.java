package rheostat.stream;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToDoubleFunction;
import java.util.regex.Matcher;

/**
 * Computes the lag of a follower from the successive scrapes of one window, and its trends.
 *
 * <p>Invariants: an unknown lag is no 0. A partition without a known write rate has no lag in seconds, and one without a known
 * growth of its log has none in bytes.
 */
final class Lagging {
    private static final double MS_PER_S = 1000.0;
    private static final int THREADS_SHOWN = 64;
    private static final int PARTITIONS_SHOWN = 20;

    private final Tables tables;
    private final List<Row> history;
    private final Lags newest;
    private final Map<String, Written> writtenByLabels = new HashMap<>();
    private final Map<Long, Double> secondsByThread = new HashMap<>();

    /** Growth of a leader's log in the window. */
    private static final class Written {
        private Row before;
        private double endOffset;
        private double bytes;
        private double messages;
        private double seconds;
        // A log that shrank (retention) has grown by an unknown number of bytes, so bytes have a time of their own.
        private double grownBytes;
        private double messagesOfBytes;
        private double secondsOfBytes;

        void add(Row row, Lags.LaggingPartition now) {
            if (Double.isNaN(now.endOffset())) {
                return;
            }
            if (before != null && isStep(before, row) && now.endOffset() >= endOffset) {
                double step = (row.ownMs - before.ownMs) / MS_PER_S;
                messages += now.endOffset() - endOffset;
                seconds += step;
                // False if either size is unknown.
                if (now.bytes() >= bytes) {
                    grownBytes += now.bytes() - bytes;
                    messagesOfBytes += now.endOffset() - endOffset;
                    secondsOfBytes += step;
                }
            }
            before = row;
            endOffset = now.endOffset();
            bytes = now.bytes();
        }

        double messagesPerS() {
            return seconds == 0 ? Double.NaN : messages / seconds;
        }

        double bytesPerS() {
            return secondsOfBytes == 0 ? Double.NaN : grownBytes / secondsOfBytes;
        }

        double bytesPerMessage() {
            return messagesOfBytes == 0 ? Double.NaN : grownBytes / messagesOfBytes;
        }
    }

    /**
     * @param history rows of the window that have lags, in ascending order, one per scrape
     */
    Lagging(Tables tables, List<Row> history) {
        this.tables = tables;
        this.history = history;
        this.newest = history.get(history.size() - 1).lags();
        for (Row row : history) {
            row.lags().partitions().forEach((labels, partition) ->
                    writtenByLabels.computeIfAbsent(labels, absent -> new Written()).add(row, partition));
        }
    }

    /** Adds the fields of a ReplicationSignal, except its head. */
    void into(Json out, int node) {
        out.field("broker", node);
        for (int i = 0; i < tables.lagFields.length; i++) {
            out.field(tables.lagFields[i], newest.gauges()[i]);
        }
        if (!Double.isNaN(lagSum(newest))) {
            trend(out, "trend", history, this::lagSum);
            longTrend(out);
        }
        partitions(out);
        threads(out);
    }

    private double lagSum(Lags lags) {
        return lags.gauges()[tables.lagGauge("lag_sum_messages")];
    }

    // -- trends -------------------------------------------------------------------------------------------------------

    /** Adds a line through the known values since the last time a clock was set. Two points are the least. */
    private static void trend(Json out, String name, List<Row> rows, ToDoubleFunction<Lags> value) {
        Line line = new Line();
        Row first = null;
        Row last = null;
        for (Row row : rows) {
            double y = value.applyAsDouble(row.lags());
            if (Double.isNaN(y) || last != null && row.ownMs == last.ownMs) {
                continue;
            }
            if (first == null || !Rates.sameClock(last.ownMs, last.atMs, row.ownMs, row.atMs)) {
                line = new Line();
                first = row;
            }
            line.add((row.ownMs - first.ownMs) / MS_PER_S, y);
            last = row;
        }
        if (line.points() > 1) {
            trend(out, name, line, (last.ownMs - first.ownMs) / MS_PER_S);
        }
    }

    /** Adds the trend of the newest scrape with earlier sums: a line through these and its own sum. */
    private void longTrend(Json out) {
        Lags latest = history.stream().map(Row::lags).filter(lags -> !lags.earlierSums().isEmpty()).reduce(null, (a, b) -> b);
        if (latest == null || Double.isNaN(lagSum(latest))) {
            return;
        }
        Line line = new Line();
        line.add(0, lagSum(latest));
        double oldestS = 0;
        for (Lags.EarlierSum earlier : latest.earlierSums()) {
            line.add(-earlier.ageS(), earlier.lagSum());
            oldestS = Math.max(oldestS, earlier.ageS());
        }
        trend(out, "trend_5min", line, oldestS);
    }

    private static void trend(Json out, String name, Line line, double spanS) {
        out.openObject(name).field("slope_messages_per_s", line.slope()).field("span_s", spanS);
        out.field("points", line.points()).field("r2", line.r2()).close();
    }

    // -- partitions ---------------------------------------------------------------------------------------------------

    private record Worst(String topic, int partition, String labels, Lags.LaggingPartition values) {}

    /** Adds the partitions with the largest lags, and the sums over them. */
    private void partitions(Json out) {
        List<Worst> worst = new ArrayList<>();
        newest.partitions().forEach((labels, values) -> {
            Matcher match = LagFold.PARTITION.matcher(labels);
            if (values.lag() > 0 && match.matches()) {
                worst.add(new Worst(match.group(4), Integer.parseInt(match.group(2)), labels, values));
            }
        });
        worst.sort(Comparator.<Worst>comparingDouble(partition -> -partition.values.lag()).thenComparing(Worst::labels));
        boolean none = lagSum(newest) == 0;
        double bytes = none ? 0 : Double.NaN;
        double secondsMax = none ? 0 : Double.NaN;
        out.openList("worst");
        for (Worst partition : worst.subList(0, Math.min(PARTITIONS_SHOWN, worst.size()))) {
            Lags.LaggingPartition values = partition.values;
            Written written = writtenByLabels.get(partition.labels);
            double perS = written.messagesPerS();
            double lagS = perS > 0 ? values.lag() / perS : Double.NaN;
            double lagBytes = values.lag() * written.bytesPerMessage();
            out.open().field("topic", partition.topic).field("partition", partition.partition);
            out.field("lag_messages", values.lag());
            if (values.source() != Lags.UNKNOWN_ID) {
                out.field("source", values.source()).field("fetcher", values.fetcher());
                secondsByThread.merge(Lags.key(values.source(), values.fetcher()), lagS, Lagging::larger);
            }
            out.field("write_messages_per_s", perS).field("write_bytes_per_s", written.bytesPerS());
            out.field("lag_s", lagS).field("lag_bytes", lagBytes).close();
            secondsMax = larger(secondsMax, lagS);
            bytes = Double.isNaN(lagBytes) ? bytes : Partition.orZero(bytes) + lagBytes;
        }
        out.closeList();
        out.field("lag_sum_bytes", bytes).field("lag_max_s", secondsMax);
    }

    /** Returns the larger number; the known one if only one is known. */
    private static double larger(double a, double b) {
        return Double.isNaN(a) ? b : Double.isNaN(b) ? a : Math.max(a, b);
    }

    // -- threads ------------------------------------------------------------------------------------------------------

    /** Adds the fetcher threads, ordered by source and number. */
    private void threads(Json out) {
        Map<Long, Rates.Increase> copied = new HashMap<>();
        for (Row row : history) {
            for (Lags.FetcherThread thread : row.lags().threads()) {
                if (!Double.isNaN(thread.bytes())) {
                    copied.computeIfAbsent(thread.key(), absent -> new Rates.Increase(1.0)).add(row, (long) thread.bytes());
                }
            }
        }
        out.openList("threads");
        newest.threads().stream()
                .sorted(Comparator.comparingLong(Lags.FetcherThread::key))
                .limit(THREADS_SHOWN)
                .forEach(thread -> {
                    long key = thread.key();
                    boolean counted = !Double.isNaN(thread.partitions());
                    out.open().field("source", thread.source()).field("fetcher", thread.fetcher());
                    out.field("partitions", thread.partitions());
                    out.field("lag_sum_messages", thread.lagSum()).field("lag_max_messages", thread.lagMax());
                    out.field("adding_partitions", orZero(thread.addingPartitions(), counted));
                    out.field("adding_lag_sum_messages", orZero(thread.addingLagSum(), counted));
                    if (copied.containsKey(key)) {
                        out.field("fetched_bytes_per_s", copied.get(key).perSecond());
                    }
                    out.field("lag_max_s", thread.lagSum() == 0 ? 0.0 : secondsByThread.getOrDefault(key, Double.NaN));
                    trend(out, "trend", history, lags -> lags.lagSumOf(key));
                    out.close();
                });
        out.closeList();
    }

    private static double orZero(double value, boolean counted) {
        return counted ? Partition.orZero(value) : value;
    }

    private static boolean isStep(Row before, Row row) {
        long stepMs = row.ownMs - before.ownMs;
        return stepMs > 0
                && stepMs <= Rates.STEP_MS_MAX
                && Rates.sameClock(before.ownMs, before.atMs, row.ownMs, row.atMs);
    }
}
