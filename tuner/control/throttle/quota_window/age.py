"""Since when has a side's quota had something to count? A window that is younger than itself forgives more, and keeps less.

Intuition: a move that began three seconds ago has three seconds in its quota, and Kafka divides by three. Who brings such a
throttle up as if eleven seconds stood there lets too little through at first and too much in the end, and all of it comes back
every eleven seconds.

How old the quota's window is and how old the move is are two things. Where lists stood before the move, what was on them may
have filled the window already, and a way down has to reckon with that; but what the move brings begins with the move, and a way
up has to wait for that all the same. Kafka's own tool writes the lists a moment before it asks for the move.

A quota that nobody uses is the other end of it: its window is empty, and lets a whole window's worth through at once.

Invariant: where it is not known when a side began, its window is taken to be full, as it is for every move of some age. It is
never thought to be younger than it may be.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from tuner.control.throttle.quota_window.ramp import WINDOW_S
from tuner.core.cluster import BrokerSide


@dataclass(frozen=True, slots=True)
class QuotaAges:
    """What successive looks at the cluster say of it; times by one monotonic clock."""

    looked_at_s: float | None = None  # None: never.
    counts: bool = False  # Lists stood at that look: who is on one counts, whether something moves or not.
    began_s: Mapping[BrokerSide, float] = field(default_factory=dict)  # Of sides that carry something; −∞ is not known.
    counted_s: Mapping[BrokerSide, float] = field(default_factory=dict)  # The same, of what their quotas count.
    ended_s: Mapping[BrokerSide, float] = field(default_factory=dict)  # Of those that did within a window.
    carried_s: Mapping[BrokerSide, float] = field(default_factory=dict)  # Of these, the last look before that.
    # Since when looks have followed each other within a window of each other, and no list stood: what came between would be known.
    quiet_s: float = math.inf

    def seen(self, carrying: Collection[BrokerSide], now_s: float, *, counts: bool = False) -> QuotaAges:
        """After one more look, in which these sides take part in a move, and ``counts`` says whether any list stands."""
        before_s, carrying = self.looked_at_s, frozenset(carrying)
        ended_s = {
            side: at_s for side, at_s in self.ended_s.items() if now_s - at_s <= WINDOW_S and side not in carrying
        }
        ended_s |= {side: now_s for side in self.began_s if side not in carrying}
        carried_s = {side: self.carried_s.get(side, before_s if before_s is not None else now_s) for side in ended_s}
        began_s, counted_s = {}, {}
        for side in carrying:
            # It may have begun right after the look before; what its window holds of a move that ended is not known.
            began_s[side] = self.began_s.get(side, -math.inf if before_s is None else before_s)
            fresh = not self.counts and side not in self.ended_s
            counted_s[side] = self.counted_s.get(side, began_s[side] if fresh else -math.inf)
        follows = before_s is not None and now_s - before_s <= WINDOW_S and not (self.counts or counts)
        quiet_s = min(self.quiet_s, now_s) if follows else now_s
        return QuotaAges(now_s, counts, began_s, counted_s, ended_s, carried_s, quiet_s)

    def without(self, sides: Collection[BrokerSide]) -> QuotaAges:
        """Where nothing has begun after all."""
        if not sides:
            return self
        began_s = {side: at_s for side, at_s in self.began_s.items() if side not in sides}
        counted_s = {side: at_s for side, at_s in self.counted_s.items() if side not in sides}
        return replace(self, began_s=began_s, counted_s=counted_s)

    def empty(self, sides: Collection[BrokerSide], now_s: float) -> frozenset[BrokerSide]:
        """Which of them have nothing in their quota's window; none where that is not known of all of it."""
        if now_s - self.quiet_s <= WINDOW_S:
            return frozenset()
        ended = {side for side, at_s in self.ended_s.items() if now_s - at_s <= WINDOW_S}
        return frozenset(side for side in sides if side not in self.began_s and side not in ended)

    def carries(self, side: BrokerSide) -> bool:
        """Whether something moved there at the last look."""
        return side in self.began_s

    def carried_at_s(self, side: BrokerSide) -> float:
        """When a look last saw something move there; −∞: none within a window."""
        if side in self.began_s and self.looked_at_s is not None:
            return self.looked_at_s
        return self.carried_s.get(side, -math.inf)

    def age_s(self, side: BrokerSide, now_s: float) -> float:
        """Of what its quota counts; for ever where that is not known."""
        return max(0.0, now_s - self.counted_s.get(side, -math.inf))

    def move_age_s(self, side: BrokerSide, now_s: float) -> float:
        """Of what moves there; for ever where that is not known."""
        return max(0.0, now_s - self.began_s.get(side, -math.inf))
