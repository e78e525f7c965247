package rheostat.stream;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Maps samples to the fields of signals, as defined by streaming/signal_fields.py and passed on by streaming/kernel/tables.py. A
 * JVM has one object per text; deserialization in a task returns that object.
 */
final class Tables implements Serializable {
    private static final long serialVersionUID = 1;
    private static final Map<String, Tables> KNOWN = new ConcurrentHashMap<>();

    private final String text;

    final transient int scrapeVersion;
    final transient int signalVersion;
    /** Names, in lower case, of the OpenTelemetry metrics that rheostat reads. */
    final transient Set<UTF8String> otlpNames = new HashSet<>();
    final transient NodeTable broker;
    final transient NodeTable controller;
    /** Field names in the order of a tenant's gauges. */
    final transient String[] tenantFields;
    final transient Map<String, Integer> tenantGauges = new HashMap<>();
    final transient PartitionNames partitions;
    /** Field names in the order of the gauges of a follower's lags. */
    final transient String[] lagFields;
    private final transient Map<String, Integer> lagIndexes = new HashMap<>();
    final transient LagNames lags;
    /** Slots of samples without labels, by name. */
    final transient Map<String, Slot> single = new HashMap<>();
    /** Slots by name and labels. */
    final transient Map<String, Map<String, Slot>> labelled = new HashMap<>();
    /** Slots of samples that are summed over their labels, by name. Of a gauge the largest counts. */
    final transient Map<String, Slot> summed = new HashMap<>();

    static Tables of(String text) {
        return KNOWN.computeIfAbsent(text, Tables::new);
    }

    private Tables(String text) {
        this.text = text;
        try {
            JsonNode tables = new ObjectMapper().readTree(text);
            scrapeVersion = tables.get("scrape_version").intValue();
            signalVersion = tables.get("signal_version").intValue();
            for (String name : texts(tables.get("otlp_names"))) {
                otlpNames.add(UTF8String.fromString(name));
            }
            broker = new NodeTable(tables.get("broker"));
            controller = new NodeTable(tables.get("controller"));
            tenantFields = texts(tables.get("tenant_fields"));
            String[] tenantNames = texts(tables.get("tenant_names"));
            for (int i = 0; i < tenantNames.length; i++) {
                tenantGauges.put(tenantNames[i], i);
            }
            partitions = new PartitionNames(tables.get("partitions"));
            lagFields = texts(tables.get("lag_fields"));
            String[] lagNames = texts(tables.get("lag_names"));
            for (int i = 0; i < lagNames.length; i++) {
                single.computeIfAbsent(lagNames[i], name -> new Slot(false)).lagGauge = i;
                lagIndexes.put(lagFields[i], i);
            }
            lags = new LagNames(tables.get("lags"));
        } catch (IOException error) {
            throw new UncheckedIOException("the tables cannot be read", error);
        }
        assignSlots(broker, true);
        assignSlots(controller, false);
        broker.provingSamples.forEach(name -> single.get(name).provesBroker = true);
        controller.provingSamples.forEach(name -> single.get(name).provesController = true);
    }

    /** Returns by gauge of a kind of entity whether the largest value counts instead of the latest. */
    boolean[] largest(String kind) {
        return switch (kind) {
            case "broker" -> broker.largest;
            case "controller" -> controller.largest;
            default -> new boolean[0];
        };
    }

    /** Returns the index of a gauge of a follower's lags. */
    int lagGauge(String field) {
        return lagIndexes.get(field);
    }

    private Object readResolve() {
        return of(text);
    }

    private void assignSlots(NodeTable table, boolean ofBroker) {
        for (int i = 0; i < table.counters.length; i++) {
            slot(table.counters[i]).assign(ofBroker, true, i);
        }
        for (int i = 0; i < table.gauges.length; i++) {
            slot(table.gauges[i]).assign(ofBroker, false, i);
        }
    }

    private Slot slot(SampleName sample) {
        if (sample.summedLabels != null) {
            // One slot for all of them.
            Slot slot = new Slot(true);
            Map<String, Slot> byLabels = labelled.computeIfAbsent(sample.name, name -> new HashMap<>());
            for (String labels : sample.summedLabels) {
                byLabels.put(labels, slot);
            }
            return slot;
        }
        if (sample.labels == null) {
            // In a partial scrape, a sample without labels is the counter itself.
            Slot slot = summed.computeIfAbsent(sample.name, name -> new Slot(true));
            single.put(sample.name, slot);
            return slot;
        }
        return sample.labels.isEmpty()
                ? single.computeIfAbsent(sample.name, name -> new Slot(false))
                : labelled.computeIfAbsent(sample.name, name -> new HashMap<>())
                        .computeIfAbsent(sample.labels, labels -> new Slot(false));
    }

    private static String[] texts(JsonNode list) {
        List<String> texts = new ArrayList<>();
        list.forEach(item -> texts.add(item.isNull() ? null : item.textValue()));
        return texts.toArray(new String[0]);
    }

    private static int[] numbers(JsonNode list) {
        int[] numbers = new int[list.size()];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = list.get(i).intValue();
        }
        return numbers;
    }

    /**
     * A sample used by a signal. Summed over {@code summedLabels}, if given; else over all labels if labels are null. Of a gauge the
     * largest counts instead of the sum.
     */
    record SampleName(String name, String labels, String[] summedLabels) {}

    /** Positions of a sample in the rows of brokers and controllers; -1 if it is not used there. */
    static final class Slot {
        final boolean summed;
        /** Whether only this kind of node has the sample. */
        boolean provesBroker;
        boolean provesController;
        int brokerCounter = -1;
        int brokerGauge = -1;
        int controllerCounter = -1;
        int controllerGauge = -1;
        /** Position in the gauges of a follower's lags. */
        int lagGauge = -1;

        Slot(boolean summed) {
            this.summed = summed;
        }

        /** Sets the position of the sample in the counters or gauges of one kind of node. */
        void assign(boolean ofBroker, boolean isCounter, int index) {
            int assigned = isCounter
                    ? (ofBroker ? brokerCounter : controllerCounter)
                    : (ofBroker ? brokerGauge : controllerGauge);
            if (assigned >= 0) {
                throw new IllegalArgumentException("two fields of one kind of node are made of the same sample");
            }
            if (ofBroker && isCounter) {
                brokerCounter = index;
            } else if (ofBroker) {
                brokerGauge = index;
            } else if (isCounter) {
                controllerCounter = index;
            } else {
                controllerGauge = index;
            }
        }
    }

    /** Measurements of one kind of node, and the parts of them in its signal. */
    static final class NodeTable {
        final SampleName[] counters;
        final SampleName[] gauges;
        /** By gauge: whether the largest value over its labels counts. */
        final boolean[] largest;
        /** Names of unlabelled samples that only this kind of node has; they prove the kind. */
        final List<String> provingSamples;
        /** Totals, which follow the measured counters: a mean (gauge) times a count (counter). */
        final int[] totalFactorGauges;
        final int[] totalFactorCounters;
        /** Field names of the first rates; later ones only serve the means. */
        final String[] rates;
        /** For each of these rates, the gauge with a rate that the source computed, or -1. */
        final int[] smoothed;
        final String[] copiedGauges;
        final int[] copiedGaugeIndexes;
        /** Means over the window: rate of a total divided by rate of a count, by position. */
        final String[] means;
        final int[] meanNumerators;
        final int[] meanDenominators;
        /** Indexes of the rates and gauges that the kernel uses by name. */
        final Map<String, Integer> indexes = new HashMap<>();

        NodeTable(JsonNode table) {
            counters = samples(table.get("counters"));
            gauges = samples(table.get("gauges"));
            largest = new boolean[gauges.length];
            for (int i = 0; i < gauges.length; i++) {
                largest[i] = gauges[i].labels == null && gauges[i].summedLabels == null;
            }
            provingSamples = List.of(texts(table.get("proving_samples")));
            totalFactorGauges = numbers(table.get("total_factor_gauges"));
            totalFactorCounters = numbers(table.get("total_factor_counters"));
            rates = texts(table.get("rates"));
            smoothed = numbers(table.get("smoothed"));
            copiedGauges = texts(table.get("copied_gauges"));
            copiedGaugeIndexes = numbers(table.get("copied_gauge_indexes"));
            means = texts(table.get("means"));
            meanNumerators = numbers(table.get("mean_numerators"));
            meanDenominators = numbers(table.get("mean_denominators"));
            table.get("indexes").fields().forEachRemaining(entry -> indexes.put(entry.getKey(), entry.getValue().intValue()));
        }

        int index(String field) {
            return indexes.get(field);
        }

        private static SampleName[] samples(JsonNode list) {
            List<SampleName> samples = new ArrayList<>();
            list.forEach(pair -> {
                JsonNode labels = pair.get(1);
                samples.add(new SampleName(
                        pair.get(0).textValue(), labels.textValue(), labels.isArray() ? texts(labels) : null));
            });
            return samples.toArray(new SampleName[0]);
        }
    }

    /** Names of the samples about partitions. */
    static final class PartitionNames {
        final String prefix;
        final String ledSize;
        final String ledCounted;
        final String ledRemaining;
        final String ledRecovering;
        final String followedSize;
        final String followedLeaderSize;
        final String followedCounted;
        final String followedAdding;
        final String followedAwaitsRemote;
        final String followedLag;

        PartitionNames(JsonNode names) {
            prefix = names.get("prefix").textValue();
            ledSize = names.get("led_size").textValue();
            ledCounted = names.get("led_counted").textValue();
            ledRecovering = names.get("led_recovering").textValue();
            ledRemaining = names.get("led_remaining").textValue();
            followedSize = names.get("followed_size").textValue();
            followedLeaderSize = names.get("followed_leader_size").textValue();
            followedCounted = names.get("followed_counted").textValue();
            followedAdding = names.get("followed_adding").textValue();
            followedAwaitsRemote = names.get("followed_awaits_remote").textValue();
            followedLag = names.get("followed_lag").textValue();
        }
    }

    /** Names of the samples about lags that have labels. */
    static final class LagNames {
        final String prefix;
        final String partition;
        final String partitionEndOffset;
        final String partitionSize;
        final String earlierSum;
        /** Positions of the values of a fetcher thread, by name. */
        final Map<String, Integer> threadValues = new HashMap<>();

        LagNames(JsonNode names) {
            prefix = names.get("prefix").textValue();
            partition = names.get("partition").textValue();
            partitionEndOffset = names.get("partition_end_offset").textValue();
            partitionSize = names.get("partition_size").textValue();
            earlierSum = names.get("earlier_sum").textValue();
            String[] threadNames = texts(names.get("threads"));
            for (int i = 0; i < threadNames.length; i++) {
                threadValues.put(threadNames[i], i);
            }
        }
    }
}
