"""Replication in normal operation: which followers lag, whether they catch up, and which fetcher threads and brokers are slow."""

from __future__ import annotations

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards.parts import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    GREEN,
    PER_SECOND,
    RATIO,
    RED,
    SECONDS,
    YELLOW,
    from_here_on,
    grown,
    lines,
    make_dashboard,
    most,
    none_is_well,
    per,
    per_broker,
    query,
    thresholds,
    verdict,
)
from streaming.shared.metric_defs import TunerMetric

UID = "rheostat-replication"
_THREAD = "{{broker}} from {{source}}, thread {{fetcher}}"


def lagging() -> list[stat.Panel]:
    return [
        verdict(
            "Followers with lag",
            "Brokers with at least one replica that is out of sync and behind its leader. Replicas that a reassignment "
            "adds do not count. "
            "No data: the JMX agents do not report FetcherLagMetrics.",
            f"count({per_broker(TunerMetric.REPLICATION_LAG)} > 0) or 0 * count({per_broker(TunerMetric.REPLICATION_LAG)})",
            thresholds((None, GREEN), (1, YELLOW)),
            span=6,
        ),
        verdict(
            "Largest lag in time",
            "Lag of the slowest replica in seconds: the messages by which it is behind ÷ the messages written per second. "
            "No data: no lagging replica has a known write rate.",
            f"max({per_broker(TunerMetric.REPLICATION_LAG_SECONDS)})",
            thresholds((None, GREEN), (30, YELLOW), (300, RED)),
            unit=SECONDS,
            span=6,
        ),
        verdict(
            "Followers that fall behind",
            "Brokers whose lag grew over the last 5 minutes. Above 0, look at the fetcher threads below, and at disk, "
            "network and request handlers of the broker and of its leaders.",
            f"count({per_broker(TunerMetric.REPLICATION_LAG_SLOPE, span='5min')} > 0) "
            f"or 0 * count({per_broker(TunerMetric.REPLICATION_LAG)})",
            thresholds((None, GREEN), (1, YELLOW)),
            span=6,
        ),
        verdict(
            "Partitions under min ISR",
            "Partitions with fewer in-sync replicas than min.insync.replicas. Above 0, Kafka refuses producers with "
            "acks=all: bring the missing replicas back first.",
            f"sum({per_broker(TunerMetric.UNDER_MIN_ISR)})",
            none_is_well(),
            span=6,
        ),
    ]


def by_broker() -> list[timeseries.Panel]:
    return [
        lines(
            "Lag, by follower",
            "Sum over all replicas of the broker, without replicas that a reassignment adds (KIP-73, SumReplicaLag). A "
            "replica that is in sync has no lag.",
            COUNT,
            query(per_broker(TunerMetric.REPLICATION_LAG), "broker {{broker}}"),
            axis="messages",
        ).min(0),
        lines(
            "Largest lag of one replica, by follower",
            "Compare this lag with the sum of the lags in the first panel. If it is far below the sum, many replicas "
            "lag. If it is near the sum, one partition lags, often because it is hot.",
            COUNT,
            query(per_broker(TunerMetric.REPLICATION_LAG_MAX), "broker {{broker}}"),
            axis="messages",
        ).min(0),
        lines(
            "Lag in time, by follower",
            "Lag in messages ÷ messages written per second, for the slowest of the ten replicas that lag most. No data "
            "while nothing is written.",
            SECONDS,
            query(per_broker(TunerMetric.REPLICATION_LAG_SECONDS), "broker {{broker}}"),
        ).min(0),
        lines(
            "Lag in bytes, by follower",
            "Bytes by which the ten replicas that lag most are behind, in total.",
            BYTES,
            query(per_broker(TunerMetric.REPLICATION_LAG_BYTES), "broker {{broker}}"),
        ).min(0),
        from_here_on(
            lines(
                "Trend over the window, by follower",
                "Change of the lag in messages per second, fitted over 30 s. Above 0 the follower falls further behind; "
                "below 0 it catches up.",
                PER_SECOND,
                query(per_broker(TunerMetric.REPLICATION_LAG_SLOPE, span="window"), "broker {{broker}}"),
                axis="messages per second",
            ),
            0,
        ),
        from_here_on(
            lines(
                "Trend over 5 minutes, by follower",
                "Change of the lag in messages per second, fitted over 5 minutes. If it stays above 0 for minutes, the "
                "cause lasts, such as a slow disk.",
                PER_SECOND,
                query(per_broker(TunerMetric.REPLICATION_LAG_SLOPE, span="5min"), "broker {{broker}}"),
                axis="messages per second",
            ),
            0,
        ),
        lines(
            "Fit of the trend over 5 minutes",
            "How well a straight line fits the lag (r²). Near 1 the lag changes evenly, and the trend can be "
            "extrapolated. Near 0 the lag goes up and down.",
            RATIO,
            query(per_broker(TunerMetric.REPLICATION_LAG_FIT, span="5min"), "broker {{broker}}"),
        )
        .min(0)
        .max(1),
        lines(
            "Lag of added replicas, by follower",
            "Lag of the replicas that a reassignment adds. The panels above do not include these replicas. The dashboard "
            "Reassignments shows more.",
            COUNT,
            query(per_broker(TunerMetric.REPLICATION_LAG_ADDING), "broker {{broker}}"),
            axis="messages",
        ).min(0),
        lines(
            "Partitions without their preferred leader",
            "Partitions whose preferred replica is in sync but is not the leader, for example after the return of a "
            "broker. The panel also shows the tuner's decisions about elections (`tuner.leadership`).",
            COUNT,
            query(most(TunerMetric.LEADERS_DISPLACED), "partitions"),
            query(grown(TunerMetric.LEADERSHIP_DECISIONS, by="action, reason"), "{{action}}: {{reason}}"),
        ).min(0),
        from_here_on(
            lines(
                "Cordoned log directories",
                "Log directories that take no new replicas (`cordoned.log.dirs`, Kafka 4.3 or newer), by broker and "
                "owner. No data: no log directory is cordoned.",
                COUNT,
                query(per("broker, owner", TunerMetric.CORDONED_LOG_DIRS), "broker {{broker}} ({{owner}})"),
                alert="LogDirsCordoned",
            ).min(0),
            1,
        ),
    ]


def by_thread() -> list[timeseries.Panel]:
    return [
        lines(
            "Lag, by fetcher thread",
            "If one thread lags while other threads for the same source do not lag, busy partitions share this thread. "
            "`rheostat fetchers` finds a better num.replica.fetchers.",
            COUNT,
            query(per("broker, source, fetcher", TunerMetric.FETCHER_LAG), _THREAD),
            axis="messages",
        ).min(0),
        lines(
            "Copied bytes, by fetcher thread",
            "If a lagging thread copies at a steady rate, the thread, its source or a disk is the bottleneck. The bytes "
            "include moves.",
            BYTES_PER_SECOND,
            query(per("broker, source, fetcher", TunerMetric.FETCHER_BYTES), _THREAD),
        ).min(0),
        lines(
            "Lagging brokers, by likely cause",
            "Brokers whose lag grows, or stays above its usual level, by the likely cause. The reference page of the "
            "reasons says what to do.",
            COUNT,
            query(per("reason", TunerMetric.LAGGING_BROKERS), "{{reason}}"),
            alert="FetcherBottleneck",
            axis="brokers",
        ).min(0),
        lines(
            "Growing lag, by follower",
            "1 while the lag of the broker grows, 0 while it only stays above its usual level. No line: the broker does not "
            "lag.",
            COUNT,
            query(per("broker, reason", TunerMetric.LAG_GROWING), "broker {{broker}}: {{reason}}"),
            alert="ReplicationLagGrowing",
            axis="1: the lag grows",
        )
        .min(0)
        .max(1),
        lines(
            "ISR shrinks",
            "Replicas per second that leave the ISR, on all brokers together. Kafka reports a lag of a replica only "
            "after the replica has left the ISR.",
            PER_SECOND,
            query(most(TunerMetric.ISR_SHRINKS), "ISR shrinks"),
            axis="replicas per second",
        ).min(0),
    ]


def board() -> dashboard.Dashboard:
    return make_dashboard(
        "Replication",
        UID,
        "The lag of followers in normal operation: by broker and by fetcher thread. "
        "This dashboard does not show the lag of consumers.",
        [
            ("Does a follower lag?", lagging()),
            ("Which followers lag, and do they catch up?", by_broker()),
            ("Which fetcher threads are slow?", by_thread()),
        ],
        view="/brokers#replication-title",
    )
