"""Tracks since when the quota of each side has counted bytes, and which quota windows are empty.

A side is the leader or the follower throttle of one broker. Kafka's quota window is 11 s long. If the quota has counted bytes for a
shorter time, Kafka divides the bytes by this time (the age of the quota) and not by 11 s. So a ramp that is made for a full window
would let too few bytes through a young window at first and too many later, and this difference would return every 11 s.

There are two ages:
    age       the time for which the quota has counted bytes. Replicas on lists that were set before the move may have filled the
              window already. The speed of a reduction depends on this age.
    move age  the time for which the move has run. A rise waits until the move is old enough. Kafka's own tool writes the lists a
              moment before it starts the move, so the quota can be older than the move.

An empty window passes the bytes of a whole window at once.

Invariant: a side whose start is not known is treated as old, with a full window. No window is treated as younger than it is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from tuner.control.throttle.quota_window.ramp import WINDOW_S
from tuner.core.cluster import BrokerSide


@dataclass(frozen=True, slots=True)
class QuotaAges:
    """The starts and ends of moves, as successive snapshots show them; all times are seconds of one monotonic clock.

    Attributes:
        snapshot_at_s: the time of the newest snapshot; None: there was none.
        lists_set: the newest snapshot had throttled-replica lists, so the quota counts listed replicas even if nothing moves.
        began_s: when each side began to carry a move; −∞: not known.
        counted_since_s: since when each side's quota has counted bytes; −∞: not known.
        ended_s: when each side stopped carrying a move; only sides that stopped within the last window.
        carried_s: the time of the last snapshot in which a side of ``ended_s`` still carried a move.
        window_s: the longest quota window of any broker.
        quiet_since_s: since when all snapshots have been less than a window apart and without lists; ∞: not yet. Since this time
            every start and end of a move is known.
    """

    snapshot_at_s: float | None = None
    lists_set: bool = False
    began_s: Mapping[BrokerSide, float] = field(default_factory=dict)
    counted_since_s: Mapping[BrokerSide, float] = field(default_factory=dict)
    ended_s: Mapping[BrokerSide, float] = field(default_factory=dict)
    carried_s: Mapping[BrokerSide, float] = field(default_factory=dict)
    quiet_since_s: float = math.inf
    window_s: float = WINDOW_S

    def with_snapshot(
        self,
        carrying: Collection[BrokerSide],
        now_s: float,
        *,
        lists_set: bool = False,
        window_s: float = WINDOW_S,
    ) -> QuotaAges:
        """Returns the ages after one more snapshot.

        Args:
            carrying: the sides that take part in a move.
            now_s: the time of the snapshot.
            lists_set: the snapshot has throttled-replica lists.
            window_s: the longest quota window of any broker.
        """
        previous_s, carrying = self.snapshot_at_s, frozenset(carrying)
        ended_s = {
            side: at_s for side, at_s in self.ended_s.items() if now_s - at_s <= window_s and side not in carrying
        }
        ended_s |= {side: now_s for side in self.began_s if side not in carrying}
        # A side whose moves have just ended still carried a move in the previous snapshot.
        last_carried_s = now_s if previous_s is None else previous_s
        carried_s = {side: self.carried_s.get(side, last_carried_s) for side in ended_s}
        began_s, counted_since_s = {}, {}
        for side in carrying:
            # The move may have begun right after the previous snapshot.
            began_s[side] = self.began_s.get(side, -math.inf if previous_s is None else previous_s)
            # If another move through this side ended within the window, an unknown part of its bytes is still in the window.
            window_was_empty = not self.lists_set and side not in self.ended_s
            counted_since_s[side] = self.counted_since_s.get(side, began_s[side] if window_was_empty else -math.inf)
        stays_quiet = previous_s is not None and now_s - previous_s <= window_s and not (self.lists_set or lists_set)
        quiet_since_s = min(self.quiet_since_s, now_s) if stays_quiet else now_s
        return QuotaAges(now_s, lists_set, began_s, counted_since_s, ended_s, carried_s, quiet_since_s, window_s)

    def without(self, sides: Collection[BrokerSide]) -> QuotaAges:
        """Returns the ages without the starts of ``sides``, on which no move has begun after all."""
        if not sides:
            return self
        began_s = {side: at_s for side, at_s in self.began_s.items() if side not in sides}
        counted_since_s = {side: at_s for side, at_s in self.counted_since_s.items() if side not in sides}
        return replace(self, began_s=began_s, counted_since_s=counted_since_s)

    def empty_windows(self, sides: Collection[BrokerSide], now_s: float) -> frozenset[BrokerSide]:
        """Returns the sides, among ``sides``, whose window is empty; none until the tuner has observed a whole window."""
        if now_s - self.quiet_since_s <= self.window_s:
            return frozenset()
        ended = {side for side, at_s in self.ended_s.items() if now_s - at_s <= self.window_s}
        return frozenset(side for side in sides if side not in self.began_s and side not in ended)

    def is_carrying(self, side: BrokerSide) -> bool:
        """Returns whether the side took part in a move at the newest snapshot."""
        return side in self.began_s

    def carried_at_s(self, side: BrokerSide) -> float:
        """Returns the last snapshot in which the side took part in a move; −∞: none within a window."""
        if side in self.began_s and self.snapshot_at_s is not None:
            return self.snapshot_at_s
        return self.carried_s.get(side, -math.inf)

    def age_s(self, side: BrokerSide, now_s: float) -> float:
        """Returns how long the side's quota has counted bytes; ∞ if it is not known."""
        return max(0.0, now_s - self.counted_since_s.get(side, -math.inf))

    def move_age_s(self, side: BrokerSide, now_s: float) -> float:
        """Returns how long the side has carried a move; ∞ if it is not known."""
        return max(0.0, now_s - self.began_s.get(side, -math.inf))
