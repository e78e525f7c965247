package rheostat.stream;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;

/**
 * Turns a span of one entity, as the state keeps it, into key and value of the records of its due and touched windows
 * (streaming/signals.py defines these terms).
 */
final class RecordsFunction extends KernelFunction {
    private static final long serialVersionUID = 1;
    private static final GenericArrayData NONE = new GenericArrayData(new Object[0]);

    private final Tables tables;

    RecordsFunction(Tables tables) {
        super(
                "records",
                "array<struct<key: binary, value: binary>>",
                "string", "string", "int", "string", "array<binary>", "binary", "bigint", "bigint", "bigint", "bigint",
                "boolean");
        this.tables = tables;
    }

    @Override
    public Object produceResult(InternalRow in) {
        String kind = in.getUTF8String(1).toString();
        long nowMs = in.getLong(7);
        if (kind.equals("reject")) {
            Row.Refusal refusal = Row.Refusal.of(in.getBinary(5));
            return refusal.seenMs() == nowMs ? new GenericArrayData(new Object[] {record(refusal.key(), refusal.value())}) : NONE;
        }
        Span span = new Span(in.getLong(6), in.getLong(8), in.getLong(9));
        ArrayData storedRows = in.getArray(4);
        Row[] rows = new Row[storedRows.numElements()];
        for (int i = 0; i < rows.length; i++) {
            rows[i] = Row.of(storedRows.getBinary(i));
        }
        Arrays.sort(rows, Row.IN_ORDER);
        String cluster = in.getUTF8String(0).toString();
        Signal.Entity entity = new Signal.Entity(cluster, kind, in.getInt(2), in.getUTF8String(3).toString());
        Signal signal = new Signal(tables, entity, span.windowMs, in.getBoolean(10));
        Signal.Entity follower = new Signal.Entity(cluster, "replication", in.getInt(2), "");
        Signal lagSignal = new Signal(tables, follower, span.windowMs, in.getBoolean(10));
        List<Object> records = new ArrayList<>();
        for (long endMs : span.due(rows, nowMs)) {
            List<Row> history = history(rows, endMs, span.windowMs, kind, tables.largest(kind));
            byte[] value = signal.value(history, endMs);
            if (value != null) {
                records.add(record(entity.key(endMs), value));
            }
            List<Row> withLags = history.stream().filter(row -> row.lags() != null).toList();
            if (!withLags.isEmpty() && withLags.get(withLags.size() - 1).atMs >= endMs - span.hopMs) {
                records.add(record(follower.key(endMs), lagSignal.value(withLags, endMs)));
            }
        }
        return new GenericArrayData(records.toArray());
    }

    private static InternalRow record(byte[] key, byte[] value) {
        return new GenericInternalRow(new Object[] {key, value});
    }

    /** Two windows of an entity. It produces the windows that end in its second half. */
    private record Span(long startMs, long windowMs, long hopMs) {
        long halfMs() {
            return startMs + windowMs;
        }

        long endAfter(long atMs) {
            return atMs - atMs % hopMs + hopMs;
        }

        /** Returns the ends of the windows that contain a row of this batch and have a row of any batch within their last slide. */
        Set<Long> due(Row[] rows, long nowMs) {
            Set<Long> due = new LinkedHashSet<>();
            for (Row row : rows) {
                if (row.seenMs == nowMs) {
                    long first = endAfter(row.atMs);
                    long last = Math.min(first + windowMs - hopMs, halfMs() + windowMs);
                    for (long end = Math.max(first, endAfter(halfMs())); end <= last; end += hopMs) {
                        due.add(end);
                    }
                }
            }
            due.removeIf(end -> Arrays.stream(rows).noneMatch(row -> row.atMs >= end - hopMs && row.atMs < end));
            return due;
        }
    }

    /**
     * Returns the rows of the window in ascending order, one per scrape.
     *
     * @param largest by gauge: whether the largest value of a scrape counts instead of the last
     */
    private static List<Row> history(Row[] rows, long endMs, long windowMs, String kind, boolean[] largest) {
        List<Row> inside = new ArrayList<>(rows.length);
        Set<Long> times = new HashSet<>();
        for (Row row : rows) {
            if (row.atMs >= endMs - windowMs && row.atMs < endMs) {
                inside.add(row);
                times.add(row.ownMs);
            }
        }
        return kind.equals("move") || times.size() == inside.size() ? inside : joinScrapes(inside, largest);
    }

    /** Joins rows of the same scrape, for formats with one record per metric and for records delivered twice. */
    private static List<Row> joinScrapes(List<Row> rows, boolean[] largest) {
        // A sender's clock that was set back shows the same time twice; Kafka's time distinguishes the two scrapes.
        record ScrapeTime(long ownMs, long kafkaTimeSlot) {}
        Map<ScrapeTime, List<Row>> scrapes = new LinkedHashMap<>();
        for (Row row : rows) {
            ScrapeTime time = new ScrapeTime(row.ownMs, Math.floorDiv(row.atMs, Rates.CLOCK_STEP_MS_MAX));
            scrapes.computeIfAbsent(time, absent -> new ArrayList<>()).add(row);
        }
        List<Row> joined = new ArrayList<>(scrapes.size());
        scrapes.values().forEach(parts -> joined.add(joinParts(parts, largest)));
        return joined;
    }

    private static Row joinParts(List<Row> parts, boolean[] largest) {
        if (parts.size() == 1) {
            return parts.get(0);
        }
        // The earliest time, because a record delivered again later was still measured then.
        long atMs = Long.MAX_VALUE;
        boolean kindProven = false;
        long[] counters = {};
        double[] gauges = {};
        List<Row.Sum> sums = new ArrayList<>();
        Lags lags = null;
        for (Row part : parts) {
            atMs = Math.min(atMs, part.atMs);
            kindProven |= part.kindProven;
            counters = latest(counters, part.counters());
            gauges = Signal.latest(gauges, part.gauges(), largest);
            if (part.sums() != null) {
                sums.addAll(Arrays.asList(part.sums()));
            }
            lags = part.lags() == null ? lags : part.lags();
        }
        Row.Sum[] allSums = sums.isEmpty() ? null : sums.toArray(new Row.Sum[0]);
        return new Row(parts.get(parts.size() - 1), atMs, kindProven, counters, gauges, allSums, lags);
    }

    private static long[] latest(long[] older, long[] now) {
        if (now == null) {
            return older;
        }
        long[] latest = now.clone();
        for (int i = 0; i < older.length; i++) {
            latest[i] = now[i] == Row.ABSENT ? older[i] : now[i];
        }
        return latest;
    }
}
