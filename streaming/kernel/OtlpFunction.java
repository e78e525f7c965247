package rheostat.stream;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Turns OpenTelemetry metrics in protobuf (ExportMetricsServiceRequest) into the struct that formats/otlp_json.py has after parsing.
 * formats/otlp.py makes scrapes of either. Metrics that rheostat does not read are skipped as a whole.
 *
 * <p>The depth is that of the fields below, because all other fields are skipped by their length.
 */
final class OtlpFunction extends KernelFunction {
    private static final long serialVersionUID = 1;
    private static final String ATTRIBUTES = "array<struct<key: string, value: struct<stringValue: string, intValue: string>>>";
    private static final String POINTS =
            "array<struct<attributes: " + ATTRIBUTES + ", timeUnixNano: bigint, asDouble: double, asInt: bigint, flags: int>>";
    private static final String METRICS =
            "array<struct<name: string, unit: string, gauge: struct<dataPoints: " + POINTS + ">,"
                    + " sum: struct<aggregationTemporality: string, dataPoints: " + POINTS + ">>>";
    private static final String RECORD =
            "struct<problem: string, resourceMetrics: array<struct<resource: struct<attributes: " + ATTRIBUTES + ">,"
                    + " scopeMetrics: array<struct<metrics: " + METRICS + ">>>>>";

    // Field numbers of opentelemetry/proto/metrics/v1/metrics.proto, resource.proto and common.proto. Exporters may send a field's
    // parts in any order.
    private static final int REQUEST_RESOURCES = 1;
    private static final int RESOURCE = 1;
    private static final int RESOURCE_SCOPES = 2;
    private static final int RESOURCE_ATTRIBUTE = 1;
    private static final int SCOPE_METRICS = 2;
    private static final int METRIC_NAME = 1;
    private static final int METRIC_UNIT = 3;
    private static final int METRIC_GAUGE = 5;
    private static final int METRIC_SUM = 7;
    private static final int DATA_POINTS = 1;
    private static final int SUM_TEMPORALITY = 2;
    private static final int POINT_TIME = 3;
    private static final int POINT_DOUBLE = 4;
    private static final int POINT_INT = 6;
    private static final int POINT_ATTRIBUTE = 7;
    private static final int POINT_FLAGS = 8;
    private static final int ATTRIBUTE_KEY = 1;
    private static final int ATTRIBUTE_VALUE = 2;
    private static final int VALUE_STRING = 1;
    private static final int VALUE_INT = 3;

    private final Tables tables;

    OtlpFunction(Tables tables) {
        super("otlp", RECORD, "binary");
        this.tables = tables;
    }

    @Override
    public Object produceResult(InternalRow in) {
        if (in.isNullAt(0)) {
            return null;
        }
        try {
            return row(null, new Request().resources(new Wire(in.getBinary(0))));
        } catch (Wire.Malformed problem) {
            return row(UTF8String.fromString(problem.getMessage()), null);
        }
    }

    private static InternalRow row(Object... values) {
        return new GenericInternalRow(values);
    }

    private static GenericArrayData array(List<Object> values) {
        return new GenericArrayData(values.toArray());
    }

    /** One record. */
    private final class Request {
        /**
         * A bound on the objects that a record makes, as two bytes suffice for an empty one. A record of 1 MB, the default limit of
         * the Collector and of Kafka, has at most 20,000 data points with some attributes each.
         */
        private static final int PARTS_MAX = 200_000;
        private int parts;

        GenericArrayData resources(Wire request) throws Wire.Malformed {
            List<Object> resources = new ArrayList<>();
            while (request.next()) {
                if (request.is(REQUEST_RESOURCES, Wire.BYTES)) {
                    count();
                    resources.add(resource(request.message()));
                } else {
                    request.skip();
                }
            }
            return array(resources);
        }

        private void count() throws Wire.Malformed {
            if (++parts > PARTS_MAX) {
                throw new Wire.Malformed("the record has more than " + PARTS_MAX + " data points, attributes and other parts");
            }
        }

        private InternalRow resource(Wire wire) throws Wire.Malformed {
            List<Object> attributes = new ArrayList<>();
            List<Object> scopes = new ArrayList<>();
            while (wire.next()) {
                if (wire.is(RESOURCE, Wire.BYTES)) {
                    Wire resource = wire.message();
                    while (resource.next()) {
                        attribute(resource, RESOURCE_ATTRIBUTE, attributes);
                    }
                } else if (wire.is(RESOURCE_SCOPES, Wire.BYTES)) {
                    count();
                    scopes.add(row(metrics(wire.message())));
                } else {
                    wire.skip();
                }
            }
            return row(row(array(attributes)), array(scopes));
        }

        private GenericArrayData metrics(Wire scope) throws Wire.Malformed {
            List<Object> metrics = new ArrayList<>();
            while (scope.next()) {
                if (scope.is(SCOPE_METRICS, Wire.BYTES)) {
                    count();
                    metric(scope.message(), metrics);
                } else {
                    scope.skip();
                }
            }
            return array(metrics);
        }

        /** Adds a metric that rheostat reads. */
        private void metric(Wire wire, List<Object> metrics) throws Wire.Malformed {
            UTF8String name = UTF8String.EMPTY_UTF8;
            UTF8String unit = null;
            Wire gauge = null;
            Wire sum = null;
            while (wire.next()) {
                if (wire.is(METRIC_NAME, Wire.BYTES)) {
                    name = wire.text();
                } else if (wire.is(METRIC_UNIT, Wire.BYTES)) {
                    unit = wire.text();
                } else if (wire.is(METRIC_GAUGE, Wire.BYTES)) {
                    gauge = wire.message();
                } else if (wire.is(METRIC_SUM, Wire.BYTES)) {
                    sum = wire.message();
                } else {
                    wire.skip();
                }
            }
            if (tables.otlpNames.contains(name.toLowerCase())) {
                metrics.add(row(name, unit, gauge == null ? null : gauge(gauge), sum == null ? null : sum(sum)));
            }
        }

        private InternalRow gauge(Wire wire) throws Wire.Malformed {
            List<Object> points = new ArrayList<>();
            while (wire.next()) {
                if (wire.is(DATA_POINTS, Wire.BYTES)) {
                    points.add(point(wire.message()));
                } else {
                    wire.skip();
                }
            }
            return row(array(points));
        }

        private InternalRow sum(Wire wire) throws Wire.Malformed {
            List<Object> points = new ArrayList<>();
            long temporality = 0;
            while (wire.next()) {
                if (wire.is(DATA_POINTS, Wire.BYTES)) {
                    points.add(point(wire.message()));
                } else if (wire.is(SUM_TEMPORALITY, Wire.VARINT)) {
                    temporality = wire.varint();
                } else {
                    wire.skip();
                }
            }
            return row(UTF8String.fromString(Long.toString(temporality)), array(points));
        }

        private InternalRow point(Wire wire) throws Wire.Malformed {
            count();
            List<Object> attributes = new ArrayList<>(4);
            Long nanos = null;
            Double real = null;
            Long whole = null;
            int flags = 0;
            while (wire.next()) {
                if (wire.is(POINT_TIME, Wire.FIXED64)) {
                    nanos = wire.fixed64();
                } else if (wire.is(POINT_DOUBLE, Wire.FIXED64)) {
                    real = Double.longBitsToDouble(wire.fixed64());
                } else if (wire.is(POINT_INT, Wire.FIXED64)) {
                    whole = wire.fixed64();
                } else if (wire.is(POINT_FLAGS, Wire.VARINT)) {
                    flags = (int) wire.varint();
                } else {
                    attribute(wire, POINT_ATTRIBUTE, attributes);
                }
            }
            return row(array(attributes), nanos, real, whole, flags);
        }

        /** Adds the current field to the attributes if it is one; skips other fields. */
        private void attribute(Wire wire, int number, List<Object> attributes) throws Wire.Malformed {
            if (!wire.is(number, Wire.BYTES)) {
                wire.skip();
                return;
            }
            count();
            Wire pair = wire.message();
            UTF8String key = UTF8String.EMPTY_UTF8;
            InternalRow value = null;
            while (pair.next()) {
                if (pair.is(ATTRIBUTE_KEY, Wire.BYTES)) {
                    key = pair.text();
                } else if (pair.is(ATTRIBUTE_VALUE, Wire.BYTES)) {
                    value = value(pair.message());
                } else {
                    pair.skip();
                }
            }
            attributes.add(row(key, value));
        }

        /** Returns a text or a whole number as text; other kinds of values name no node and no label. */
        private static InternalRow value(Wire wire) throws Wire.Malformed {
            UTF8String text = null;
            UTF8String number = null;
            while (wire.next()) {
                if (wire.is(VALUE_STRING, Wire.BYTES)) {
                    text = wire.text();
                } else if (wire.is(VALUE_INT, Wire.VARINT)) {
                    number = UTF8String.fromString(Long.toString(wire.varint()));
                } else {
                    wire.skip();
                }
            }
            return row(text, number);
        }
    }
}
