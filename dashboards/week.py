"""A week of the brokers: client load and its limits, latency and objective, and when moves ran."""

from __future__ import annotations

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards.parts import (
    BYTES_PER_SECOND,
    COUNT,
    SECONDS,
    bars,
    limit_line,
    lines,
    make_dashboard,
    most,
    per,
    per_broker,
    query,
)
from streaming.shared.metric_defs import LearnMetric, TunerMetric

UID = "rheostat-week"
_BROKER = "broker {{broker}}"
_DIRECTION = "broker {{broker}} {{direction}}"
_EVENT = "{{measure}}: broker {{broker}}, user {{user}}, client-id {{client_id}}"


def load() -> list[timeseries.Panel]:
    return [
        lines(
            "Received from producers, by broker",
            "Bytes/s of producers. The daily pattern shows at which hours clients leave bandwidth for a move. "
            "`rheostat plan estimate` uses "
            "this pattern.",
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
                "Bytes/s that count against throttles, for the broker with the most bytes, and the ceiling.",
                BYTES_PER_SECOND,
                query(per("side", TunerMetric.THROTTLED_BYTES), "{{side}}"),
                query(most(TunerMetric.RATE_MAX), "ceiling"),
            ).min(0),
            "ceiling",
        ),
        lines(
            "Capacity, by broker and direction",
            "Traffic that a broker can carry, clients included. Settings: tuner.capacity; the line without a broker is "
            "for all brokers that the settings do not name. Learned: the highest half-minute rate of clients and "
            "replication together at which latency was usual. Link: the speed of the network interface in each "
            "direction, if node_exporter or Telegraf reports it.",
            BYTES_PER_SECOND,
            query(per("broker, direction", TunerMetric.CAPACITY_BYTES), f"settings, {_DIRECTION}"),
            query(per("broker, direction", LearnMetric.CAPACITY), f"learned, {_DIRECTION}"),
            query(per_broker(TunerMetric.LINK_SPEED_BYTES), f"link, {_BROKER}"),
        ).min(0),
        lines(
            "Forecast of client load, by broker",
            "Forecast of the mean bytes/s of the hour that is 12 hours ahead. No data: `rheostat learn` does not run, or "
            "learn.http is not set.",
            BYTES_PER_SECOND,
            query(per("broker, direction", LearnMetric.FORECAST, horizon="12h"), _DIRECTION),
        ).min(0),
        lines(
            "Error of forecasts, by how far ahead",
            "Mean absolute error of the forecasts so far, for the broker with the largest error.",
            BYTES_PER_SECOND,
            query(per("horizon, direction", LearnMetric.FORECAST_ERROR), "{{horizon}} ahead, {{direction}}"),
        ).min(0),
    ]


def latency() -> list[timeseries.Panel]:
    return [
        lines(
            "Produce latency (p99), by broker",
            "Compare this latency with the objective in the next panel, and with the moves below. The latency without "
            "moves is the baseline.",
            SECONDS,
            query(per_broker(TunerMetric.PRODUCE_P99_SECONDS), _BROKER),
        ).min(0),
        lines(
            "Objective, by broker",
            "The highest produce latency that the clients of the broker may have. With `tuner.objective: auto` the "
            "tuner computes it from the baseline of the broker.",
            SECONDS,
            query(per_broker(TunerMetric.LATENCY_OBJECTIVE_SECONDS), _BROKER),
        ).min(0),
        lines(
            "Usual latency at this hour, by broker",
            "Usual produce p99 at this hour while no broker copies replicas, as learned by `rheostat learn`.",
            SECONDS,
            query(per_broker(LearnMetric.BASELINE), _BROKER),
        ).min(0),
        lines(
            "Age of the learned capacity, by broker",
            "Time since the learned capacity was measured.",
            SECONDS,
            query(per("broker, direction", LearnMetric.CAPACITY_AGE), _DIRECTION),
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
            "Partitions whose replica on this broker has left the ISR. The copies of these replicas load the broker in "
            "the same way as moves.",
            COUNT,
            query(per_broker(TunerMetric.RECOVERY_PARTITIONS), _BROKER),
            axis="partitions",
        ).min(0),
    ]


def changes() -> list[timeseries.Panel]:
    labels = "measure, broker, user, client_id"
    return [
        bars(
            "Lasting changes",
            "Measures with a lasting change. The panel shows each change for a day after `rheostat learn` found it. No "
            "decision depends on them.",
            query(per(labels, LearnMetric.CHANGE_POINT), _EVENT),
            alert="LastingChangeFound",
            axis="changes",
        ),
        bars(
            "Unusual values",
            "Measures that were unusual for their hour of the day. The panel shows each of them for two hours. No "
            "decision depends on them.",
            query(per(labels, LearnMetric.UNUSUAL), _EVENT),
            alert="UnusualValueFound",
            axis="values",
        ),
    ]


def board() -> dashboard.Dashboard:
    return make_dashboard(
        "Week",
        UID,
        "The load and latency of brokers over a week. The status page shows the week of one broker together with its forecast.",
        [
            ("How does the load follow the day?", load()),
            ("How long did clients wait?", latency()),
            ("When did replicas copy?", moves()),
            ("What has changed?", changes()),
        ],
        view="/brokers",
        days=7,
    )
