package rheostat.stream;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Collects the labelled samples about lags of one scrape. Samples with other labels than the collector's are skipped. */
final class LagFold {
    private static final Pattern THREAD = Pattern.compile("fetcher=(\\d{1,9}),source=(\\d{1,9})");
    /** Labels of a partition; the groups are fetcher, partition, source and topic. */
    static final Pattern PARTITION = Pattern.compile(
            "(?:fetcher=(\\d{1,9}),)?partition=(\\d{1,9}),(?:source=(\\d{1,9}),)?topic=(.+)", Pattern.DOTALL);
    private static final int LAG = 0;
    private static final int END_OFFSET = 1;
    private static final int SIZE = 2;

    private static final Pattern AGE = Pattern.compile("age_s=(\\d{1,5}(?:\\.\\d{1,3})?)");

    private final Tables.LagNames names;
    private final double[] gauges;
    // Empty for most nodes.
    private List<Lags.EarlierSum> earlierSums = List.of();
    private Map<String, double[]> threads = Map.of();
    private Map<String, double[]> partitions = Map.of();
    private Map<String, int[]> threadsOfPartitions = Map.of();

    LagFold(Tables tables) {
        this.names = tables.lags;
        this.gauges = unknown(tables.lagFields.length);
    }

    /** Sets a value over all lags, by its position in the lag gauges. */
    void gauge(int index, double value) {
        gauges[index] = value;
    }

    void sample(String name, String labels, double value) {
        Integer threadValue = names.threadValues.get(name);
        if (threadValue != null) {
            threads = threads.isEmpty() ? new LinkedHashMap<>() : threads;
            put(threads, labels, names.threadValues.size(), threadValue, value);
        } else if (name.equals(names.partition)) {
            partition(labels, value);
        } else if (name.equals(names.partitionEndOffset)) {
            partitionValue(labels, END_OFFSET, value);
        } else if (name.equals(names.partitionSize)) {
            partitionValue(labels, SIZE, value);
        } else if (name.equals(names.earlierSum)) {
            Matcher match = AGE.matcher(labels);
            if (match.matches() && earlierSums.size() < Lags.ITEMS_MAX) {
                earlierSums = earlierSums.isEmpty() ? new ArrayList<>() : earlierSums;
                earlierSums.add(new Lags.EarlierSum(Double.parseDouble(match.group(1)), value));
            }
        }
    }

    private void partition(String labels, double lag) {
        Matcher match = PARTITION.matcher(labels);
        if (!match.matches()) {
            return;
        }
        String key = "partition=" + match.group(2) + ",topic=" + match.group(4);
        partitionValue(key, LAG, lag);
        if (match.group(1) != null && match.group(3) != null) {
            threadsOfPartitions = threadsOfPartitions.isEmpty() ? new LinkedHashMap<>() : threadsOfPartitions;
            threadsOfPartitions.put(key, new int[] {Integer.parseInt(match.group(3)), Integer.parseInt(match.group(1))});
        }
    }

    private void partitionValue(String labels, int index, double value) {
        partitions = partitions.isEmpty() ? new LinkedHashMap<>() : partitions;
        put(partitions, labels, SIZE + 1, index, value);
    }

    private static void put(Map<String, double[]> values, String labels, int count, int index, double value) {
        if (values.size() < Lags.ITEMS_MAX || values.containsKey(labels)) {
            values.computeIfAbsent(labels, absent -> unknown(count))[index] = value;
        }
    }

    private static double[] unknown(int count) {
        double[] values = new double[count];
        Arrays.fill(values, Double.NaN);
        return values;
    }

    /** Returns the lags of the scrape; null if it has none. */
    Lags lags() {
        List<Lags.FetcherThread> threadList = new ArrayList<>(threads.size());
        threads.forEach((labels, v) -> {
            Matcher match = THREAD.matcher(labels);
            if (match.matches()) {
                int fetcher = Integer.parseInt(match.group(1));
                threadList.add(new Lags.FetcherThread(
                        Integer.parseInt(match.group(2)), fetcher, v[0], v[1], v[2], v[3], v[4], v[5]));
            }
        });
        Map<String, Lags.LaggingPartition> lagging = new LinkedHashMap<>();
        partitions.forEach((labels, v) -> {
            // Offset and size alone say nothing: the lag was not measured in this scrape.
            if (!Double.isNaN(v[LAG])) {
                int[] thread = threadsOfPartitions.getOrDefault(labels, new int[] {Lags.UNKNOWN_ID, Lags.UNKNOWN_ID});
                lagging.put(
                        labels, new Lags.LaggingPartition(thread[0], thread[1], v[LAG], v[END_OFFSET], v[SIZE]));
            }
        });
        boolean isKnown = Arrays.stream(gauges).anyMatch(gauge -> !Double.isNaN(gauge));
        return isKnown || !threadList.isEmpty() || !lagging.isEmpty() ? new Lags(gauges, earlierSums, threadList, lagging) : null;
    }
}
