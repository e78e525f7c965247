"""Reports how full the brokers and the cluster are (KIP-578), and converts the report to JSON. Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from tuner.core.partition_limits import WARN_SHARE, PartitionCounts, PartitionLimits, limit_or_none
from tuner.planning.fill_forecast import FillForecast, forecast, sum_histories


class Fill(StrEnum):
    """How the partitions compare with their limit. Above a limit, existing partitions keep working, and new ones are refused."""

    OK = "ok"
    NEARLY_FULL = "nearly_full"  # From 80 % on.
    FULL = "full"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class BrokerLimitRow:
    """Partitions and limit of one broker or of the cluster."""

    broker: int | None  # None means the cluster.
    partitions: int
    limit: int
    alive: bool = True
    rack: str | None = None
    forecast: FillForecast | None = None  # None if not requested, or the broker has no history.

    @property
    def headroom(self) -> int:
        return max(0, self.limit - self.partitions)

    @property
    def share(self) -> float:
        return self.partitions / self.limit if self.limit else 1.0

    @property
    def fill(self) -> Fill:
        if self.partitions >= self.limit:
            return Fill.OVER if self.partitions > self.limit else Fill.FULL
        return Fill.NEARLY_FULL if self.share >= WARN_SHARE else Fill.OK


@dataclass(frozen=True, slots=True)
class LimitsReport:
    source: str  # Where the figures come from, as text.
    limits: PartitionLimits
    are_set: bool  # Whether an operator set the limits. If False, they are only a recommendation.
    cluster: BrokerLimitRow
    brokers: tuple[BrokerLimitRow, ...]
    why_no_forecast: str | None = None

    @property
    def worst(self) -> Fill:
        return max((row.fill for row in (self.cluster, *self.brokers)), key=list(Fill).index)

    def exit_code(self) -> int:
        return EXIT_NOT_WELL if self.worst in (Fill.FULL, Fill.OVER) else EXIT_DONE


def build_report(
    source: str,
    racks: Mapping[int, str | None],
    counts: PartitionCounts,
    limits: PartitionLimits,
    *,
    are_set: bool,
    histories: Mapping[int, Sequence[tuple[float, float]]] | None = None,
    missing_reason: str | None = None,
) -> LimitsReport:
    """Returns the report.

    Args:
        racks: rack of each broker that is alive.
        are_set: whether an operator set the limits. If False, they are only a recommendation.
        histories: for each broker, times in seconds and partition counts; None if no forecast is requested.
        missing_reason: why there are no histories.
    """
    alive_histories = {broker: history for broker, history in (histories or {}).items() if broker in racks}

    def forecast_for(broker: int | None) -> FillForecast | None:
        """Returns when the broker (None means the whole cluster) reaches its limit; None if there is no history."""
        history = sum_histories(alive_histories) if broker is None else alive_histories.get(broker)
        if not history:
            return None
        limit = limits.partitions_max if broker is None else limits.for_broker(broker)
        count = counts.total if broker is None else counts.on_broker(broker)
        headroom = None if limit_or_none(limit) is None else limit - count
        return forecast(history, headroom)

    rows = tuple(
        BrokerLimitRow(
            broker=b,
            partitions=counts.on_broker(b),
            limit=limits.for_broker(b),
            alive=b in racks,
            rack=racks.get(b),
            forecast=forecast_for(b),
        )
        for b in sorted({*racks, *counts.by_broker})
    )
    cluster = BrokerLimitRow(None, counts.total, limits.partitions_max, forecast=forecast_for(None))
    return LimitsReport(
        source=source,
        limits=limits,
        are_set=are_set,
        cluster=cluster,
        brokers=rows,
        why_no_forecast=missing_reason,
    )


def as_record(report: LimitsReport) -> dict[str, Any]:
    """Returns the report as one JSON object. Counts are replicas; a limit that is not set is null."""
    return {
        "source": report.source,
        "limits_are_set": report.are_set,
        "max.broker.partitions": limit_or_none(report.limits.broker_partitions_max),
        "max.partitions": report.limits.cluster_max,
        "why_no_forecast": report.why_no_forecast,
        "cluster": _row_record(report.cluster),
        "brokers": [{"broker": r.broker, "alive": r.alive, "rack": r.rack, **_row_record(r)} for r in report.brokers],
    }


def _row_record(row: BrokerLimitRow) -> dict[str, Any]:
    unlimited = limit_or_none(row.limit) is None
    return {
        "partitions": row.partitions,
        "limit": limit_or_none(row.limit),
        "headroom": None if unlimited else row.headroom,
        "share": None if unlimited else row.share,
        "fill": row.fill.value,
        "forecast": None if row.forecast is None else _forecast_record(row.forecast),
    }


def _forecast_record(broker_forecast: FillForecast) -> dict[str, Any]:
    return {
        "fills": broker_forecast.outlook.value,
        "full_in_s": broker_forecast.in_s,
        "growth": broker_forecast.growth,
        "growth_per_day": broker_forecast.per_day,
        "history_s": broker_forecast.history_s,
    }
