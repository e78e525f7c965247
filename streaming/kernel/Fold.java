package rheostat.stream;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Collects the samples of one scrape and turns them into rows (defined in streaming/entities.py).
 *
 * <p>Each sample is looked up once by its name. Of several samples with the same name and labels the last counts, for tenants the
 * first. Counters that are summed over labels are added up in a whole scrape, and kept separately in a partial one. Of a gauge with
 * any labels the largest value counts.
 */
final class Fold {
    /** Above any measured quantity. shared/contract/bounds.py and formats/common.py have the same limit. */
    static final double VALUE_MAX = 1e24;

    /**
     * Longer than any labels of Kafka. Labels are in keys and values of signals, and a record too large for Kafka would end the
     * query.
     */
    private static final int LABELS_LENGTH_MAX = 2048;
    private static final long MICROS_PER_MS = 1000;
    private static final double COUNT_MAX = 1L << 53;
    private static final UTF8String BROKER = UTF8String.fromString("broker");
    private static final UTF8String CONTROLLER = UTF8String.fromString("controller");
    private static final UTF8String MOVE = UTF8String.fromString("move");
    private static final UTF8String TENANT = UTF8String.fromString("tenant");
    private static final UTF8String LEADER = UTF8String.fromString("leader");
    private static final UTF8String FOLLOWER = UTF8String.fromString("follower");
    private static final UTF8String NONE = UTF8String.EMPTY_UTF8;

    private final Tables tables;
    private final boolean whole;
    private final Node broker;
    private final Node controller;
    // Empty for most nodes.
    private Map<String, double[]> led = Map.of();
    private Map<String, double[]> followed = Map.of();
    private Map<String, Double[]> tenants = Map.of();
    private final LagFold lags;

    /** Measurements of the node as a broker, or as a controller. */
    private static final class Node {
        final long[] counters;
        final double[] gauges;
        /** Whether the gauge was present, even without a valid number. */
        final boolean[] gaugePresent;
        /** Whether a sample proves that the process is this kind of node. */
        boolean kindProven;
        List<Row.Sum> sums;
        double[] totals;

        Node(Tables.NodeTable table) {
            counters = new long[table.counters.length];
            Arrays.fill(counters, Row.ABSENT);
            gauges = new double[table.gauges.length];
            Arrays.fill(gauges, Double.NaN);
            gaugePresent = new boolean[gauges.length];
        }

        void count(int index, double value) {
            counters[index] = isCount(value) ? (long) value : Row.ABSENT;
        }

        void gauge(int index, double value, boolean known) {
            gauges[index] = known && isNumber(value) ? value : Double.NaN;
            gaugePresent[index] = known;
        }

        /** Keeps the largest value of a gauge over its labels. */
        void largest(int index, double value) {
            gauge(index, gaugePresent[index] && gauges[index] > value ? gauges[index] : value, true);
        }

        /** Adds the value of one label to the sum of a counter. */
        void addToTotal(int index, double value) {
            if (totals == null) {
                totals = new double[counters.length];
                Arrays.fill(totals, Double.NaN);
            }
            totals[index] = Double.isNaN(totals[index]) ? value : totals[index] + value;
            count(index, totals[index]);
        }

        /** Keeps the value of one label separately. */
        void keepLabel(int index, String labels, double value) {
            if (isCount(value)) {
                sums = sums == null ? new ArrayList<>() : sums;
                sums.add(new Row.Sum(index, labels, (long) value));
            }
        }

        boolean hasValues() {
            if (sums != null) {
                return true;
            }
            for (long counter : counters) {
                if (counter != Row.ABSENT) {
                    return true;
                }
            }
            for (boolean present : gaugePresent) {
                if (present) {
                    return true;
                }
            }
            return false;
        }
    }

    Fold(Tables tables, boolean whole) {
        this.tables = tables;
        this.whole = whole;
        this.broker = new Node(tables.broker);
        this.controller = new Node(tables.controller);
        this.lags = new LagFold(tables);
    }

    /** Adds a sample; ignores one without a name. {@code known} tells whether it has a value. */
    void sample(String name, String labels, double value, boolean known) {
        if (name == null || labels == null || labels.length() > LABELS_LENGTH_MAX) {
            return;
        }
        if (labels.isEmpty()) {
            Tables.Slot slot = tables.single.get(name);
            if (slot != null) {
                broker.kindProven |= slot.provesBroker;
                controller.kindProven |= slot.provesController;
                // In a whole scrape, a sample without labels is not part of the sum over labels.
                if (!(slot.summed && whole)) {
                    put(slot, value, known);
                }
            }
            return;
        }
        if (name.startsWith(tables.partitions.prefix)) {
            if (known && isNumber(value)) {
                partitionSample(name, labels, value);
            }
            return;
        }
        if (name.startsWith(tables.lags.prefix)) {
            if (known && isNumber(value)) {
                lags.sample(name, labels, value);
            }
            return;
        }
        Map<String, Tables.Slot> byLabels = tables.labelled.get(name);
        if (byLabels != null) {
            Tables.Slot slot = byLabels.get(labels);
            if (slot != null && !slot.summed) {
                put(slot, value, known);
            } else if (slot != null && known && isNumber(value)) {
                sum(slot, labels, value);
            }
        }
        Tables.Slot summed = tables.summed.get(name);
        if (summed != null && known && isNumber(value)) {
            sum(summed, labels, value);
        }
        Integer gauge = tables.tenantGauges.get(name);
        if (gauge != null) {
            tenantSample(labels, gauge, known && isNumber(value) ? value : Double.NaN);
        }
    }

    private void put(Tables.Slot slot, double value, boolean known) {
        double count = known ? value : Double.NaN;
        if (slot.brokerCounter >= 0) {
            broker.count(slot.brokerCounter, count);
        }
        if (slot.controllerCounter >= 0) {
            controller.count(slot.controllerCounter, count);
        }
        if (slot.brokerGauge >= 0) {
            broker.gauge(slot.brokerGauge, value, known);
        }
        if (slot.controllerGauge >= 0) {
            controller.gauge(slot.controllerGauge, value, known);
        }
        if (slot.lagGauge >= 0) {
            lags.gauge(slot.lagGauge, known && isNumber(value) ? value : Double.NaN);
        }
    }

    private void sum(Tables.Slot slot, String labels, double value) {
        if (slot.brokerCounter >= 0) {
            sum(broker, slot.brokerCounter, labels, value);
        }
        if (slot.controllerCounter >= 0) {
            sum(controller, slot.controllerCounter, labels, value);
        }
        if (slot.brokerGauge >= 0) {
            broker.largest(slot.brokerGauge, value);
        }
        if (slot.controllerGauge >= 0) {
            controller.largest(slot.controllerGauge, value);
        }
    }

    private void sum(Node node, int index, String labels, double value) {
        if (whole) {
            node.addToTotal(index, value);
        } else {
            // Other labels may arrive in another record.
            node.keepLabel(index, labels, value);
        }
    }

    // Positions of the values of one partition, on the leader side and on the follower side.
    private static final int SIZE = 0;
    private static final int COUNTED = 1;
    private static final int REMAINING = 2;
    private static final int LEADER_SIZE = 2;
    private static final int ADDING = 3;
    private static final int RECOVERING = 3;
    /** Value of the sample of a replica that recovers; 1: it is being added. */
    private static final double IS_RECOVERING = 2;
    private static final int LAG = 4;
    private static final int AWAITS_REMOTE = 5;

    private void partitionSample(String name, String labels, double value) {
        Tables.PartitionNames names = tables.partitions;
        if (name.equals(names.ledSize)) {
            ledValues(labels)[SIZE] = value;
        } else if (name.equals(names.ledCounted)) {
            ledValues(labels)[COUNTED] = value;
        } else if (name.equals(names.ledRemaining)) {
            ledValues(labels)[REMAINING] = value;
        } else if (name.equals(names.ledRecovering)) {
            ledValues(labels)[RECOVERING] = value;
        } else if (name.equals(names.followedSize)) {
            followedValues(labels)[SIZE] = value;
        } else if (name.equals(names.followedLeaderSize)) {
            followedValues(labels)[LEADER_SIZE] = value;
        } else if (name.equals(names.followedCounted)) {
            followedValues(labels)[COUNTED] = value;
        } else if (name.equals(names.followedAdding)) {
            followedValues(labels)[ADDING] = value;
        } else if (name.equals(names.followedLag)) {
            followedValues(labels)[LAG] = value;
        } else if (name.equals(names.followedAwaitsRemote)) {
            followedValues(labels)[AWAITS_REMOTE] = value;
        }
    }

    private double[] ledValues(String labels) {
        led = led.isEmpty() ? new LinkedHashMap<>() : led;
        return led.computeIfAbsent(labels, absent -> unknownValues());
    }

    private double[] followedValues(String labels) {
        followed = followed.isEmpty() ? new LinkedHashMap<>() : followed;
        return followed.computeIfAbsent(labels, absent -> unknownValues());
    }

    private static double[] unknownValues() {
        double[] values = new double[AWAITS_REMOTE + 1];
        Arrays.fill(values, Double.NaN);
        return values;
    }

    private void tenantSample(String labels, int gauge, double value) {
        tenants = tenants.isEmpty() ? new LinkedHashMap<>() : tenants;
        Double[] gauges = tenants.computeIfAbsent(labels, absent -> new Double[tables.tenantFields.length]);
        if (gauges[gauge] == null) {
            gauges[gauge] = value;
        }
    }

    /**
     * Adds the scrape's rows of {@code cluster, kind, node, part, time, row} to the entities.
     *
     * @param role one of contract.NodeRole; null if the format does not name it
     */
    void into(List<Object> entities, UTF8String cluster, int node, String role, Row.Times times) {
        boolean isController = "controller".equals(role);
        if (!isController) {
            boolean proven = broker.kindProven || "broker".equals(role);
            addNode(entities, cluster, BROKER, node, broker, proven, times, lags.lags());
        }
        // A process may be both broker and controller.
        if (controller.kindProven || role == null) {
            addNode(entities, cluster, CONTROLLER, node, controller, controller.kindProven, times, null);
        }
        addMove(entities, cluster, node, LEADER, ledPartitions(), times);
        addMove(entities, cluster, node, FOLLOWER, followedPartitions(), times);
        tenants.forEach((labels, values) -> {
            double[] gauges = new double[values.length];
            for (int i = 0; i < gauges.length; i++) {
                gauges[i] = values[i] == null ? Double.NaN : values[i];
            }
            byte[] row = Row.bytes(times, false, null, gauges, null, null, null);
            entities.add(entity(cluster, TENANT, node, UTF8String.fromString(labels), times.atMs(), row));
        });
    }

    private static void addNode(
            List<Object> entities,
            UTF8String cluster,
            UTF8String kind,
            int node,
            Node values,
            boolean kindProven,
            Row.Times times,
            Lags lags) {
        // A row without values for this kind of node is left out.
        if (kindProven || lags != null || values.hasValues()) {
            byte[] row = Row.bytes(times, kindProven, values.counters, values.gauges, values.sums, null, lags);
            entities.add(entity(cluster, kind, node, NONE, times.atMs(), row));
        }
    }

    private static void addMove(
            List<Object> entities,
            UTF8String cluster,
            int node,
            UTF8String side,
            Map<String, Partition> partitions,
            Row.Times times) {
        if (!partitions.isEmpty()) {
            byte[] row = Row.bytes(times, false, null, null, null, partitions, null);
            entities.add(entity(cluster, MOVE, node, side, times.atMs(), row));
        }
    }

    private Map<String, Partition> ledPartitions() {
        Map<String, Partition> partitions = new LinkedHashMap<>(2 * led.size());
        led.forEach((labels, values) -> {
            boolean adding = !Double.isNaN(values[REMAINING]);
            double remaining = adding ? values[REMAINING] : 0.0;
            double counted = Partition.orZero(values[COUNTED]);
            boolean recovering = adding && values[RECOVERING] > 0;
            partitions.put(
                    labels, new Partition(values[SIZE], Double.NaN, counted, adding, recovering, false, remaining, Double.NaN));
        });
        return partitions;
    }

    private Map<String, Partition> followedPartitions() {
        Map<String, Partition> partitions = new LinkedHashMap<>(2 * followed.size());
        followed.forEach((labels, values) -> {
            boolean adding = values[ADDING] > 0;
            double leaderBytes = values[LEADER_SIZE];
            double ownBytes = values[SIZE];
            double remaining = adding ? Partition.excess(leaderBytes, ownBytes) : 0.0;
            double lag = adding ? values[LAG] : Double.NaN;
            double counted = Partition.orZero(values[COUNTED]);
            boolean recovering = values[ADDING] == IS_RECOVERING;
            boolean awaitsRemote = adding && values[AWAITS_REMOTE] > 0;
            partitions.put(
                    labels,
                    new Partition(leaderBytes, ownBytes, counted, adding, recovering, awaitsRemote, remaining, lag));
        });
        return partitions;
    }

    static InternalRow entity(UTF8String cluster, UTF8String kind, int node, UTF8String part, long atMs, byte[] row) {
        return new GenericInternalRow(new Object[] {cluster, kind, node, part, atMs * MICROS_PER_MS, row});
    }

    static GenericArrayData array(List<Object> entities) {
        return new GenericArrayData(entities.toArray());
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static boolean isNumber(double value) {
        return Math.abs(value) < VALUE_MAX;
    }

    private static boolean isCount(double value) {
        return value >= 0 && value <= COUNT_MAX;
    }
}
