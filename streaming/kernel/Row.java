package rheostat.stream;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * One row of the state: the samples of an entity at one time, as bytes, because a stateful operator copies one value faster than
 * many. Most rows need their times only, so the rest is decoded on demand.
 *
 * <p>Layout, big-endian. LAYOUT in streaming/kernel/__init__.py is its version; a checkpoint of another version is refused.
 *
 * <pre>
 *   seen, own, ts, at, every   8 bytes each, ms; see Times
 *   kindProven                 1 byte: whether a sample proves the kind of the node
 *   counters                   2 bytes: number, or -1; 8 each, ABSENT if missing
 *   gauges                     2 bytes: number, or -1; 8 each, NaN if missing
 *   sums                       4 bytes: number, or -1; each has 2: index of counter, 2: length of labels, the labels, 8: value
 *   partitions                 4 bytes: number, or -1; each has 2: length of labels, the labels, 5 x 8, 1
 *   lags                       1 byte: 1, or 0 for none; then
 *     gauges                   2 bytes: number; 8 each, NaN if missing
 *     earlier sums             2 bytes: number; each has 2 x 8
 *     threads                  2 bytes: number; each has 2 x 4, 6 x 8
 *     partitions               2 bytes: number; each has 2: length of labels, the labels, 2 x 4, 3 x 8
 * </pre>
 *
 * A refused record has seen, at, and key and value for the rejects topic, with lengths of 2 and 4 bytes. Seen comes first, so
 * that the largest value belongs to the newest batch.
 */
final class Row {
    static final long ABSENT = Long.MIN_VALUE;
    private static final int AFTER_SEEN = 8;
    private static final int AFTER_TIMES = 5 * 8;

    /**
     * Order by the sender's clock. Rows with equal times are ordered by content, not by batch, so that the division into batches
     * does not change results.
     */
    static final Comparator<Row> IN_ORDER = Comparator.<Row>comparingLong(row -> row.ownMs)
            .thenComparingLong(row -> row.ts)
            .thenComparingLong(row -> row.atMs)
            .thenComparing((a, b) ->
                    Arrays.compareUnsigned(a.bytes, AFTER_SEEN, a.bytes.length, b.bytes, AFTER_SEEN, b.bytes.length));

    final long seenMs;
    final long ownMs;
    final long ts;
    final long atMs;
    final long everyMs;
    final boolean kindProven;

    private final byte[] bytes;
    private long[] counters;
    private double[] gauges;
    private Sum[] sums;
    private Map<String, Partition> partitions;
    private Lags lags;
    private boolean decoded;

    /** Value of one label of a counter that is summed over labels. */
    record Sum(int counter, String labels, long value) {}

    private Row(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        this.bytes = bytes;
        seenMs = in.getLong();
        ownMs = in.getLong();
        ts = in.getLong();
        atMs = in.getLong();
        everyMs = in.getLong();
        kindProven = in.get() != 0;
    }

    /** A row joined from others; never stored. Times that are not given are those of the template. */
    Row(Row template, long atMs, boolean kindProven, long[] counters, double[] gauges, Sum[] sums, Lags lags) {
        this.bytes = template.bytes;
        this.seenMs = template.seenMs;
        this.ownMs = template.ownMs;
        this.ts = template.ts;
        this.atMs = atMs;
        this.everyMs = template.everyMs;
        this.kindProven = kindProven;
        this.counters = counters;
        this.gauges = gauges;
        this.sums = sums;
        this.lags = lags;
        this.decoded = true;
    }

    static Row of(byte[] bytes) {
        return new Row(bytes);
    }

    /** Null if the row has none. */
    long[] counters() {
        decode();
        return counters;
    }

    double[] gauges() {
        decode();
        return gauges;
    }

    /** Null if the row has none. */
    Sum[] sums() {
        decode();
        return sums;
    }

    /** Partitions by labels, in the order of the scrape. */
    Map<String, Partition> partitions() {
        decode();
        return partitions;
    }

    /** Returns whether the row has anything but these gauges. */
    boolean hasOtherThan(boolean[] gaugeIndexes) {
        decode();
        if (lags != null || sums != null && sums.length > 0 || partitions != null && !partitions.isEmpty()) {
            return true;
        }
        for (int i = 0; counters != null && i < counters.length; i++) {
            if (counters[i] != ABSENT) {
                return true;
            }
        }
        boolean isEmpty = true;
        for (int i = 0; i < gauges.length; i++) {
            if (!Double.isNaN(gauges[i])) {
                if (i >= gaugeIndexes.length || !gaugeIndexes[i]) {
                    return true;
                }
                isEmpty = false;
            }
        }
        return isEmpty;
    }

    /** Null if the row has none. */
    Lags lags() {
        decode();
        return lags;
    }

    private void decode() {
        if (decoded) {
            return;
        }
        ByteBuffer in = ByteBuffer.wrap(bytes).position(AFTER_TIMES + 1);
        int count = in.getShort();
        if (count >= 0) {
            counters = new long[count];
            for (int i = 0; i < count; i++) {
                counters[i] = in.getLong();
            }
        }
        count = in.getShort();
        gauges = new double[Math.max(count, 0)];
        for (int i = 0; i < count; i++) {
            gauges[i] = in.getDouble();
        }
        count = in.getInt();
        if (count >= 0) {
            sums = new Sum[count];
            for (int i = 0; i < count; i++) {
                sums[i] = new Sum(in.getShort(), text(in), in.getLong());
            }
        }
        count = in.getInt();
        partitions = new LinkedHashMap<>(2 * Math.max(count, 0));
        for (int i = 0; i < count; i++) {
            partitions.put(text(in), Partition.read(in));
        }
        lags = in.get() == 0 ? null : Lags.read(in);
        decoded = true;
    }

    static String text(ByteBuffer in) {
        int length = Short.toUnsignedInt(in.getShort());
        String text = new String(in.array(), in.position(), length, StandardCharsets.UTF_8);
        in.position(in.position() + length);
        return text;
    }

    /** Encodes a row; null means none. */
    static byte[] bytes(
            Times times,
            boolean kindProven,
            long[] counters,
            double[] gauges,
            List<Sum> sums,
            Map<String, Partition> partitions,
            Lags lags) {
        Bytes out = new Bytes(256);
        out.int64(times.seenMs()).int64(times.ownMs()).int64(times.ts()).int64(times.atMs()).int64(times.everyMs());
        out.int8(kindProven ? 1 : 0);
        out.int16(counters == null ? -1 : counters.length);
        if (counters != null) {
            for (long counter : counters) {
                out.int64(counter);
            }
        }
        out.int16(gauges == null ? -1 : gauges.length);
        if (gauges != null) {
            for (double gauge : gauges) {
                out.float64(gauge);
            }
        }
        out.int32(sums == null ? -1 : sums.size());
        if (sums != null) {
            for (Sum sum : sums) {
                out.int16(sum.counter).shortText(sum.labels).int64(sum.value);
            }
        }
        out.int32(partitions == null ? -1 : partitions.size());
        if (partitions != null) {
            partitions.forEach((labels, partition) -> partition.write(out.shortText(labels)));
        }
        out.int8(lags == null ? 0 : 1);
        if (lags != null) {
            lags.write(out);
        }
        return out.toArray();
    }

    /** Encodes a refused record. */
    static byte[] refusal(long seenMs, long atMs, byte[] key, byte[] value) {
        Bytes out = new Bytes(2 * Long.BYTES + Short.BYTES + Integer.BYTES + key.length + value.length);
        return out.int64(seenMs).int64(atMs).int16(key.length).raw(key).int32(value.length).raw(value).toArray();
    }

    /** A decoded refused record: time of its batch, key and value. */
    record Refusal(long seenMs, byte[] key, byte[] value) {
        static Refusal of(byte[] bytes) {
            ByteBuffer in = ByteBuffer.wrap(bytes);
            long seenMs = in.getLong();
            in.getLong();
            byte[] key = new byte[Short.toUnsignedInt(in.getShort())];
            in.get(key);
            byte[] value = new byte[in.getInt()];
            in.get(value);
            return new Refusal(seenMs, key, value);
        }
    }

    /**
     * Times of one scrape in ms.
     *
     * @param seenMs time of the batch that read the record
     * @param ownMs the sender's clock
     * @param ts the time in the signal
     * @param atMs Kafka's timestamp of the record
     * @param everyMs scrape interval of the source
     */
    record Times(long seenMs, long ownMs, long ts, long atMs, long everyMs) {}
}
