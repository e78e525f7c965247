package rheostat.stream;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Computes the progress of a move from the log sizes of its partitions in the successive scrapes of one window.
 *
 * <p>Each partition is measured separately and the results are summed, so that a partition that joins or leaves between two
 * scrapes does not look like moved or lost bytes.
 *
 * <p>Invariants: a partition counts in a step only if both scrapes have it. An unknown size yields no growth. A log that shrank
 * (retention) has grown by an unknown amount: it adds 0 bytes to the step, and neither bytes nor time to the write rate. The
 * computation is linear in the number of partitions.
 */
final class Moving {
    private static final int LARGEST_SHOWN = 5;
    /** Most steps in a signal (two per second for a minute); without a limit the signal could become too large for Kafka. */
    private static final int STEPS_MAX = 120;
    private static final double STEP_S_MAX = Rates.STEP_MS_MAX / 1000.0;
    private static final Pattern PARTITION = Pattern.compile("partition=(\\d{1,9})(?:,.*)?", Pattern.DOTALL);
    private static final String TOPIC = "topic=";

    private final List<Row> scrapes = new ArrayList<>();
    private final List<Step> steps = new ArrayList<>();
    private final Map<String, Growth> growthByLabels = new LinkedHashMap<>();
    /** Partitions of the newest scrape, by labels. */
    private final Map<String, Partition> newest;

    /**
     * Change between two successive scrapes, in bytes; {@code remaining} is the value after it.
     *
     * @param recovering the part of recovering partitions
     */
    private record Step(long atMs, double seconds, Change all, Change recovering, double remainingChange) {
        boolean isKnown() {
            return Fold.isNumber(all.gained) && Fold.isNumber(all.written) && Fold.isNumber(all.remaining);
        }
    }

    private static final class Change {
        int partitions;
        double gained;
        double written;
        double remaining;

        void add(double gained, double written, double remaining) {
            partitions++;
            this.gained += gained;
            this.written += written;
            this.remaining += remaining;
        }
    }

    /** Growth of a leader's log, and the seconds of the steps in which it is known. */
    private static final class Growth {
        /** Size in the newest scrape; unknown if that lacks the partition. */
        double bytes = Double.NaN;
        long ownMs;
        long atMs;
        double grown;
        double seconds;

        double perSecond() {
            return seconds == 0 ? Double.NaN : grown / seconds;
        }
    }

    Moving(List<Row> history) {
        for (Row row : history) {
            // Rows are sorted by their own time; of several with one time, the first is used.
            if (scrapes.isEmpty() || row.ownMs > scrapes.get(scrapes.size() - 1).ownMs) {
                scrapes.add(row);
            }
        }
        for (Row scrape : scrapes) {
            addGrowth(scrape);
        }
        for (int i = 1; i < scrapes.size(); i++) {
            addStep(scrapes.get(i - 1), scrapes.get(i));
        }
        newest = scrapes.get(scrapes.size() - 1).partitions();
    }

    private void addGrowth(Row scrape) {
        Map<String, Partition> partitions = scrape.partitions();
        growthByLabels.forEach((labels, growth) -> growth.bytes = partitions.containsKey(labels) ? growth.bytes : Double.NaN);
        partitions.forEach((labels, partition) -> {
            Growth growth = growthByLabels.computeIfAbsent(labels, absent -> new Growth());
            double grown = partition.leaderBytes() - growth.bytes;
            double seconds = (scrape.ownMs - growth.ownMs) / 1000.0;
            boolean inStep = seconds > 0
                    && seconds <= STEP_S_MAX
                    && Rates.sameClock(growth.ownMs, growth.atMs, scrape.ownMs, scrape.atMs);
            if (inStep && grown >= 0) {
                growth.grown += grown;
                growth.seconds += seconds;
            }
            growth.bytes = partition.leaderBytes();
            growth.ownMs = scrape.ownMs;
            growth.atMs = scrape.atMs;
        });
    }

    /** Adds a step if something moved in it. A step longer than STEP_S_MAX is a gap or a clock that was set. */
    private void addStep(Row before, Row after) {
        double seconds = (after.ownMs - before.ownMs) / 1000.0;
        if (!(seconds > 0 && seconds <= STEP_S_MAX)
                || !Rates.sameClock(before.ownMs, before.atMs, after.ownMs, after.atMs)) {
            return;
        }
        Change all = new Change();
        Change recovering = new Change();
        double remainingChange = 0;
        for (Map.Entry<String, Partition> entry : before.partitions().entrySet()) {
            Partition earlier = entry.getValue();
            Partition later = after.partitions().get(entry.getKey());
            // A partition that has just finished counts too, because its last bytes arrived in this step.
            if (later == null || !(earlier.adding() || later.adding())) {
                continue;
            }
            double ownWritten = Partition.orZero(Partition.excess(later.leaderBytes(), earlier.leaderBytes()));
            double change = earlier.adding() ? Partition.orZero(later.remainingBytes() - earlier.remainingBytes()) : 0;
            double gained = Partition.orZero(Partition.excess(later.ownBytes(), earlier.ownBytes()));
            // Kafka has no metric of the bytes that a leader sends to recovering replicas.
            gained += earlier.recovering() && Double.isNaN(earlier.ownBytes()) ? Math.max(ownWritten - change, 0) : 0;
            double remaining = Partition.orZero(later.remainingBytes());
            all.add(gained, ownWritten, remaining);
            if (earlier.recovering() || later.recovering()) {
                recovering.add(gained, ownWritten, remaining);
            }
            remainingChange += change;
        }
        Step step = new Step(after.ts, seconds, all, recovering, remainingChange);
        // A value that overflows is unknown, and a step with unknown values is dropped.
        if (all.partitions > 0 && step.isKnown()) {
            steps.add(step);
        }
    }

    /** Adds the fields of a MoveSignal, except its head. */
    void into(Json out, int node, String side, long sampledAtMs) {
        out.field("broker", node).field("side", side);
        totals(out);
        slope(out);
        out.field("progress_age_s", progressAgeS(sampledAtMs));
        out.openList("steps");
        for (Step step : steps.subList(Math.max(0, steps.size() - STEPS_MAX), steps.size())) {
            out.open().field("at_ms", step.atMs).field("dt_s", step.seconds).field("gained_bytes", step.all.gained);
            out.field("written_bytes", step.all.written).field("remaining_bytes", step.all.remaining);
            if (step.recovering.partitions > 0) {
                out.field("recovering_gained_bytes", step.recovering.gained);
                out.field("recovering_written_bytes", step.recovering.written);
                out.field("recovering_remaining_bytes", step.recovering.remaining);
            }
            out.close();
        }
        out.closeList();
        largest(out);
    }

    /**
     * Adds sums over the partitions of the newest scrape. Write rates cover the partitions with a known rate; without any they are
     * unknown. The remaining bytes are unknown if those of one partition are, because too small a sum would look like the end of
     * the move.
     */
    private void totals(Json out) {
        int listed = 0;
        int listedRated = 0;
        int moving = 0;
        int movingRated = 0;
        int recovering = 0;
        double recoveringBytes = 0;
        int awaitRemote = 0;
        int lagCount = 0;
        double steadyState = 0;
        double write = 0;
        double remaining = 0;
        double lag = 0;
        for (Map.Entry<String, Growth> entry : growthByLabels.entrySet()) {
            Partition partition = newest.get(entry.getKey());
            if (partition == null) {
                continue;
            }
            double rate = entry.getValue().perSecond();
            boolean rated = !Double.isNaN(rate);
            if (partition.counted() > 0) {
                listed++;
                listedRated += rated ? 1 : 0;
            }
            steadyState += rated ? rate * partition.counted() : 0;
            if (partition.adding()) {
                moving++;
                movingRated += rated ? 1 : 0;
                write += rated ? rate : 0;
            }
            if (partition.recovering()) {
                recovering++;
                recoveringBytes += partition.remainingBytes();
            }
            awaitRemote += partition.awaitsRemote() ? 1 : 0;
            remaining += partition.remainingBytes();
            if (!Double.isNaN(partition.lagMessages())) {
                lagCount++;
                lag += partition.lagMessages();
            }
        }
        out.field("moving_partitions", moving).field("listed_partitions", listed).field("done_partitions", done());
        out.field("remaining_bytes", remaining);
        out.field("recovering_partitions", recovering).field("recovering_bytes", recoveringBytes);
        out.field("await_remote_partitions", awaitRemote);
        out.field("lag_messages", lagCount > 0 ? lag : Double.NaN);
        out.field("steady_state_bytes_per_s", listed == 0 || listedRated > 0 ? steadyState : Double.NaN);
        out.field("write_bytes_per_s", moving == 0 || movingRated > 0 ? write : Double.NaN);
    }

    /** Returns the number of partitions that moved in this window and no longer move in its newest scrape. */
    private int done() {
        Set<String> finished = new HashSet<>();
        for (Row scrape : scrapes) {
            scrape.partitions().forEach((labels, partition) -> {
                if (partition.adding()) {
                    finished.add(labels);
                }
            });
        }
        newest.forEach((labels, partition) -> {
            if (partition.adding()) {
                finished.remove(labels);
            }
        });
        return finished.size();
    }

    /**
     * Adds the slope of a least-squares line: x is the time since the first scrape, and y the sum of the changes of the remaining
     * bytes, which has no jumps when partitions join.
     */
    private void slope(Json out) {
        Line line = new Line();
        double x = 0;
        double y = 0;
        line.add(x, y);
        for (Step step : steps) {
            x += step.seconds;
            y += step.remainingChange;
            line.add(x, y);
        }
        out.field("remaining_slope_bytes_per_s", line.slope()).field("remaining_slope_r2", line.r2());
    }

    /** Returns the seconds since the end of the last step that gained bytes; unknown without such a step. */
    private double progressAgeS(long sampledAtMs) {
        long lastMs = Long.MIN_VALUE;
        for (Step step : steps) {
            if (step.all.gained > 0) {
                lastMs = Math.max(lastMs, step.atMs);
            }
        }
        return lastMs == Long.MIN_VALUE ? Double.NaN : (sampledAtMs - lastMs) / 1000.0;
    }

    private record MovingPartition(String labels, int partition, double remaining) {}

    /**
     * Adds the moving partitions of the newest scrape with the most remaining bytes. Labels without a partition number are
     * skipped.
     */
    private void largest(Json out) {
        List<MovingPartition> moving = new ArrayList<>();
        newest.forEach((labels, partition) -> {
            Matcher number = partition.adding() ? PARTITION.matcher(labels) : null;
            if (number != null && number.matches()) {
                moving.add(new MovingPartition(labels, Integer.parseInt(number.group(1)), partition.remainingBytes()));
            }
        });
        // Partitions with unknown remaining bytes come last. Adding 0.0 makes −0.0 equal to 0.0.
        moving.sort(Comparator.<MovingPartition>comparingDouble(
                        partition -> Double.isNaN(partition.remaining) ? Double.NEGATIVE_INFINITY : partition.remaining + 0.0)
                .thenComparing(MovingPartition::labels)
                .reversed());
        out.openList("largest");
        for (MovingPartition largest : moving.subList(0, Math.min(LARGEST_SHOWN, moving.size()))) {
            int topicAt = largest.labels.lastIndexOf(TOPIC);
            out.open().field("topic", topicAt < 0 ? largest.labels : largest.labels.substring(topicAt + TOPIC.length()));
            out.field("partition", largest.partition).field("remaining_bytes", largest.remaining);
            out.field("write_bytes_per_s", growthByLabels.get(largest.labels).perSecond()).close();
        }
        out.closeList();
    }
}
