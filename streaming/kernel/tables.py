"""Tables for the Java kernel, as JSON (Tables.java reads them).

The kernel folds one scrape of one node into a row of numbers: an array of counters and an array of gauges. The tables name the
sample of each position, and the positions that the kernel combines.
"""

from __future__ import annotations

import json
from typing import Any

from streaming.formats.otlp_names import METRIC_NAMES
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
    LAG_GAUGES,
    SMOOTHED,
    TENANT_GAUGES,
    FieldSamples,
    Totals,
)

PARTITION_PREFIX = "rheostat_move_"  # Prefix of all samples about a tracked partition.
LAG_PREFIX = "rheostat_lag_"  # Prefix of all samples about the lag of a thread or partition.


def _node_table(
    *,
    counters: FieldSamples,
    gauges: FieldSamples,
    totals: Totals,
    means: Totals,
    proving_samples: list[str],
    first_unpublished: str,
    first_copied: int,
    indexes: dict[str, int],
) -> dict[str, Any]:
    """Returns the table of one kind of node.

    Args:
        totals: total → its two factors, a gauge (the mean) and a counter: total = mean × count. In the array of counters the totals
            come after the measured counters.
        means: mean over the window → a total and a counter; the mean is the total's rate divided by the counter's.
        proving_samples: samples that only this kind of node reports; the kernel recognises the kind by them.
        first_unpublished: the first counter whose rate is not in the signal. This counter and the counters after it are only used
            for the means.
        first_copied: index of the first gauge that goes into the signal unchanged. The kernel has rules of its own for the gauges
            before this index.
        indexes: indexes of the rates and gauges that the kernel uses by name.
    """
    counter_names, gauge_names = [*counters, *totals], list(gauges)
    rates = list(counters)[: list(counters).index(first_unpublished)]
    mean_gauges = {mean for mean, _ in totals.values()}
    copied = [
        field for field in gauge_names[first_copied:] if field not in mean_gauges and not field.endswith(SMOOTHED)
    ]
    return {
        "counters": list(counters.values()),
        "gauges": list(gauges.values()),
        "proving_samples": proving_samples,
        "total_factor_gauges": [gauge_names.index(mean) for mean, _ in totals.values()],
        "total_factor_counters": [counter_names.index(count) for _, count in totals.values()],
        "rates": rates,
        # By rate: index of the gauge that replaces the rate of a missing counter; -1 if there is none.
        "smoothed": [gauge_names.index(field + SMOOTHED) if field + SMOOTHED in gauges else -1 for field in rates],
        "copied_gauges": copied,
        "copied_gauge_indexes": [gauge_names.index(field) for field in copied],
        "means": list(means),
        "mean_numerators": [counter_names.index(total) for total, _ in means.values()],
        "mean_denominators": [counter_names.index(count) for _, count in means.values()],
        "indexes": indexes,
    }


def _broker_rate_index(field: str) -> int:
    return list(BROKER_COUNTERS).index(field)


TABLES = json.dumps(
    {
        "scrape_version": SCRAPE_VERSION,
        "signal_version": SIGNAL_VERSION,
        "otlp_names": METRIC_NAMES,
        "broker": _node_table(
            counters=BROKER_COUNTERS,
            gauges=BROKER_GAUGES,
            totals=BROKER_TOTALS,
            means=BROKER_MEANS,
            proving_samples=BROKER_ONLY_SAMPLES,
            first_unpublished="produced_per_s",
            first_copied=2,
            indexes={
                "leader_throttled": list(BROKER_GAUGES).index("leader_throttled_bytes_per_s"),
                "follower_throttled": list(BROKER_GAUGES).index("follower_throttled_bytes_per_s"),
                "network_in": _broker_rate_index("network_in_bytes_per_s"),
                "network_out": _broker_rate_index("network_out_bytes_per_s"),
                "replication_in": _broker_rate_index("replication_in_bytes_per_s"),
                "replication_out": _broker_rate_index("replication_out_bytes_per_s"),
                "reassignment_in": _broker_rate_index("reassignment_in_bytes_per_s"),
                "reassignment_out": _broker_rate_index("reassignment_out_bytes_per_s"),
            },
        ),
        "controller": _node_table(
            counters=CONTROLLER_COUNTERS,
            gauges=CONTROLLER_GAUGES,
            totals=CONTROLLER_TOTALS,
            means=CONTROLLER_MEANS,
            proving_samples=CONTROLLER_ONLY_SAMPLES,
            first_unpublished="processed_per_s",
            first_copied=0,
            # The totals come after the counters in the array.
            indexes={
                name: len(CONTROLLER_COUNTERS) + list(CONTROLLER_TOTALS).index(f"{name}_per_s")
                for name in ("queued_ms", "created_ms", "deleted_ms", "added_ms")
            }
            | {name: list(CONTROLLER_GAUGES).index(name) for name in ("active", "partitions", "topics")},
        ),
        "tenant_fields": list(TENANT_GAUGES),
        "tenant_names": list(TENANT_GAUGES.values()),
        "partitions": {
            "prefix": PARTITION_PREFIX,
            "led_size": Metric.LED_SIZE,
            "led_counted": Metric.LED_COUNTED,
            "led_remaining": Metric.LED_REMAINING,
            "led_recovering": Metric.LED_RECOVERING,
            "followed_size": Metric.FOLLOWED_SIZE,
            "followed_leader_size": Metric.FOLLOWED_LEADER_SIZE,
            "followed_counted": Metric.FOLLOWED_COUNTED,
            "followed_adding": Metric.FOLLOWED_ADDING,
            "followed_awaits_remote": Metric.FOLLOWED_AWAITS_REMOTE,
            "followed_lag": Metric.FOLLOWED_LAG,
        },
        "lag_fields": list(LAG_GAUGES),
        "lag_names": list(LAG_GAUGES.values()),
        "lags": {
            "prefix": LAG_PREFIX,
            # In the order of the numbers of the record FetcherThread (Lags.java).
            "threads": [
                Metric.LAG_THREAD_PARTITIONS,
                Metric.LAG_THREAD_SUM,
                Metric.LAG_THREAD_MAX,
                Metric.LAG_THREAD_ADDING_PARTITIONS,
                Metric.LAG_THREAD_ADDING_SUM,
                Metric.LAG_THREAD_BYTES,
            ],
            "earlier_sum": Metric.LAG_EARLIER_SUM,
            "partition": Metric.LAG_PARTITION,
            "partition_end_offset": Metric.LAG_PARTITION_END_OFFSET,
            "partition_size": Metric.LAG_PARTITION_SIZE,
        },
    }
)
