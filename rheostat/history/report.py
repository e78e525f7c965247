"""Builds the report of `rheostat history`: a row for each broker over all of its periods. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from streaming.shared.contract import PERIOD_S, BrokerHistory, HistoryPeriod

# Numbers of a row that are means over the periods, weighted by the number of their signals.
_MEANS = (
    "client_in_bytes_per_s",
    "client_out_bytes_per_s",
    "replication_in_bytes_per_s",
    "replication_out_bytes_per_s",
    "reassignment_in_bytes_per_s",
    "reassignment_out_bytes_per_s",
    "leader_steady_state_bytes_per_s",
    "follower_steady_state_bytes_per_s",
    "produce_mean_ms",
    "request_handler_idle_ratio",
    "lag_sum_messages",
    "lag_slope_messages_per_s",
)
_MAXIMA = (
    "in_bytes_per_s_max",
    "out_bytes_per_s_max",
    "produce_p99_ms_max",
    "moving_partitions_max",
    "lag_sum_messages",
)


@dataclass(frozen=True, slots=True)
class BrokerHistoryRow:
    """One broker over the time of the report; a number that was not measured is None.

    Attributes:
        periods: number of periods with a signal of the broker.
        moved_s: time of the periods in which replicas moved or recovered.
        means, maxima: by field of ``BrokerHistory``.
        produce_p99_ms: median of the periods' medians.
    """

    broker: int
    periods: int
    signals: int
    moved_s: float
    produce_p99_ms: float | None
    means: dict[str, float | None]
    maxima: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """The answer of `rheostat history`.

    Attributes:
        periods: in order of time, with the chosen brokers only.
        periods_in_time: number of recorded periods in the time of the report, even without the chosen brokers.
    """

    cluster: str
    since_ms: int
    now_ms: int
    periods: tuple[HistoryPeriod, ...]
    periods_in_time: int
    rows: tuple[BrokerHistoryRow, ...]

    @property
    def expected_periods(self) -> int:
        """Number of whole periods in the time of the report."""
        return int((self.now_ms - self.since_ms) // (PERIOD_S * 1000))


def build_report(
    cluster: str, periods: Sequence[HistoryPeriod], brokers: Collection[int], since_ms: int, now_ms: int
) -> HistoryReport:
    """Returns the report.

    Args:
        periods: in order of time.
        brokers: the brokers to show; empty means all.
    """
    shown = [
        replace(period, brokers=tuple(b for b in period.brokers if not brokers or b.broker in brokers))
        for period in periods
    ]
    by_broker: dict[int, list[BrokerHistory]] = {}
    for period in shown:
        for broker in period.brokers:
            by_broker.setdefault(broker.broker, []).append(broker)
    rows = tuple(_row(broker, by_broker[broker]) for broker in sorted(by_broker))
    return HistoryReport(
        cluster=cluster,
        since_ms=since_ms,
        now_ms=now_ms,
        periods=tuple(shown),
        periods_in_time=len(periods),
        rows=rows,
    )


def _row(broker: int, periods: Sequence[BrokerHistory]) -> BrokerHistoryRow:
    moved = sum(1 for period in periods if period.moving_partitions_max)
    medians = [period.produce_p99_ms for period in periods if period.produce_p99_ms is not None]
    return BrokerHistoryRow(
        broker=broker,
        periods=sum(1 for period in periods if period.signals),
        signals=sum(period.signals for period in periods),
        moved_s=float(moved * PERIOD_S),
        produce_p99_ms=median(medians) if medians else None,
        means={name: _mean(periods, name) for name in _MEANS},
        maxima={name: _max(getattr(period, name) for period in periods) for name in _MAXIMA},
    )


def _mean(periods: Iterable[BrokerHistory], name: str) -> float | None:
    """Returns the mean of a field over the periods that have it, weighted by their signals."""
    known = [(value, max(1, p.signals)) for p in periods if (value := getattr(p, name)) is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _max(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def as_record(report: HistoryReport) -> dict[str, Any]:
    """Returns the report as JSON values; docs/reference/json-output.md lists the keys."""
    return {
        "cluster": report.cluster,
        "now_ms": report.now_ms,
        "since_ms": report.since_ms,
        "period_s": PERIOD_S,
        "brokers": [asdict(row) for row in report.rows],
        "periods": [asdict(period) for period in report.periods],
    }
