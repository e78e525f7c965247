package rheostat.stream;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/** Turns the scrapes of one record, as a format returns them (formats/common.py), into entities (streaming/entities.py). */
final class EntitiesFunction extends KernelFunction {
    private static final long serialVersionUID = 1;
    static final String ENTITIES =
            "array<struct<cluster: string, kind: string, node: int, part: string, time: timestamp, row: binary>>";

    private static final int CLOCK_ERROR_MS_MAX = 30_000;
    // With message.timestamp.type=CreateTime, one sender with a fast clock would close the windows of all others. A record from the
    // future counts as received now. The tolerance is half the watermark delay, so that other records do not become late.
    private static final int AHEAD_MS_MAX = 5_000;
    private static final long OWN_MS_MAX = 1L << 52;
    private static final int HEAD_BYTES = 256;
    // The name is in key and value of every signal; a record too large for Kafka would end the query.
    private static final int CLUSTER_LENGTH_MAX = 255;
    private static final int NO_NODE = -1;
    private static final UTF8String REJECT = UTF8String.fromString("reject");

    private static final int REASON = 0;
    private static final int CLUSTER = 1;
    private static final int NODE = 2;
    private static final int ROLE = 3;
    private static final int TS = 4;
    private static final int SAMPLES = 5;
    private static final int SCRAPE_FIELDS = 6;
    private static final int SAMPLE_FIELDS = 3;

    private final Tables tables;

    EntitiesFunction(Tables tables) {
        super(
                "entities",
                ENTITIES,
                "array<struct<reason: string, cluster: string, node: int, role: string, ts: bigint,"
                        + " samples: array<struct<n: string, l: string, v: double>>>>",
                "binary", "string", "int", "bigint", "bigint", "bigint", "bigint", "boolean", "string", "bigint", "bigint");
        this.tables = tables;
    }

    @Override
    public Object produceResult(InternalRow in) {
        if (in.isNullAt(0)) {
            return Fold.array(List.of());
        }
        ArrayData scrapes = in.getArray(0);
        Record record = new Record(in);
        boolean whole = in.getBoolean(8);
        List<Object> entities = new ArrayList<>();
        for (int i = 0; i < scrapes.numElements(); i++) {
            if (scrapes.isNullAt(i)) {
                continue;
            }
            InternalRow scrape = scrapes.getStruct(i, SCRAPE_FIELDS);
            String reason = refusalReason(scrape);
            if (reason != null) {
                entities.add(record.refused(reason, tables.scrapeVersion));
                continue;
            }
            Fold fold = new Fold(tables, whole);
            ArrayData samples = scrape.isNullAt(SAMPLES) ? null : scrape.getArray(SAMPLES);
            for (int index = 0; samples != null && index < samples.numElements(); index++) {
                if (!samples.isNullAt(index)) {
                    InternalRow sample = samples.getStruct(index, SAMPLE_FIELDS);
                    boolean known = !sample.isNullAt(2);
                    fold.sample(text(sample, 0), text(sample, 1), known ? sample.getDouble(2) : Double.NaN, known);
                }
            }
            boolean hasTime = !scrape.isNullAt(TS);
            Row.Times times = times(hasTime, hasTime ? scrape.getLong(TS) : 0, record.atMs, record.nowMs, in.getLong(7));
            fold.into(entities, scrape.getUTF8String(CLUSTER), scrape.getInt(NODE), text(scrape, ROLE), times);
        }
        return Fold.array(entities);
    }

    /**
     * Returns why the scrape is refused, or null. Also checks fields that every format must set, because the query would fail
     * without them.
     */
    private static String refusalReason(InternalRow scrape) {
        if (!scrape.isNullAt(REASON)) {
            return scrape.getUTF8String(REASON).toString();
        }
        if (scrape.isNullAt(CLUSTER) || scrape.isNullAt(NODE)) {
            return "the record has no cluster or no node";
        }
        return isName(scrape.getUTF8String(CLUSTER).toString())
                ? null
                : "the name of the cluster is empty or longer than " + CLUSTER_LENGTH_MAX + " characters";
    }

    static boolean isName(String cluster) {
        return !cluster.isEmpty() && cluster.length() <= CLUSTER_LENGTH_MAX;
    }

    private static String text(InternalRow row, int index) {
        return row.isNullAt(index) ? null : row.getUTF8String(index).toString();
    }

    static long atMs(long takenMs, long nowMs) {
        return Math.min(takenMs, nowMs + AHEAD_MS_MAX);
    }

    /** Returns the times of a row. A sender's time far out of range would overflow sums and is ignored. */
    static Row.Times times(boolean hasTime, long ts, long atMs, long nowMs, long everyMs) {
        long ownMs = hasTime && ts >= 0 && ts <= OWN_MS_MAX ? ts : atMs;
        boolean clocksAgree = ownMs >= atMs - CLOCK_ERROR_MS_MAX && ownMs <= atMs + CLOCK_ERROR_MS_MAX;
        return new Row.Times(nowMs, ownMs, clocksAgree ? ownMs : atMs, atMs, everyMs);
    }

    /** Origin and time of a record. */
    private static final class Record {
        final byte[] value;
        final String topic;
        final int partition;
        final long offset;
        final long atMs;
        final long nowMs;
        final String kafka;
        final long extraDelayMs;
        final long rejectSlots;

        Record(InternalRow in) {
            value = in.isNullAt(1) ? new byte[0] : in.getBinary(1);
            topic = in.getUTF8String(2).toString();
            partition = in.getInt(3);
            offset = in.getLong(4);
            nowMs = in.getLong(6);
            atMs = EntitiesFunction.atMs(in.getLong(5), nowMs);
            kafka = in.getUTF8String(9).toString();
            extraDelayMs = in.getLong(10);
            rejectSlots = in.getLong(11);
        }

        /** Returns an entity with key and value of a record for the rejects topic (shared/contract/scrapes.py). */
        InternalRow refused(String reason, int scrapeVersion) {
            Json reject = new Json().open().field("v", scrapeVersion);
            if (!kafka.isEmpty()) {
                reject.field("kafka", kafka);
            }
            byte[] head = Arrays.copyOf(value, Math.min(value.length, HEAD_BYTES));
            reject.field("topic", topic).field("partition", partition).field("offset", offset).field("reason", reason);
            reject.field("head", Base64.getEncoder().encodeToString(head)).close();

            // The reject is written in the batch that read it, and its state should be removed soon: otherwise a flood of rejects
            // would fill the heap while the watermark waits for the slowest source. Its time must not be behind the watermark.
            long slotMs = extraDelayMs > 0 ? Math.min(atMs, nowMs - extraDelayMs) : atMs;
            String origin = (kafka.isEmpty() ? "" : kafka + "|") + topic + "-" + partition;
            UTF8String slot = UTF8String.fromString(origin + "-" + (rejectSlots > 0 ? offset % rejectSlots : offset));
            byte[] row = Row.refusal(nowMs, slotMs, Fold.utf8(origin + "-" + offset), reject.toArray());
            return Fold.entity(UTF8String.EMPTY_UTF8, REJECT, NO_NODE, slot, slotMs, row);
        }
    }
}
