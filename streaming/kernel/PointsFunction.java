package rheostat.stream;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Groups the data points of a batch (formats/otlp.py) into scrapes, by cluster, role, node and time. Spark's own expressions would
 * compare each point with each group.
 */
final class PointsFunction extends KernelFunction {
    private static final long serialVersionUID = 1;
    private static final int FIELDS = 7;
    private static final int CLUSTER = 0;
    private static final int ROLE = 1;
    private static final int NODE = 2;
    private static final int TS = 3;
    private static final int NAME = 4;
    private static final int LABELS = 5;
    private static final int VALUE = 6;

    PointsFunction() {
        super(
                "scrapes_of_points",
                "array<struct<reason: string, cluster: string, node: int, role: string, ts: bigint,"
                        + " samples: array<struct<n: string, l: string, v: double>>>>",
                "array<struct<cluster: string, role: string, node: int, ts: bigint, n: string, l: string, v: double>>");
    }

    /** The owner of a scrape; role and time may be null. */
    private record Owner(UTF8String cluster, UTF8String role, int node, Long ts) {}

    @Override
    public Object produceResult(InternalRow in) {
        if (in.isNullAt(0)) {
            return null;
        }
        ArrayData points = in.getArray(0);
        Map<Owner, List<Object>> samples = new LinkedHashMap<>();
        for (int i = 0; i < points.numElements(); i++) {
            InternalRow point = points.getStruct(i, FIELDS);
            if (point.isNullAt(NODE) || point.isNullAt(LABELS) || point.isNullAt(VALUE) || !Fold.isNumber(point.getDouble(VALUE))) {
                continue;
            }
            Owner owner = new Owner(
                    point.getUTF8String(CLUSTER),
                    point.isNullAt(ROLE) ? null : point.getUTF8String(ROLE),
                    point.getInt(NODE),
                    point.isNullAt(TS) ? null : (Long) point.getLong(TS));
            samples.computeIfAbsent(owner, first -> new ArrayList<>()).add(row(
                    point.getUTF8String(NAME), point.getUTF8String(LABELS), point.getDouble(VALUE)));
        }
        List<Object> scrapes = new ArrayList<>(samples.size());
        samples.forEach((owner, own) -> scrapes.add(
                row(null, owner.cluster, owner.node, owner.role, owner.ts, new GenericArrayData(own.toArray()))));
        return new GenericArrayData(scrapes.toArray());
    }

    private static InternalRow row(Object... values) {
        return new GenericInternalRow(values);
    }
}
