package rheostat.stream;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Which samples make which field of which signal, as Python tells it (streaming/kernel/tables.py, made of
 * streaming/signal_fields.py). One object for each text in a JVM: a task reads it back as the one that is there.
 */
final class Tables implements Serializable {
    private static final long serialVersionUID = 1;
    private static final Map<String, Tables> KNOWN = new ConcurrentHashMap<>();

    private final String text;

    final transient int scrapeVersion;
    final transient int signalVersion;
    final transient NodeTable broker;
    final transient NodeTable controller;
    /** Field → sample, in the order of a tenant's gauges. */
    final transient String[] tenantFields;
    final transient Map<String, Integer> tenantGauges = new HashMap<>();
    final transient PartitionNames partitions;
    /** By name, of samples without labels. */
    final transient Map<String, Slot> single = new HashMap<>();
    /** By name and labels. */
    final transient Map<String, Map<String, Slot>> labelled = new HashMap<>();
    /** By name, of samples with labels that are summed over them. */
    final transient Map<String, Slot> summed = new HashMap<>();

    static Tables of(String text) {
        return KNOWN.computeIfAbsent(text, Tables::new);
    }

    private Tables(String text) {
        this.text = text;
        try {
            JsonNode all = new ObjectMapper().readTree(text);
            scrapeVersion = all.get("scrape_version").intValue();
            signalVersion = all.get("signal_version").intValue();
            broker = new NodeTable(all.get("broker"));
            controller = new NodeTable(all.get("controller"));
            tenantFields = texts(all.get("tenant_fields"));
            String[] tenantNames = texts(all.get("tenant_names"));
            for (int i = 0; i < tenantNames.length; i++) {
                tenantGauges.put(tenantNames[i], i);
            }
            partitions = new PartitionNames(all.get("partitions"));
        } catch (IOException error) {
            throw new UncheckedIOException("the tables cannot be read", error);
        }
        place(broker, true);
        place(controller, false);
        broker.surely.forEach(name -> single.get(name).surelyBroker = true);
        controller.surely.forEach(name -> single.get(name).surelyController = true);
    }

    private Object readResolve() {
        return of(text);
    }

    private void place(NodeTable table, boolean ofBroker) {
        for (int i = 0; i < table.counters.length; i++) {
            slot(table.counters[i]).into(ofBroker, true, i);
        }
        for (int i = 0; i < table.gauges.length; i++) {
            slot(table.gauges[i]).into(ofBroker, false, i);
        }
    }

    private Slot slot(Wanted wanted) {
        if (wanted.labels == null) {
            // Of a scrape that comes in parts a sample without labels is the counter itself.
            Slot slot = summed.computeIfAbsent(wanted.name, name -> new Slot(true));
            single.put(wanted.name, slot);
            return slot;
        }
        return wanted.labels.isEmpty()
                ? single.computeIfAbsent(wanted.name, name -> new Slot(false))
                : labelled.computeIfAbsent(wanted.name, name -> new HashMap<>())
                        .computeIfAbsent(wanted.labels, labels -> new Slot(false));
    }

    private static String[] texts(JsonNode list) {
        List<String> found = new ArrayList<>();
        list.forEach(one -> found.add(one.isNull() ? null : one.textValue()));
        return found.toArray(new String[0]);
    }

    private static int[] numbers(JsonNode list) {
        int[] found = new int[list.size()];
        for (int i = 0; i < found.length; i++) {
            found[i] = list.get(i).intValue();
        }
        return found;
    }

    /** A sample that somebody asks for; labels are null where it is summed over all of them. */
    record Wanted(String name, String labels) {}

    /** Where in the rows of which kind of node a sample goes; -1 where it does not. */
    static final class Slot {
        final boolean summed;
        /** Only this kind of node has it. */
        boolean surelyBroker;
        boolean surelyController;
        int brokerCounter = -1;
        int brokerGauge = -1;
        int controllerCounter = -1;
        int controllerGauge = -1;

        Slot(boolean summed) {
            this.summed = summed;
        }

        void into(boolean ofBroker, boolean counter, int place) {
            int taken = counter
                    ? (ofBroker ? brokerCounter : controllerCounter)
                    : (ofBroker ? brokerGauge : controllerGauge);
            if (taken >= 0) {
                throw new IllegalArgumentException("two fields of one kind of node are made of the same sample");
            }
            if (ofBroker && counter) {
                brokerCounter = place;
            } else if (ofBroker) {
                brokerGauge = place;
            } else if (counter) {
                controllerCounter = place;
            } else {
                controllerGauge = place;
            }
        }
    }

    /** What is measured of a kind of node, and what of that its signal tells. */
    static final class NodeTable {
        final Wanted[] counters;
        final Wanted[] gauges;
        /** Names without labels that only this kind of node has. */
        final List<String> surely;
        /** Counters that follow the measured ones: a mean (a gauge) times a count (a counter). */
        final int[] totalMeans;
        final int[] totalCounts;
        /** Names of the first rates; those that follow are for the means only. */
        final String[] rates;
        /** For each of these rates the gauge that stands for it where a source has made a rate itself, or -1. */
        final int[] smoothed;
        final String[] gaugeFields;
        final int[] gaugePlaces;
        /** Means over the window: the increase of a total over that of a count, by their places among the rates. */
        final String[] means;
        final int[] meanTotals;
        final int[] meanCounts;
        /** The places of single rates and gauges that have a meaning of their own. */
        final Map<String, Integer> places = new HashMap<>();

        NodeTable(JsonNode all) {
            counters = wanted(all.get("counters"));
            gauges = wanted(all.get("gauges"));
            surely = List.of(texts(all.get("surely")));
            totalMeans = numbers(all.get("total_means"));
            totalCounts = numbers(all.get("total_counts"));
            rates = texts(all.get("rates"));
            smoothed = numbers(all.get("smoothed"));
            gaugeFields = texts(all.get("gauge_fields"));
            gaugePlaces = numbers(all.get("gauge_places"));
            means = texts(all.get("means"));
            meanTotals = numbers(all.get("mean_totals"));
            meanCounts = numbers(all.get("mean_counts"));
            all.get("places").fields().forEachRemaining(one -> places.put(one.getKey(), one.getValue().intValue()));
        }

        int place(String field) {
            return places.get(field);
        }

        private static Wanted[] wanted(JsonNode list) {
            List<Wanted> found = new ArrayList<>();
            list.forEach(one -> found.add(
                    new Wanted(one.get(0).textValue(), one.get(1).isNull() ? null : one.get(1).textValue())));
            return found.toArray(new Wanted[0]);
        }
    }

    /** The names of the samples that are of partitions. */
    static final class PartitionNames {
        final String prefix;
        final String ledSize;
        final String ledCounted;
        final String ledRemaining;
        final String followedSize;
        final String followedLeaderSize;
        final String followedCounted;
        final String followedAdding;
        final String followedLag;

        PartitionNames(JsonNode all) {
            prefix = all.get("prefix").textValue();
            ledSize = all.get("led_size").textValue();
            ledCounted = all.get("led_counted").textValue();
            ledRemaining = all.get("led_remaining").textValue();
            followedSize = all.get("followed_size").textValue();
            followedLeaderSize = all.get("followed_leader_size").textValue();
            followedCounted = all.get("followed_counted").textValue();
            followedAdding = all.get("followed_adding").textValue();
            followedLag = all.get("followed_lag").textValue();
        }
    }
}
