"""What a throttle cannot help: fetcher threads that idle beside others, brokers that fill up, replicas that fall out."""

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
    made,
    most,
    none_is_well,
    per,
    per_broker,
    query,
    select,
    thresholds,
    verdict,
)
from streaming.shared.metric_defs import TunerMetric

UID = "rheostat-fetchers"
_WARN_RATIO = 0.8  # As rheostat limits warns.


def _fill() -> str:
    """Of its own limit where a broker is named in the settings, else of that of all others."""
    here, own = per_broker(TunerMetric.PARTITIONS), per_broker(TunerMetric.PARTITIONS_LIMIT)
    of_others = f'max({TunerMetric.PARTITIONS_LIMIT.name}{{cluster="$cluster", broker=""}})'
    return f"({here} / {own} or {here} / on () group_left () {of_others})"


def wrong() -> list[stat.Panel]:
    return [
        verdict(
            "Fetcher collisions",
            "Fetcher threads that idle beside one of the same source with two or more of the moving partitions.",
            f"sum({per_broker(TunerMetric.FETCHER_COLLISIONS)}) or vector(0)",
            thresholds((None, GREEN), (1, YELLOW)),
            alert="FetcherCollision",
            span=6,
        ),
        verdict(
            "Fullest broker",
            "Replicas on it, of as many as it may host. No data: no limit is set (section limits of the settings).",
            f"max({_fill()})",
            thresholds((None, GREEN), (_WARN_RATIO, YELLOW), (1, RED)),
            unit=RATIO,
            alert="PartitionLimitNear",
            span=6,
        ),
        verdict(
            "Cluster",
            "Replicas on all brokers, of as many as there may be. No data: no limit is set.",
            f"{most(TunerMetric.CLUSTER_PARTITIONS)} / {most(TunerMetric.CLUSTER_PARTITIONS_LIMIT)}",
            thresholds((None, GREEN), (_WARN_RATIO, YELLOW), (1, RED)),
            unit=RATIO,
            alert="PartitionLimitNear",
            span=6,
        ),
        verdict(
            "Under min ISR",
            "Partitions that take no writes with acks=all, as too few replicas are in sync.",
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
                "Fetcher threads that idle, per destination",
                "Beside one of the same source that copies two or more moving partitions. `rheostat fetchers` says what would part "
                "them.",
                COUNT,
                query(per_broker(TunerMetric.FETCHER_COLLISIONS), "broker {{broker}}"),
                alert="FetcherCollision",
            ).min(0),
            1,
        ),
        from_here_on(
            lines(
                "Stalled, and no throttle is what holds it",
                "1 where the source, a disk, the network or a fetcher thread holds the move onto this broker.",
                COUNT,
                query(per_broker(TunerMetric.BOUND_ELSEWHERE), "broker {{broker}}"),
                alert="ThrottleSaturatedBySourceOrDisk",
            )
            .min(0)
            .axis_soft_max(1),
            1,
        ),
        lines(
            "Largest moving partitions",
            "What their adding replicas lack: of as many as tuner.metrics.partitions_named_max says, which is none unless set.",
            BYTES,
            query(
                per("broker, topic, partition", TunerMetric.PARTITION_REMAINING_BYTES),
                "{{topic}}-{{partition}} onto {{broker}}",
            ),
        ).min(0),
        lines(
            "Throttles not judged, or not to be helped",
            "By reason; the first hundred.",
            COUNT,
            query(f"count by (reason) ({select(TunerMetric.NEEDS_ATTENTION)})", "{{reason}}"),
        ).min(0),
    ]


def limits() -> list[timeseries.Panel]:
    return [
        limit_line(
            lines(
                "Replicas, per broker",
                "Those of internal topics included, and the least that any broker may host.",
                COUNT,
                query(per_broker(TunerMetric.PARTITIONS), "broker {{broker}}"),
                query(f'min({TunerMetric.PARTITIONS_LIMIT.name}{{cluster="$cluster", broker=~"$broker|"}})', "limit"),
                alert="PartitionLimitNear",
            ).min(0),
            "limit",
        ),
        from_here_on(
            lines(
                "Share of its limit, per broker",
                "New partitions go where there is room (`rheostat limits place`); at 100 % nothing more is placed there.",
                RATIO,
                query(_fill(), "broker {{broker}}"),
                alert="PartitionLimitNear",
            ).min(0),
            _WARN_RATIO,
        ),
        limit_line(
            lines(
                "Replicas, in all",
                "On all brokers that are heard of, and how many there may be.",
                COUNT,
                query(most(TunerMetric.CLUSTER_PARTITIONS), "replicas"),
                query(most(TunerMetric.CLUSTER_PARTITIONS_LIMIT), "limit"),
            ).min(0),
            "limit",
        ),
        lines(
            "Replicas falling out of sync",
            "On all brokers together: what a move must not cause.",
            PER_SECOND,
            query(most(TunerMetric.ISR_SHRINKS), "ISR shrinks"),
        ).min(0),
        from_here_on(
            lines(
                "Partitions under min ISR, per leader",
                "They take no writes with acks=all.",
                COUNT,
                query(per_broker(TunerMetric.UNDER_MIN_ISR), "broker {{broker}}"),
                alert="UnderMinIsrDuringMove",
            ).min(0),
            1,
        ),
    ]


def board() -> dashboard.Dashboard:
    return made(
        "Fetchers and limits",
        UID,
        "What a throttle cannot help: fetcher threads, partition limits (KIP-578), replicas in sync.",
        [
            ("Is anything wrong?", wrong()),
            ("Do fetcher threads get in each other's way?", fetchers()),
            ("How full is it?", limits()),
        ],
    )
