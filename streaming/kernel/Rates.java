package rheostat.stream;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Computes rates of counters over the sorted rows of a window. NaN means unknown.
 *
 * <p>Invariant: a rate is a measured increase divided by the time between its samples, not by the window, which may be half
 * empty. A counter with fewer than two samples in the window has no rate, which is not 0.
 *
 * <p>A counter that falls was reset, and its new value is the increase since then. A total (mean × count) counts as reset only if
 * it falls by half: mean and count are read one after the other, so their product can be too large for one scrape. Treating the
 * following fall as a reset would add everything since JVM start to one window.
 *
 * <p>Time is the sender's, so that a constant error of its clock cancels out. A sample that does not follow the last one by the
 * same clock is not counted:
 *
 * <pre>
 *   same time, or up to STEP_MS_MAX back             a duplicate or an older scrape that arrived late: ignored
 *   further back, or more than STEP_MS_MAX ahead     the clock was set, or there is a gap: counting starts again
 *   CLOCK_STEP_MS_MAX off Kafka's clock              the clock was set a little, or the record was delayed: counting starts again
 * </pre>
 */
final class Rates {
    /** Twice a window; with a regular clock, successive rows of a window are closer together. */
    static final long STEP_MS_MAX = 60_000;

    /** Collectors write a scrape at once or within seconds. */
    static final long CLOCK_STEP_MS_MAX = 10_000;

    /**
     * Share of its last value to which a total must fall to count as reset. From three events on, one event more is less than
     * this.
     */
    private static final double TOTAL_RESET_RATIO_MAX = 0.5;

    /** Share of a step by which the two clocks may differ; the step is so short that the difference matters. */
    private static final double STEP_DRIFT_RATIO_MAX = 0.25;

    private static final double MS_PER_S = 1000.0;
    private static final double TOTAL_MAX = 1L << 62;

    private Rates() {}

    /** Returns the rates per second of the node's counters, followed by those of its totals. */
    static double[] perSecond(List<Row> history, Tables.NodeTable table) {
        List<long[]> counts = new ArrayList<>(history.size());
        for (Row row : history) {
            counts.add(withTotals(row, table));
        }
        double[] rates = isRegular(history, counts)
                ? betweenEnds(history, counts)
                : rowByRow(history, counts, table.counters.length);
        addSums(rates, history);
        for (int i = 0; i < rates.length; i++) {
            rates[i] = Fold.isNumber(rates[i]) ? rates[i] : Double.NaN;
        }
        return rates;
    }

    /**
     * Returns the rates between two rows; null if a counter was reset or is missing in one of them, if the clock was set by more
     * than a quarter of the step, or if a label of a summed counter is missing in one of them.
     *
     * @param history rows of the window; shows which labels exist
     */
    static double[] step(Row before, Row newest, List<Row> history, Tables.NodeTable table) {
        List<Row> pair = List.of(before, newest);
        long stepMs = newest.ownMs - before.ownMs;
        long driftMs = Math.abs(stepMs - (newest.atMs - before.atMs));
        if (driftMs > stepMs * STEP_DRIFT_RATIO_MAX || !isRegular(pair, List.of(before.counters(), newest.counters()))) {
            return null;
        }
        if (!sameLabels(before.sums(), newest.sums())) {
            return null;
        }
        for (Row row : history) {
            if (count(row.sums()) > count(newest.sums())) {
                return null;
            }
        }
        return perSecond(pair, table);
    }

    /** Rises and falls of a gauge per second; NaN: unknown. */
    record Changes(double risesPerS, double fallsPerS) {}

    /**
     * Returns the rises and falls of a gauge between successive rows of the active controller. A controller that has just started
     * counts from 0 up to what the cluster has, so its changes tell nothing until it is active.
     *
     * @param activeGauge index of the gauge that is 1 on the active controller
     */
    static Changes changes(List<Row> history, int activeGauge, int gauge) {
        Row before = null;
        double rises = 0;
        double falls = 0;
        long measuredMs = 0;
        for (Row row : history) {
            double now = row.gauges()[gauge];
            boolean active = row.gauges()[activeGauge] == 1;
            if (Double.isNaN(now) || Double.isNaN(row.gauges()[activeGauge])) {
                continue; // A part of a scrape that has other metrics.
            }
            if (before != null && active) {
                long stepMs = row.ownMs - before.ownMs;
                if (stepMs > 0 && stepMs <= STEP_MS_MAX && sameClock(before.ownMs, before.atMs, row.ownMs, row.atMs)) {
                    double change = now - before.gauges()[gauge];
                    rises += Math.max(0, change);
                    falls += Math.max(0, -change);
                    measuredMs += stepMs;
                }
            }
            before = active ? row : null;
        }
        double seconds = measuredMs / MS_PER_S;
        return measuredMs == 0 ? new Changes(Double.NaN, Double.NaN) : new Changes(rises / seconds, falls / seconds);
    }

    private static int count(Row.Sum[] sums) {
        return sums == null ? 0 : sums.length;
    }

    /** Returns whether both have the same labels in the same order. */
    private static boolean sameLabels(Row.Sum[] before, Row.Sum[] now) {
        if (count(before) != count(now)) {
            return false;
        }
        for (int i = 0; i < count(now); i++) {
            if (before[i].counter() != now[i].counter() || !before[i].labels().equals(now[i].labels())) {
                return false;
            }
        }
        return true;
    }

    /** Returns whether the sender's clock and Kafka's advanced equally between two rows. */
    static boolean sameClock(long ownBefore, long atBefore, long ownAfter, long atAfter) {
        long drift = (ownAfter - ownBefore) - (atAfter - atBefore);
        return drift >= -CLOCK_STEP_MS_MAX && drift <= CLOCK_STEP_MS_MAX;
    }

    private static long[] withTotals(Row row, Tables.NodeTable table) {
        long[] measured = row.counters();
        double[] gauges = row.gauges();
        long[] counts = Arrays.copyOf(measured, measured.length + table.totalFactorGauges.length);
        for (int i = 0; i < table.totalFactorGauges.length; i++) {
            double mean = gauges[table.totalFactorGauges[i]];
            long count = measured[table.totalFactorCounters[i]];
            counts[measured.length + i] = count == Row.ABSENT ? Row.ABSENT : total(mean * count);
        }
        return counts;
    }

    /**
     * Rounds a total. Kafka sums whole milliseconds, so rounding restores the exact sum, which then never falls by rounding
     * errors.
     */
    private static long total(double product) {
        // The negation also catches NaN.
        if (!(product >= 0 && product <= TOTAL_MAX)) {
            return Row.ABSENT;
        }
        double below = Math.floor(product);
        return (long) (product - below >= 0.5 ? below + 1 : below);
    }

    /** Returns whether no counter was reset or is missing in some rows, and the clock is regular; almost always true. */
    private static boolean isRegular(List<Row> history, List<long[]> counts) {
        for (int i = 1; i < history.size(); i++) {
            Row before = history.get(i - 1);
            Row row = history.get(i);
            long stepMs = row.ownMs - before.ownMs;
            if (stepMs <= 0 || stepMs > STEP_MS_MAX || !sameClock(before.ownMs, before.atMs, row.ownMs, row.atMs)) {
                return false;
            }
            long[] countsBefore = counts.get(i - 1);
            long[] countsNow = counts.get(i);
            for (int index = 0; index < countsNow.length; index++) {
                boolean wasReset = countsNow[index] < countsBefore[index];
                if (wasReset || (countsBefore[index] == Row.ABSENT) != (countsNow[index] == Row.ABSENT)) {
                    return false;
                }
            }
        }
        return history.size() > 1;
    }

    /** Returns the rates between the first and the newest row. */
    private static double[] betweenEnds(List<Row> history, List<long[]> counts) {
        int last = history.size() - 1;
        double seconds = (history.get(last).ownMs - history.get(0).ownMs) / MS_PER_S;
        long[] first = counts.get(0);
        long[] newest = counts.get(last);
        double[] rates = new double[newest.length];
        for (int i = 0; i < newest.length; i++) {
            rates[i] = newest[i] == Row.ABSENT ? Double.NaN : (double) (newest[i] - first[i]) / seconds;
        }
        return rates;
    }

    /** Returns rates summed from row to row. Values after the first {@code counterCount} are totals. */
    private static double[] rowByRow(List<Row> history, List<long[]> counts, int counterCount) {
        double[] rates = new double[counts.get(0).length];
        for (int index = 0; index < rates.length; index++) {
            Increase increase = new Increase(index < counterCount ? 1.0 : TOTAL_RESET_RATIO_MAX);
            for (int i = 0; i < history.size(); i++) {
                increase.add(history.get(i), counts.get(i)[index]);
            }
            rates[index] = increase.perSecond();
        }
        return rates;
    }

    /** Increase of one counter, and the time in which it was measured. */
    static final class Increase {
        private final double resetRatioMax;
        private long count = Row.ABSENT;
        private long ownMs;
        private long atMs;
        private double total;
        private long measuredMs;

        /** @param resetRatioMax a fall to this share of the last value, or below, counts as a reset */
        Increase(double resetRatioMax) {
            this.resetRatioMax = resetRatioMax;
        }

        void add(Row row, long now) {
            if (now == Row.ABSENT) {
                return;
            }
            if (count != Row.ABSENT) {
                long stepMs = row.ownMs - ownMs;
                if (stepMs >= -STEP_MS_MAX && stepMs <= 0) {
                    return;
                }
                if (stepMs > 0 && stepMs <= STEP_MS_MAX && sameClock(ownMs, atMs, row.ownMs, row.atMs)) {
                    total += now >= count ? now - count : now > count * resetRatioMax ? 0 : now;
                    measuredMs += stepMs;
                }
            }
            count = now;
            ownMs = row.ownMs;
            atMs = row.atMs;
        }

        double perSecond() {
            return measuredMs == 0 ? Double.NaN : total / (measuredMs / MS_PER_S);
        }
    }

    /**
     * Adds the rates of counters that are summed over labels: the sum of each label's rate. In the rate of a sum, a label that is
     * missing once would look like a reset.
     */
    private static void addSums(double[] rates, List<Row> history) {
        // Comparable, so that look-ups stay fast for labels crafted to share one hash.
        record Label(int counter, String labels) implements Comparable<Label> {
            @Override
            public int compareTo(Label other) {
                int byCounter = Integer.compare(counter, other.counter);
                return byCounter != 0 ? byCounter : labels.compareTo(other.labels);
            }
        }
        Map<Label, Increase> increases = new LinkedHashMap<>();
        for (Row row : history) {
            if (row.sums() != null) {
                for (Row.Sum sum : row.sums()) {
                    // A repeated label in a row is ignored, because its time is not later.
                    increases.computeIfAbsent(new Label(sum.counter(), sum.labels()), absent -> new Increase(1.0))
                            .add(row, sum.value());
                }
            }
        }
        double[] sums = new double[rates.length];
        Arrays.fill(sums, Double.NaN);
        increases.forEach((label, increase) -> {
            double rate = increase.perSecond();
            if (!Double.isNaN(rate)) {
                sums[label.counter] = Double.isNaN(sums[label.counter]) ? rate : sums[label.counter] + rate;
            }
        });
        for (int i = 0; i < rates.length; i++) {
            rates[i] = Double.isNaN(rates[i]) ? sums[i] : rates[i];
        }
    }
}
