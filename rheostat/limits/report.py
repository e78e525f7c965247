"""How full brokers and the cluster are. Pure; also the JSON for machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from tuner.model.partition_limits import UNLIMITED, WARN_SHARE, PartitionCounts, PartitionLimits


class Fill(StrEnum):
    OK = "ok"
    NEARLY_FULL = "nearly_full"  # From 80 % on.
    FULL = "full"  # Goes on working, and gets no more.
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Row:
    broker: int | None  # None: the cluster.
    partitions: int
    limit: int
    alive: bool = True
    rack: str | None = None

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
class Report:
    source: str
    limits: PartitionLimits
    binding: bool  # Somebody set them; else they are a recommendation to compare with.
    cluster: Row
    brokers: tuple[Row, ...]

    @property
    def worst(self) -> Fill:
        return max((row.fill for row in (self.cluster, *self.brokers)), key=list(Fill).index)

    def exit_code(self) -> int:
        return EXIT_NOT_WELL if self.worst in (Fill.FULL, Fill.OVER) else EXIT_DONE


def report(
    source: str, racks: Mapping[int, str | None], counts: PartitionCounts, limits: PartitionLimits, *, binding: bool
) -> Report:
    """
    Args:
        racks: of the brokers that are alive.
    """
    rows = tuple(
        Row(broker, counts.of(broker), limits.of(broker), broker in racks, racks.get(broker))
        for broker in sorted({*racks, *counts.by_broker})
    )
    return Report(source, limits, binding, Row(None, counts.total, limits.partitions_max), rows)


def as_record(made: Report) -> dict[str, Any]:
    """One JSON object; counts are replicas, a limit that nobody set is null."""
    return {
        "source": made.source,
        "limits_are_set": made.binding,
        "max.broker.partitions": _limit(made.limits.broker_partitions_max),
        "max.partitions": _limit(made.limits.partitions_max),
        "cluster": _row(made.cluster),
        "brokers": [
            {"broker": row.broker, "alive": row.alive, "rack": row.rack, **_row(row)} for row in made.brokers
        ],
    }  # fmt: skip


def _row(row: Row) -> dict[str, Any]:
    unlimited = _limit(row.limit) is None
    return {
        "partitions": row.partitions,
        "limit": _limit(row.limit),
        "headroom": None if unlimited else row.headroom,
        "share": None if unlimited else row.share,
        "fill": row.fill.value,
    }


def _limit(limit: int) -> int | None:
    return None if limit >= UNLIMITED // 2 else limit
