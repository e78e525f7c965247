"""Tables for the Java kernel, as JSON: sample names, and their positions in the arrays of a row (Tables.java)."""

from __future__ import annotations

import json
from typing import Any

from streaming.shared.contract import SCRAPE_VERSION, SIGNAL_VERSION, Metric
from streaming.signal_fields import (
    BROKER_COUNTERS,
    BROKER_GAUGES,
    BROKER_MEANS,
    BROKER_ONLY_SAMPLES,
    BROKER_TOTALS,
    CONTROLLER_COUNTERS,
    CONTROLLER_GAUGES,
    CONTROLLER_MEANS,
    CONTROLLER_ONLY_SAMPLES,
    CONTROLLER_TOTALS,
    SMOOTHED,
    TENANT_GAUGES,
    FieldSamples,
    Totals,
)

PARTITION_PREFIX = "rheostat_move_"  # Prefix of all samples about a partition.


def _node(
    counters: FieldSamples,
    gauges: FieldSamples,
    totals: Totals,
    means: Totals,
    only_samples: list[str],
    *,
    first_hidden: str,
    first_shown: int,
    places: dict[str, int],
) -> dict[str, Any]:
    """Returns the table of one kind of node.

    Args:
        only_samples: samples that only this kind of node reports; the kernel recognises the kind by them.
        first_hidden: the first of the counters that only serve the means and are not in the signal.
        first_shown: index of the first gauge that the signal copies; the kernel evaluates those before it.
        places: indexes of the rates and gauges that the kernel uses by name.
    """
    counter_names, gauge_names = [*counters, *totals], list(gauges)
    rates = list(counters)[: list(counters).index(first_hidden)]
    mean_gauges = {mean for mean, _ in totals.values()}
    shown = [field for field in gauge_names[first_shown:] if field not in mean_gauges and not field.endswith(SMOOTHED)]
    return {
        "counters": list(counters.values()),
        "gauges": list(gauges.values()),
        "surely": only_samples,
        "total_means": [gauge_names.index(mean) for mean, _ in totals.values()],
        "total_counts": [counter_names.index(count) for _, count in totals.values()],
        "rates": rates,
        "smoothed": [gauge_names.index(field + SMOOTHED) if field + SMOOTHED in gauges else -1 for field in rates],
        "gauge_fields": shown,
        "gauge_places": [gauge_names.index(field) for field in shown],
        "means": list(means),
        "mean_totals": [counter_names.index(total) for total, _ in means.values()],
        "mean_counts": [counter_names.index(count) for _, count in means.values()],
        "places": places,
    }


def _rate(field: str) -> int:
    return list(BROKER_COUNTERS).index(field)


TABLES = json.dumps(
    {
        "scrape_version": SCRAPE_VERSION,
        "signal_version": SIGNAL_VERSION,
        "broker": _node(
            BROKER_COUNTERS,
            BROKER_GAUGES,
            BROKER_TOTALS,
            BROKER_MEANS,
            BROKER_ONLY_SAMPLES,
            first_hidden="produced_per_s",
            first_shown=2,
            places={
                "leader_throttled": list(BROKER_GAUGES).index("leader_throttled_bytes_per_s"),
                "follower_throttled": list(BROKER_GAUGES).index("follower_throttled_bytes_per_s"),
                "network_in": _rate("network_in_bytes_per_s"),
                "network_out": _rate("network_out_bytes_per_s"),
                "replication_in": _rate("replication_in_bytes_per_s"),
                "replication_out": _rate("replication_out_bytes_per_s"),
                "reassignment_in": _rate("reassignment_in_bytes_per_s"),
                "reassignment_out": _rate("reassignment_out_bytes_per_s"),
            },
        ),
        "controller": _node(
            CONTROLLER_COUNTERS,
            CONTROLLER_GAUGES,
            CONTROLLER_TOTALS,
            CONTROLLER_MEANS,
            CONTROLLER_ONLY_SAMPLES,
            first_hidden="processed_per_s",
            first_shown=0,
            places={
                name: len(CONTROLLER_COUNTERS) + list(CONTROLLER_TOTALS).index(f"{name}_per_s")
                for name in ("queued_ms", "created_ms", "deleted_ms")
            },
        ),
        "tenant_fields": list(TENANT_GAUGES),
        "tenant_names": list(TENANT_GAUGES.values()),
        "partitions": {
            "prefix": PARTITION_PREFIX,
            "led_size": Metric.LED_SIZE,
            "led_counted": Metric.LED_COUNTED,
            "led_remaining": Metric.LED_REMAINING,
            "followed_size": Metric.FOLLOWED_SIZE,
            "followed_leader_size": Metric.FOLLOWED_LEADER_SIZE,
            "followed_counted": Metric.FOLLOWED_COUNTED,
            "followed_adding": Metric.FOLLOWED_ADDING,
            "followed_lag": Metric.FOLLOWED_LAG,
        },
    }
)
