package rheostat.stream;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The lags of a follower in one scrape: those of its fetcher threads and of the partitions with the largest lags. NaN means
 * unknown.
 *
 * @param gauges values over all lags, in the order of Tables.lagFields
 * @param earlierSums sums of the lags before this scrape; most scrapes have none
 * @param partitions by labels, topic and partition only
 */
record Lags(
        double[] gauges,
        List<EarlierSum> earlierSums,
        List<FetcherThread> threads,
        Map<String, LaggingPartition> partitions) {
    /** In place of a thread that the agent does not report. */
    static final int UNKNOWN_ID = -1;

    /** Most threads and most partitions of one scrape; the collector sends far fewer. They bound the state and the signal. */
    static final int ITEMS_MAX = 128;

    /** The sum of all lags some time before the scrape. */
    record EarlierSum(double ageS, double lagSum) {}

    /**
     * One fetcher thread.
     *
     * @param source broker that the thread copies from
     * @param partitions steady partitions with a known lag
     * @param bytes counter of the bytes that the thread has copied
     */
    record FetcherThread(
            int source,
            int fetcher,
            double partitions,
            double lagSum,
            double lagMax,
            double addingPartitions,
            double addingLagSum,
            double bytes) {

        /** Source and number as one value. */
        long key() {
            return Lags.key(source, fetcher);
        }
    }

    /**
     * One partition that the broker follows.
     *
     * @param endOffset log end offset of the leader
     * @param bytes log size of the leader
     */
    record LaggingPartition(int source, int fetcher, double lag, double endOffset, double bytes) {}

    static long key(int source, int fetcher) {
        return ((long) source << Integer.SIZE) | fetcher;
    }

    /** Returns the sum of the lags of one fetcher thread; NaN if the scrape does not report it. */
    double lagSumOf(long key) {
        for (FetcherThread thread : threads) {
            if (thread.key() == key) {
                return thread.lagSum;
            }
        }
        return Double.NaN;
    }

    static Lags read(ByteBuffer in) {
        double[] gauges = numbers(in, in.getShort());
        int count = in.getShort();
        List<EarlierSum> earlierSums = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            earlierSums.add(new EarlierSum(in.getDouble(), in.getDouble()));
        }
        count = in.getShort();
        List<FetcherThread> threads = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            int source = in.getInt();
            int fetcher = in.getInt();
            double[] values = numbers(in, 6);
            threads.add(new FetcherThread(
                    source, fetcher, values[0], values[1], values[2], values[3], values[4], values[5]));
        }
        count = in.getShort();
        Map<String, LaggingPartition> partitions = new LinkedHashMap<>(2 * count);
        for (int i = 0; i < count; i++) {
            String labels = Row.text(in);
            int source = in.getInt();
            int fetcher = in.getInt();
            double[] values = numbers(in, 3);
            partitions.put(labels, new LaggingPartition(source, fetcher, values[0], values[1], values[2]));
        }
        return new Lags(gauges, earlierSums, threads, partitions);
    }

    void write(Bytes out) {
        out.int16(gauges.length);
        for (double gauge : gauges) {
            out.float64(gauge);
        }
        out.int16(earlierSums.size());
        earlierSums.forEach(earlier -> out.float64(earlier.ageS).float64(earlier.lagSum));
        out.int16(threads.size());
        for (FetcherThread thread : threads) {
            out.int32(thread.source).int32(thread.fetcher).float64(thread.partitions).float64(thread.lagSum);
            out.float64(thread.lagMax).float64(thread.addingPartitions).float64(thread.addingLagSum).float64(thread.bytes);
        }
        out.int16(partitions.size());
        partitions.forEach((labels, partition) -> {
            out.shortText(labels).int32(partition.source).int32(partition.fetcher).float64(partition.lag);
            out.float64(partition.endOffset).float64(partition.bytes);
        });
    }

    private static double[] numbers(ByteBuffer in, int count) {
        double[] numbers = new double[count];
        for (int i = 0; i < count; i++) {
            numbers[i] = in.getDouble();
        }
        return numbers;
    }
}
