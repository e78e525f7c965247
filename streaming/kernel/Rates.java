package rheostat.stream;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Rates from counters over the sorted rows of a window. NaN is a rate that nobody knows.
 *
 * <p>Invariant: a rate is an increase that was seen, over the time between the samples that showed it. Not over the window,
 * which may be half empty; and a window with fewer than two samples of a counter has no rate, and not 0.
 *
 * <p>A counter that falls was reset: what it shows now is what it gained since. A total, mean x count, has to fall by half for
 * that: mean and count are read one after the other, and what is counted between makes their product too large, for one
 * scrape. Taken for a reset its fall would bring everything since the start of the JVM into one window.
 *
 * <p>Time is the sender's own: a constant error of its clock cancels out. What does not look like the next sample of the same
 * clock is not counted:
 *
 * <pre>
 *   same time or up to STEP_MS_MAX back   delivered twice, or an older scrape that was overtaken: ignored.
 *   further back, or more than STEP_MS_MAX ahead   the clock was set, or there is a gap: counting begins anew there.
 *   by CLOCK_STEP_MS_MAX more or less than by Kafka's clock   the clock was set by little, or the record waited: the same.
 * </pre>
 */
final class Rates {
    /** Twice a window: no two neighbours in one are further apart by a clock that runs evenly. */
    static final long STEP_MS_MAX = 60_000;

    /** Collectors write what they have measured at once, or within seconds. */
    static final long CLOCK_STEP_MS_MAX = 10_000;

    /** Of itself. An event more or less is less than that from the third on. */
    private static final double TOTAL_RESET_RATIO_MAX = 0.5;

    /** Of a step, by how much it may differ between the two clocks: what is told is over so short a time that it shows. */
    private static final double STEP_DRIFT_RATIO_MAX = 0.25;

    private static final double MS_PER_S = 1000.0;
    private static final double TOTAL_MAX = 1L << 62;

    private Rates() {}

    /** The rates of the node's counters, and of the totals that follow them. */
    static double[] perSecond(List<Row> history, Tables.NodeTable table) {
        List<long[]> counts = new ArrayList<>(history.size());
        for (Row row : history) {
            counts.add(withTotals(row, table));
        }
        double[] rates = isEven(history, counts)
                ? betweenTheEnds(history, counts)
                : stepwise(history, counts, table.counters.length);
        addSums(rates, history);
        for (int i = 0; i < rates.length; i++) {
            rates[i] = Fold.isNumber(rates[i]) ? rates[i] : Double.NaN;
        }
        return rates;
    }

    /**
     * The rates between two rows alone; null where they do not tell them: a counter was reset or is in one of the two only, the
     * clock was set by more than a quarter of the step, or a label of a counter that is summed is missing in one of them, or is
     * in a third.
     *
     * @param history of the window, for the labels that there are
     */
    static double[] step(Row before, Row newest, List<Row> history, Tables.NodeTable table) {
        List<Row> two = List.of(before, newest);
        long stepMs = newest.ownMs - before.ownMs;
        long driftMs = Math.abs(stepMs - (newest.atMs - before.atMs));
        if (driftMs > stepMs * STEP_DRIFT_RATIO_MAX || !isEven(two, List.of(before.counters(), newest.counters()))) {
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
        return perSecond(two, table);
    }

    private static int count(Row.Sum[] sums) {
        return sums == null ? 0 : sums.length;
    }

    /** Whether both have the same, in the order in which their sender tells them. */
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

    /** Whether between two rows the sender's clock went on as Kafka's did. */
    static boolean sameClock(long ownBefore, long atBefore, long ownAfter, long atAfter) {
        long drift = (ownAfter - ownBefore) - (atAfter - atBefore);
        return drift >= -CLOCK_STEP_MS_MAX && drift <= CLOCK_STEP_MS_MAX;
    }

    private static long[] withTotals(Row row, Tables.NodeTable table) {
        long[] measured = row.counters();
        double[] gauges = row.gauges();
        long[] counts = Arrays.copyOf(measured, measured.length + table.totalMeans.length);
        for (int i = 0; i < table.totalMeans.length; i++) {
            double mean = gauges[table.totalMeans[i]];
            long count = measured[table.totalCounts[i]];
            counts[measured.length + i] = count == Row.ABSENT ? Row.ABSENT : total(mean * count);
        }
        return counts;
    }

    /** Kafka sums whole milliseconds: rounding gives the very sum back, and keeps it from falling, a reset. */
    private static long total(double product) {
        if (!(product >= 0 && product <= TOTAL_MAX)) {
            return Row.ABSENT;
        }
        double below = Math.floor(product);
        return (long) (product - below >= 0.5 ? below + 1 : below);
    }

    /** No counter is reset or missing in a part of the rows, and the clock runs evenly. Nearly always. */
    private static boolean isEven(List<Row> history, List<long[]> counts) {
        for (int i = 1; i < history.size(); i++) {
            Row before = history.get(i - 1);
            Row row = history.get(i);
            long stepMs = row.ownMs - before.ownMs;
            if (stepMs <= 0 || stepMs > STEP_MS_MAX || !sameClock(before.ownMs, before.atMs, row.ownMs, row.atMs)) {
                return false;
            }
            long[] p = counts.get(i - 1);
            long[] q = counts.get(i);
            for (int k = 0; k < q.length; k++) {
                if (q[k] < p[k] || (p[k] == Row.ABSENT) != (q[k] == Row.ABSENT)) {
                    return false;
                }
            }
        }
        return history.size() > 1;
    }

    private static double[] betweenTheEnds(List<Row> history, List<long[]> counts) {
        int last = history.size() - 1;
        double seconds = (history.get(last).ownMs - history.get(0).ownMs) / MS_PER_S;
        long[] p = counts.get(0);
        long[] q = counts.get(last);
        double[] rates = new double[q.length];
        for (int k = 0; k < q.length; k++) {
            rates[k] = q[k] == Row.ABSENT ? Double.NaN : (double) (q[k] - p[k]) / seconds;
        }
        return rates;
    }

    /** From row to row; what follows the first {@code counters} are totals. */
    private static double[] stepwise(List<Row> history, List<long[]> counts, int counters) {
        int all = counts.get(0).length;
        double[] rates = new double[all];
        for (int k = 0; k < all; k++) {
            Counting one = new Counting(k < counters ? 1.0 : TOTAL_RESET_RATIO_MAX);
            for (int i = 0; i < history.size(); i++) {
                one.add(history.get(i), counts.get(i)[k]);
            }
            rates[k] = one.perSecond();
        }
        return rates;
    }

    /** What one counter has gained, and in what time. */
    private static final class Counting {
        private final double kept;
        private long count = Row.ABSENT;
        private long ownMs;
        private long atMs;
        private double increase;
        private long ms;

        /** @param kept the share of itself that it must fall to, or below, to have been reset */
        Counting(double kept) {
            this.kept = kept;
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
                    increase += now >= count ? now - count : now > count * kept ? 0 : now;
                    ms += stepMs;
                }
            }
            count = now;
            ownMs = row.ownMs;
            atMs = row.atMs;
        }

        double perSecond() {
            return ms == 0 ? Double.NaN : increase / (ms / MS_PER_S);
        }
    }

    /**
     * For counters that are summed over labels the sum of the rates of each, one by one. Summed first and rated then, a label
     * that is missing once would look like a counter that was reset.
     */
    private static void addSums(double[] rates, List<Row> history) {
        // Comparable, so that labels made to have one hash are found as quickly.
        record Label(int counter, String labels) implements Comparable<Label> {
            @Override
            public int compareTo(Label other) {
                int byCounter = Integer.compare(counter, other.counter);
                return byCounter != 0 ? byCounter : labels.compareTo(other.labels);
            }
        }
        Map<Label, Counting> labels = new LinkedHashMap<>();
        for (Row row : history) {
            if (row.sums() != null) {
                for (Row.Sum sum : row.sums()) {
                    // Of one label the first in a row: by its own time the others are not after it, and ignored.
                    labels.computeIfAbsent(new Label(sum.counter(), sum.labels()), none -> new Counting(1.0))
                            .add(row, sum.value());
                }
            }
        }
        double[] sums = new double[rates.length];
        Arrays.fill(sums, Double.NaN);
        labels.forEach((label, one) -> {
            double rate = one.perSecond();
            if (!Double.isNaN(rate)) {
                sums[label.counter] = Double.isNaN(sums[label.counter]) ? rate : sums[label.counter] + rate;
            }
        });
        for (int i = 0; i < rates.length; i++) {
            rates[i] = Double.isNaN(rates[i]) ? sums[i] : rates[i];
        }
    }
}
