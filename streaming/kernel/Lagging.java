package rheostat.stream;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToDoubleFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

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
    private static final Pattern PARTITION = Pattern.compile("partition=(\\d{1,9}),topic=(.+)", Pattern.DOTALL);

    private final Tables tables;
    private final List<Row> history;
    private final double[] gauges;
    /** Lags of the newest scrape; null if they are unknown. */
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
     * @param history rows of the window in ascending order, one per scrape
     * @param gauges latest gauges of the window
     * @param newest lags of the newest scrape; null if they are unknown
     */
    Lagging(Tables tables, List<Row> history, double[] gauges, Lags newest) {
        this.tables = tables;
        this.history = history;
        this.gauges = gauges;
        this.newest = newest;
        for (Row row : history) {
            if (row.lags() != null) {
                row.lags().partitions().forEach((labels, partition) ->
                        writtenByLabels.computeIfAbsent(labels, absent -> new Written()).add(row, partition));
            }
        }
    }

    /** Returns the gauges that a row of the long trend keeps: sum and maximum. */
    static double[] trendGauges(Tables tables, double[] gauges) {
        return new double[] {gauges[tables.lagGauge("lag_sum_messages")], max(tables, gauges)};
    }

    /** Returns the largest lag. Without lags by partition it is Kafka's own, which includes added replicas. */
    private static double max(Tables tables, double[] gauges) {
        double max = gauges[tables.lagGauge("lag_max_messages")];
        return Double.isNaN(max) ? gauges[tables.lagGauge("any_lag_max_messages")] : max;
    }

    /**
     * Adds the fields of a ReplicationSignal, except its head.
     *
     * @param points rows of the long trend in ascending order: (ownMs, atMs, sum, max)
     */
    void into(Json out, int node, List<TrendPoint> points) {
        out.field("broker", node);
        double[] published = Arrays.copyOf(gauges, tables.lagFieldsPublished);
        published[tables.lagGauge("lag_max_messages")] = max(tables, gauges);
        for (int i = 0; i < published.length; i++) {
            out.field(tables.lagFields[i], published[i]);
        }
        trends(out, points);
        partitions(out);
        threads(out);
    }

    // -- trends -------------------------------------------------------------------------------------------------------

    /** Sum and maximum of the lags at one time. */
    record TrendPoint(long ownMs, long atMs, double sum, double max) {}

    private void trends(Json out, List<TrendPoint> points) {
        boolean ofSum = !Double.isNaN(gauges[tables.lagGauge("lag_sum_messages")]);
        ToDoubleFunction<TrendPoint> value = ofSum ? TrendPoint::sum : TrendPoint::max;
        if (!ofSum && Double.isNaN(max(tables, gauges))) {
            return;
        }
        out.field("trend_of", ofSum ? "sum" : "max");
        List<TrendPoint> ofWindow = new ArrayList<>();
        for (Row row : history) {
            double[] trendGauges = trendGauges(tables, row.gauges());
            ofWindow.add(new TrendPoint(row.ownMs, row.atMs, trendGauges[0], trendGauges[1]));
        }
        trend(out, "trend", ofWindow, value);
        trend(out, "trend_5min", points, value);
    }

    /** Adds a line through the known values since the last time a clock was set. Two points are the least. */
    private static void trend(Json out, String name, List<TrendPoint> points, ToDoubleFunction<TrendPoint> value) {
        Line line = new Line();
        TrendPoint first = null;
        TrendPoint last = null;
        for (TrendPoint point : points) {
            double y = value.applyAsDouble(point);
            if (Double.isNaN(y) || last != null && point.ownMs == last.ownMs) {
                continue;
            }
            if (first == null || !Rates.sameClock(last.ownMs, last.atMs, point.ownMs, point.atMs)) {
                line = new Line();
                first = point;
            }
            line.add((point.ownMs - first.ownMs) / MS_PER_S, y);
            last = point;
        }
        if (line.points() > 1) {
            out.openObject(name).field("slope_messages_per_s", line.slope());
            out.field("span_s", (last.ownMs - first.ownMs) / MS_PER_S).field("points", line.points());
            out.field("r2", line.r2()).close();
        }
    }

    // -- partitions ---------------------------------------------------------------------------------------------------

    private record Worst(String topic, int partition, String labels, Lags.LaggingPartition values) {}

    /** Adds the partitions with the largest lags, and the sums over them. */
    private void partitions(Json out) {
        List<Worst> worst = new ArrayList<>();
        if (newest != null) {
            newest.partitions().forEach((labels, values) -> {
                Matcher match = PARTITION.matcher(labels);
                if (values.lag() > 0 && match.matches()) {
                    worst.add(new Worst(match.group(2), Integer.parseInt(match.group(1)), labels, values));
                }
            });
        }
        worst.sort(Comparator.<Worst>comparingDouble(partition -> -partition.values.lag()).thenComparing(Worst::labels));
        boolean none = gauges[tables.lagGauge("lag_sum_messages")] == 0;
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
                secondsByThread.merge(key(values.source(), values.fetcher()), lagS, Lagging::larger);
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
        List<Lags.FetcherThread> threads = newest == null ? List.of() : new ArrayList<>(newest.threads());
        Map<Long, Rates.Increase> copied = new HashMap<>();
        Map<Long, List<TrendPoint>> points = new HashMap<>();
        for (Row row : history) {
            if (row.lags() == null) {
                continue;
            }
            for (Lags.FetcherThread thread : row.lags().threads()) {
                long key = key(thread.source(), thread.fetcher());
                if (!Double.isNaN(thread.bytes())) {
                    copied.computeIfAbsent(key, absent -> new Rates.Increase(1.0)).add(row, (long) thread.bytes());
                }
                points.computeIfAbsent(key, absent -> new ArrayList<>())
                        .add(new TrendPoint(row.ownMs, row.atMs, thread.lagSum(), thread.lagMax()));
            }
        }
        out.openList("threads");
        threads.stream()
                .sorted(Comparator.comparingLong(thread -> key(thread.source(), thread.fetcher())))
                .limit(THREADS_SHOWN)
                .forEach(thread -> {
                    long key = key(thread.source(), thread.fetcher());
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
                    trend(out, "trend", points.get(key), TrendPoint::sum);
                    out.close();
                });
        out.closeList();
    }

    private static double orZero(double value, boolean counted) {
        return counted ? Partition.orZero(value) : value;
    }

    private static long key(int source, int fetcher) {
        return ((long) source << Integer.SIZE) | fetcher;
    }

    private static boolean isStep(Row before, Row row) {
        long stepMs = row.ownMs - before.ownMs;
        return stepMs > 0
                && stepMs <= Rates.STEP_MS_MAX
                && Rates.sameClock(before.ownMs, before.atMs, row.ownMs, row.atMs);
    }
}
