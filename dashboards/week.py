"""A week of the brokers: client load and its limits, latency and objective, and when moves ran."""

from __future__ import annotations

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards.parts import (
    BYTES_PER_SECOND,
    COUNT,
    SECONDS,
    limit_line,
    lines,
    make_dashboard,
    most,
    per,
    per_broker,
    query,
)
from streaming.shared.metric_defs import TunerMetric

UID = "rheostat-week"
_BROKER = "broker {{broker}}"


def load() -> list[timeseries.Panel]:
    return [
        lines(
            "Received from producers, by broker",
            "Bytes/s of producers. The shape of the day says when a move has room: `rheostat plan estimate` uses it.",
            BYTES_PER_SECOND,
            query(per_broker(TunerMetric.CLIENT_BYTES, direction="in"), _BROKER),
        ).min(0),
        lines(
            "Sent to consumers, by broker",
            "Bytes/s of consumers.",
            BYTES_PER_SECOND,
            query(per_broker(TunerMetric.CLIENT_BYTES, direction="out"), _BROKER),
        ).min(0),
        limit_line(
            lines(
                "Throttled replication, by side",
                "Bytes/s that count against throttles, of the busiest broker, and the highest rate that the settings allow.",
                BYTES_PER_SECOND,
                query(per("side", TunerMetric.THROTTLED_BYTES), "{{side}}"),
                query(most(TunerMetric.RATE_MAX), "ceiling"),
            ).min(0),
            "ceiling",
        ),
        lines(
            "Capacity, by broker and direction",
            "Bytes/s that the settings say (tuner.capacity), clients included; without a broker: of all brokers that are not "
            "named. No data: capacities are learned, and the status page has them.",
            BYTES_PER_SECOND,
            query(per("broker, direction", TunerMetric.CAPACITY_BYTES), "{{broker}} {{direction}}"),
        ).min(0),
    ]


def latency() -> list[timeseries.Panel]:
    return [
        lines(
            "Produce latency (p99), by broker",
            "Compare it with the objective beside it, and with the moves below: outside of moves, the latency is the baseline.",
            SECONDS,
            query(per_broker(TunerMetric.PRODUCE_P99_SECONDS), _BROKER),
        ).min(0),
        lines(
            "Objective, by broker",
            "The highest produce latency that the clients of the broker may have. With `tuner.objective: auto` it follows from the "
            "baseline of the broker.",
            SECONDS,
            query(per_broker(TunerMetric.LATENCY_OBJECTIVE_SECONDS), _BROKER),
        ).min(0),
    ]


def moves() -> list[timeseries.Panel]:
    return [
        lines(
            "Partitions moving",
            "Partitions in reassignment, as the controller lists them.",
            COUNT,
            query(most(TunerMetric.REASSIGNING_PARTITIONS), "partitions"),
            axis="partitions",
        ).min(0),
        lines(
            "Replicas that catch up, by broker",
            "Partitions whose replica on this broker has left the ISR. Their copies load the broker as moves do.",
            COUNT,
            query(per_broker(TunerMetric.RECOVERY_PARTITIONS), _BROKER),
            axis="partitions",
        ).min(0),
    ]


def board() -> dashboard.Dashboard:
    return make_dashboard(
        "Week",
        UID,
        "The load and latency of brokers over a week. The status page shows the same of one broker with its forecast.",
        [
            ("How does the load follow the day?", load()),
            ("How long did clients wait?", latency()),
            ("When did replicas copy?", moves()),
        ],
        days=7,
    )
