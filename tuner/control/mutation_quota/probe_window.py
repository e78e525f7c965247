"""How long do creations take for whoever asks? Of the last half minute, what nine of ten stay below.

Intuition: a shop's queue is not known from its till. Somebody has to stand in it now and then, whatever the till says. And who
stands in it for ten minutes has not joined it ten times, as he would have while it was short: for each time that fell due while
he stood there, somebody would have waited for what was left of it.

A creation goes through some broker to the controller. Where the controller stalls, whoever asks just then waits, at whichever
broker; a broker that is slow by itself is slow most of the time. So one whose ordinary creation takes far longer than at the
broker in the middle is left out.

Invariant: what is not known is not told: no figure of a few. One broker that is slow, or answers nobody, is not the controller;
most of them are.

Seconds are on one monotonic clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

WINDOW_S = 30.0  # As long as the other signals look back, and less than the law rests between two changes.
QUANTILE = (
    0.9  # Further out it is twice as uncertain within half a minute, and goes up later: a rare storm is out there, too.
)
COUNT_MIN = 40  # Four of them are beyond the quantile: one that was odd is not all there is.
# Beyond these a broker is slow by itself.
_SLOW_RATIO, _SLOW_S = 3.0, 0.05


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """One request for a topic's creation. What was not answered was waited for so long in vain."""

    at_s: float
    took_s: float
    broker: int
    missed: bool = False  # Nobody did, as somebody was waited for; it says nothing of what is ordinary at this broker.


def with_implied_requests(asked: ProbeRequest, every_s: float) -> list[ProbeRequest]:
    """It, and those that fell due while it was waited for: each would have waited for the rest."""
    count = max(1, math.ceil(asked.took_s / every_s))
    return [
        ProbeRequest(asked.at_s + n * every_s, asked.took_s - n * every_s, asked.broker, n > 0) for n in range(count)
    ]


class ProbeWindow:
    def __init__(self) -> None:
        self._asked: deque[ProbeRequest] = deque()

    def add(self, asked: ProbeRequest, every_s: float | None = None) -> None:
        """
        Args:
            every_s: how often one falls due; None: whenever the one before is through.
        """
        self._asked.extend([asked] if every_s is None else with_implied_requests(asked, every_s))

    def p90_s(self, now_s: float) -> float | None:
        """None: too little is known."""
        while self._asked and self._asked[0].at_s <= now_s - WINDOW_S:
            self._asked.popleft()
        by_broker: dict[int, list[ProbeRequest]] = {}
        for asked in self._asked:
            by_broker.setdefault(asked.broker, []).append(asked)
        took_s = sorted(asked.took_s for asked in _of_the_controller(by_broker.values()))
        return _at(took_s, QUANTILE) if len(took_s) >= COUNT_MIN else None


def _of_the_controller(by_broker: Iterable[Sequence[ProbeRequest]]) -> Iterator[ProbeRequest]:
    ordinary = [(_at(sorted(one.took_s for one in asked if not one.missed), 0.5), asked) for asked in by_broker]
    # Of two the quicker one is in the middle: the other may be slow by itself.
    middle = _at(sorted(at for at, _ in ordinary), 0.5) if ordinary else 0.0
    return chain.from_iterable(asked for at, asked in ordinary if at <= _SLOW_RATIO * middle + _SLOW_S)


def _at(ordered: Sequence[float], quantile: float) -> float:
    """0 of nothing: of a broker of which only what was missed is left, that counts."""
    return ordered[math.ceil(quantile * len(ordered)) - 1] if ordered else 0.0
