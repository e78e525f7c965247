"""Forecasts when a broker or the cluster reaches its partition limit.

Partitions arrive with whole topics, at irregular times. The best estimate of their rate is growth ÷ length of the history. A rate
needs more than a few arrivals, and one hour of history does not allow a forecast for the next year.

Invariant: a forecast needs a minimum length of history and a minimum number of rises. Otherwise the result says which is missing.

Terms:
    history  partition counts of one broker, or of the cluster, with their times, in order.
    growth   the last count minus the first count.
    rise     a count that is higher than the previous count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

HISTORY_S_MIN = 3600.0
RISES_MIN = 3
# A forecast covers at most this many times the length of the history.
HORIZON_RATIO = 30.0

History = Sequence[tuple[float, float]]  # Seconds, count.


class FillOutlook(StrEnum):
    IN_TIME = "in_time"  # The limit is reached ``in_s`` after the last count.
    BEYOND = "beyond"  # The limit is reached after the time that a forecast may cover.
    NOT_GROWING = "not_growing"
    FULL = "full"
    UNLIMITED = "unlimited"
    TOO_SHORT = "too_short"  # The history is too short.
    TOO_FEW = "too_few"  # Too few rises for a rate.


@dataclass(frozen=True, slots=True)
class FillForecast:
    """The forecast for one limit.

    Attributes:
        in_s: seconds until the limit is reached, if the outlook is IN_TIME.
    """

    outlook: FillOutlook
    history_s: float = 0.0
    growth: float = 0.0
    in_s: float | None = None

    @property
    def per_day(self) -> float:
        return 86_400 * self.growth / self.history_s if self.history_s > 0 else 0.0

    @property
    def horizon_s(self) -> float:
        return HORIZON_RATIO * self.history_s


def forecast(history: History, headroom: int | None) -> FillForecast:
    """Returns when the limit is reached.

    Args:
        headroom: partitions that the limit still allows; None: unlimited.
    """
    span_s = history[-1][0] - history[0][0] if history else 0.0
    growth = history[-1][1] - history[0][1] if history else 0.0

    def result(outlook: FillOutlook, in_s: float | None = None) -> FillForecast:
        return FillForecast(outlook, span_s, growth, in_s)

    if headroom is None:
        return result(FillOutlook.UNLIMITED)
    if headroom <= 0:
        return result(FillOutlook.FULL)
    if span_s < HISTORY_S_MIN:
        return result(FillOutlook.TOO_SHORT)
    if growth <= 0:
        return result(FillOutlook.NOT_GROWING)
    counts = [count for _, count in history]
    rises = sum(later > earlier for earlier, later in pairwise(counts))
    if rises < RISES_MIN:
        return result(FillOutlook.TOO_FEW)
    in_s = headroom * span_s / growth
    return result(FillOutlook.IN_TIME, in_s) if in_s <= HORIZON_RATIO * span_s else result(FillOutlook.BEYOND)


def sum_histories(histories: Mapping[int, Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Returns the history of the cluster: the sum over all brokers, at each time for which every broker has a count.

    Args:
        histories: history of each broker; counts that were taken together have the same time.
    """
    counts_at: dict[float, list[float]] = {}
    for history in histories.values():
        for at_s, count in history:
            counts_at.setdefault(at_s, []).append(count)
    return [(at_s, sum(counts)) for at_s, counts in sorted(counts_at.items()) if len(counts) == len(histories)]
