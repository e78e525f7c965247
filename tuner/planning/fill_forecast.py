"""When a broker or the cluster reaches its limit of partitions, if they go on coming as they came.

Intuition: partitions come a topic at a time, whenever somebody needs one. Of such arrivals the best guess is what a time has
brought, divided by that time: where in it they came says nothing more. A handful of arrivals is no rate, though, and what was
watched for an hour says nothing of next year.

Invariant: there is a time only where at least so much was seen; else it is said which of it was not.

Vocabulary:
    history   counts of one broker, or of all, with their times, in order.
    growth    the last count less the first.
    rise      from one look to the next there were more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

HISTORY_S_MIN = 3600.0
RISES_MIN = 3
# So many times as far as was looked back is looked ahead.
HORIZON_RATIO = 30.0

History = Sequence[tuple[float, float]]  # Seconds, count.


class Fills(StrEnum):
    IN_TIME = "in_time"  # ``in_s`` from the last look on.
    BEYOND = "beyond"  # Later than can be said.
    NOT_GROWING = "not_growing"
    FULL = "full"
    UNLIMITED = "unlimited"
    TOO_SHORT = "too_short"  # Not watched for long enough.
    TOO_FEW = "too_few"  # It grew, too seldom to call it a rate.


@dataclass(frozen=True, slots=True)
class Projection:
    fills: Fills
    history_s: float = 0.0
    growth: float = 0.0
    in_s: float | None = None

    @property
    def per_day(self) -> float:
        return 86_400 * self.growth / self.history_s if self.history_s > 0 else 0.0

    @property
    def horizon_s(self) -> float:
        return HORIZON_RATIO * self.history_s


def projected(history: History, headroom: int | None) -> Projection:
    """
    Args:
        headroom: what may be added now; None: any number.
    """
    span_s = history[-1][0] - history[0][0] if history else 0.0
    growth = history[-1][1] - history[0][1] if history else 0.0

    def found(fills: Fills, in_s: float | None = None) -> Projection:
        return Projection(fills, span_s, growth, in_s)

    if headroom is None:
        return found(Fills.UNLIMITED)
    if headroom <= 0:
        return found(Fills.FULL)
    if span_s < HISTORY_S_MIN:
        return found(Fills.TOO_SHORT)
    if growth <= 0:
        return found(Fills.NOT_GROWING)
    if sum(later > earlier for (_, earlier), (_, later) in pairwise(history)) < RISES_MIN:
        return found(Fills.TOO_FEW)
    in_s = headroom * span_s / growth
    return found(Fills.IN_TIME, in_s) if in_s <= HORIZON_RATIO * span_s else found(Fills.BEYOND)


def of_all(histories: Mapping[int, Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """The sum over all brokers, at looks that all of them have told at.

    Args:
        histories: by broker; at one look all have the same time.
    """
    told: dict[float, list[float]] = {}
    for history in histories.values():
        for at_s, count in history:
            told.setdefault(at_s, []).append(count)
    return [(at_s, sum(counts)) for at_s, counts in sorted(told.items()) if len(counts) == len(histories)]
