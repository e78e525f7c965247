"""How full brokers and the cluster are. Pure; also the JSON for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from tuner.core.partition_limits import WARN_SHARE, PartitionCounts, PartitionLimits, limit_or_none
from tuner.planning.fill_forecast import FillForecast, forecast, sum_histories


class Fill(StrEnum):
    OK = "ok"
    NEARLY_FULL = "nearly_full"  # From 80 % on.
    FULL = "full"  # Goes on working, and gets no more.
    OVER = "over"


@dataclass(frozen=True, slots=True)
class BrokerLimitRow:
    broker: int | None  # None: the cluster.
    partitions: int
    limit: int
    alive: bool = True
    rack: str | None = None
    projection: FillForecast | None = None  # None: not asked for, or not known of this broker.

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
    source: str
    limits: PartitionLimits
    binding: bool  # Somebody set them; else they are a recommendation to compare with.
    cluster: BrokerLimitRow
    brokers: tuple[BrokerLimitRow, ...]
    why_no_projection: str | None = None

    @property
    def worst(self) -> Fill:
        return max((row.fill for row in (self.cluster, *self.brokers)), key=list(Fill).index)

    def exit_code(self) -> int:
        return EXIT_NOT_WELL if self.worst in (Fill.FULL, Fill.OVER) else EXIT_DONE


def report(
    source: str,
    racks: Mapping[int, str | None],
    counts: PartitionCounts,
    limits: PartitionLimits,
    *,
    binding: bool,
    histories: Mapping[int, Sequence[tuple[float, float]]] | None = None,
    why_none: str | None = None,
) -> LimitsReport:
    """
    Args:
        racks: of the brokers that are alive.
        histories: of their counts, by broker, for when they fill; None: that is not asked.
        why_none: there are none.
    """
    known = {b: those for b, those in (histories or {}).items() if b in racks}

    def when(broker: int | None) -> FillForecast | None:
        history = sum_histories(known) if broker is None else known.get(broker)
        if not history:
            return None
        limit = limits.partitions_max if broker is None else limits.for_broker(broker)
        there = counts.total if broker is None else counts.on_broker(broker)
        return forecast(history, None if limit_or_none(limit) is None else limit - there)

    rows = tuple(
        BrokerLimitRow(
            broker,
            counts.on_broker(broker),
            limits.for_broker(broker),
            broker in racks,
            racks.get(broker),
            when(broker),
        )
        for broker in sorted({*racks, *counts.by_broker})
    )
    cluster = BrokerLimitRow(None, counts.total, limits.partitions_max, projection=when(None))
    return LimitsReport(source, limits, binding, cluster, rows, why_none)


def as_record(made: LimitsReport) -> dict[str, Any]:
    """One JSON object; counts are replicas, a limit that nobody set is null."""
    return {
        "source": made.source,
        "limits_are_set": made.binding,
        "max.broker.partitions": limit_or_none(made.limits.broker_partitions_max),
        "max.partitions": made.limits.cluster_max,
        "why_no_projection": made.why_no_projection,
        "cluster": _row(made.cluster),
        "brokers": [{"broker": row.broker, "alive": row.alive, "rack": row.rack, **_row(row)} for row in made.brokers],
    }


def _row(row: BrokerLimitRow) -> dict[str, Any]:
    unlimited = limit_or_none(row.limit) is None
    return {
        "partitions": row.partitions,
        "limit": limit_or_none(row.limit),
        "headroom": None if unlimited else row.headroom,
        "share": None if unlimited else row.share,
        "fill": row.fill.value,
        "projection": None if row.projection is None else _projection(row.projection),
    }


def _projection(found: FillForecast) -> dict[str, Any]:
    return {
        "fills": found.fills.value,
        "full_in_s": found.in_s,
        "growth": found.growth,
        "growth_per_day": found.per_day,
        "history_s": found.history_s,
    }
