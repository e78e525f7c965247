"""How long do creations take for whoever asks? Of the last half minute, what all but one in twenty stay below.

Intuition: a shop's queue is not known from its till. Somebody has to stand in it now and then, whatever the till says. And who
stands in it for ten minutes has not joined it ten times, as he would have while it was short: for each time that fell due while
he stood there, somebody would have waited for what was left of it.

Invariant: what is not known is not told: no figure of a few answers. One broker that answers nobody is not the controller: what
was waited for in vain counts only where most brokers that were asked left somebody waiting.

Vocabulary:
    asked     one request for a topic's creation, from the moment at which it was due.
    answered  the controller said something to it; else it was waited for so long in vain.

Seconds are on one monotonic clock.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

WINDOW_S = 30.0  # As long as the other signals look back, and less than the law rests between two changes.
QUANTILE = 0.95
COUNT_MIN = 40  # Two of them are beyond the quantile: one that was odd is not all there is.


@dataclass(frozen=True, slots=True)
class Asked:
    at_s: float
    took_s: float
    broker: int
    answered: bool = True


def with_missed(asked: Asked, every_s: float) -> list[Asked]:
    """It, and those that fell due while it was waited for: each would have waited for the rest."""
    missed = math.floor(asked.took_s / every_s)
    return [
        Asked(asked.at_s + n * every_s, asked.took_s - n * every_s, asked.broker, asked.answered)
        for n in range(missed + 1)
    ]


class FeltWindow:
    def __init__(self) -> None:
        self._asked: deque[Asked] = deque()

    def add(self, asked: Asked, every_s: float) -> None:
        self._asked.extend(with_missed(asked, every_s))

    def felt_s(self, now_s: float) -> float | None:
        """None: too little is known."""
        while self._asked and self._asked[0].at_s <= now_s - WINDOW_S:
            self._asked.popleft()
        brokers = {asked.broker for asked in self._asked}
        silent = {asked.broker for asked in self._asked if not asked.answered}
        nobody = 2 * len(silent) > len(brokers)
        took_s = sorted(asked.took_s for asked in self._asked if asked.answered or nobody)
        if len(took_s) < COUNT_MIN:
            return None
        return took_s[math.ceil(QUANTILE * len(took_s)) - 1]
