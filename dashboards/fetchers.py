"""What a throttle cannot change: unused fetcher threads, brokers near their partition limit, replicas that leave the ISR."""

from __future__ import annotations

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards.parts import (
    BYTES,
    COUNT,
    GREEN,
    PER_SECOND,
    RATIO,
    RED,
    YELLOW,
    from_here_on,
    limit_line,
    lines,
    make_dashboard,
    most,
    none_is_well,
    per,
    per_broker,
    query,
    reasons_in_words,
    select,
    thresholds,
    verdict,
)
from streaming.shared.metric_defs import TunerMetric
from tuner.control.throttle.reason_texts import REASON_TEXTS

UID = "rheostat-fetchers"
_WARN_RATIO = 0.8  # `rheostat limits` warns at the same share.


def _fill() -> str:
    """Returns the share of a broker's own limit if the settings name the broker, else of the limit for all others."""
    here, own = per_broker(TunerMetric.PARTITIONS), per_broker(TunerMetric.PARTITIONS_LIMIT)
    of_others = f'max({TunerMetric.PARTITIONS_LIMIT.name}{{cluster="$cluster", broker=""}})'
    return f"({here} / {own} or {here} / on () group_left () {of_others})"


def wrong() -> list[stat.Panel]:
    return [
        verdict(
            "Fetcher collisions",
            "Fetcher threads that copy no moving partition while another thread for the same source copies two or more. "
            "Above 0, a move may take longer: `rheostat fetchers` finds a better num.replica.fetchers.",
            f"sum({per_broker(TunerMetric.FETCHER_COLLISIONS)}) or vector(0)",
            thresholds((None, GREEN), (1, YELLOW)),
            alert="FetcherCollision",
            span=6,
        ),
        verdict(
            "Fullest broker",
            "Replicas on the fullest broker, relative to its partition limit. At 100 % rheostat places no more replicas "
            "on this broker. No data: the settings file has no section `limits`.",
            f"max({_fill()})",
            thresholds((None, GREEN), (_WARN_RATIO, YELLOW), (1, RED)),
            unit=RATIO,
            alert="PartitionLimitNear",
            span=6,
        ),
        verdict(
            "Cluster",
            "Replicas on all brokers, relative to the partition limit of the cluster. At 100 % rheostat places no more "
            "replicas. No data: the cluster has no partition limit.",
            f"{most(TunerMetric.CLUSTER_PARTITIONS)} / {most(TunerMetric.CLUSTER_PARTITIONS_LIMIT)}",
            thresholds((None, GREEN), (_WARN_RATIO, YELLOW), (1, RED)),
            unit=RATIO,
            alert="PartitionLimitNear",
            span=6,
        ),
        verdict(
            "Partitions under min ISR",
            "Partitions with fewer in-sync replicas than min.insync.replicas. Above 0, Kafka refuses producers with "
            "acks=all: bring the missing broker back.",
            f"sum({per_broker(TunerMetric.UNDER_MIN_ISR)})",
            none_is_well(),
            alert="UnderMinIsrDuringMove",
            span=6,
        ),
    ]


def fetchers() -> list[timeseries.Panel]:
    return [
        from_here_on(
            lines(
                "Unused fetcher threads, by destination",
                "Threads that copy no moving partition while another thread for the same source copies two or more. Above 0,"
                " a move may take longer: `rheostat fetchers` finds a better num.replica.fetchers.",
                COUNT,
                query(per_broker(TunerMetric.FETCHER_COLLISIONS), "broker {{broker}}"),
                alert="FetcherCollision",
                axis="threads",
            ).min(0),
            1,
        ),
        from_here_on(
            lines(
                "Stalled without a binding throttle",
                "1: the move onto this broker has stalled, and a source, a disk, the network or a fetcher thread "
                "limits it; a higher throttle would not help. 0: a throttle limits it. No data without a stall.",
                COUNT,
                query(per_broker(TunerMetric.BOUND_ELSEWHERE), "broker {{broker}}"),
                alert="ThrottleSaturatedBySourceOrDisk",
                axis="1 = not the throttle",
            )
            .min(0)
            .axis_soft_max(1),
            1,
        ),
        lines(
            "Largest moving partitions",
            "Bytes that are left to copy, for the partitions with the most bytes left. No data: "
            "tuner.metrics.partitions_named_max is 0.",
            BYTES,
            query(
                per("broker, topic, partition", TunerMetric.PARTITION_REMAINING_BYTES),
                "{{topic}}-{{partition}} onto broker {{broker}}",
            ),
        ).min(0),
        reasons_in_words(
            lines(
                "Throttles that need attention, by reason",
                "Throttles that the tuner could not judge in the last cycle, or with which a move cannot end; at most "
                "100. The reference page of the reasons says what to do.",
                COUNT,
                query(f"count by (reason) ({select(TunerMetric.NEEDS_ATTENTION)})", "{{reason}}"),
                axis="throttles",
            ),
            REASON_TEXTS,
            with_action=False,
        ).min(0),
    ]


def limits() -> list[timeseries.Panel]:
    return [
        limit_line(
            lines(
                "Replicas, by broker",
                "Replicas on each broker, without internal topics. The dashed line is the lowest limit of all brokers. "
                "Near the limit, move partitions to other brokers.",
                COUNT,
                query(per_broker(TunerMetric.PARTITIONS), "broker {{broker}}"),
                query(f'min({TunerMetric.PARTITIONS_LIMIT.name}{{cluster="$cluster", broker=~"$broker|"}})', "limit"),
                alert="PartitionLimitNear",
                axis="replicas",
            ).min(0),
            "limit",
        ),
        from_here_on(
            lines(
                "Used share of the limit, by broker",
                "At 100 % rheostat places no more replicas on the broker. `rheostat limits place` finds brokers with room"
                " for new partitions.",
                RATIO,
                query(_fill(), "broker {{broker}}"),
                alert="PartitionLimitNear",
            ).min(0),
            _WARN_RATIO,
        ),
        limit_line(
            lines(
                "Replicas in the cluster",
                "Replicas on all brokers that report their number, and the limit of the cluster. Near the limit, delete "
                "unused topics or add brokers.",
                COUNT,
                query(most(TunerMetric.CLUSTER_PARTITIONS), "replicas"),
                query(most(TunerMetric.CLUSTER_PARTITIONS_LIMIT), "limit"),
                axis="replicas",
            ).min(0),
            "limit",
        ),
        lines(
            "ISR shrinks",
            "Replicas per second that leave the ISR, on all brokers together. If this rate rises during a move, the "
            "brokers are overloaded: lower the ceiling.",
            PER_SECOND,
            query(most(TunerMetric.ISR_SHRINKS), "ISR shrinks"),
            axis="replicas per second",
        ).min(0),
        from_here_on(
            lines(
                "Partitions under min ISR, by leader",
                "These partitions refuse writes with acks=all. Above 0: bring the missing broker back.",
                COUNT,
                query(per_broker(TunerMetric.UNDER_MIN_ISR), "broker {{broker}}"),
                alert="UnderMinIsrDuringMove",
                axis="partitions",
            ).min(0),
            1,
        ),
    ]


def board() -> dashboard.Dashboard:
    return make_dashboard(
        "Fetchers and limits",
        UID,
        "Fetcher threads, partition limits (KIP-578) and in-sync replicas: throttles do not change them.",
        [
            ("Is anything wrong?", wrong()),
            ("Do moving partitions share fetcher threads?", fetchers()),
            ("How full are the brokers?", limits()),
        ],
    )
