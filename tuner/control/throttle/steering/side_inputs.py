"""What one second of the law is told of one side, looked up once: a large cluster has thousands of sides, and each is asked about
time and again."""

from __future__ import annotations

from typing import NamedTuple

from streaming.shared.contract import BrokerSignal, MoveSignal, Side, ThrottledBy
from tuner.control.throttle.objective import Capacity
from tuner.control.throttle.steering.broker_estimate import BrokerEstimate, means
from tuner.control.throttle.steering.headroom import DirectionLoad
from tuner.control.throttle.steering.state import ControlInput, in_sync_bytes_per_s
from tuner.core.cluster import BrokerSide


class SideView(NamedTuple):
    which: Side
    move: MoveSignal | None
    signal: BrokerSignal | None
    sight: BrokerEstimate | None
    capacity: Capacity | None
    used: DirectionLoad | None  # By everything but what catches up; None: not known, or not of how much.
    total_bytes_per_s: float  # What the broker carries in this direction; where its capacity is known.
    in_sync_bytes_per_s: float

    @property
    def measured_bytes_per_s(self) -> float | None:
        return measured_bytes_per_s(self.which, self.signal)

    @property
    def known_at_ms(self) -> int | None:
        """When all that this side's rate depends on was measured; None where something of it is missing now."""
        signal, move = self.signal, self.move
        if signal is None or move is None or self.capacity is None:
            return None
        if move.remaining_bytes is None or move.steady_state_bytes_per_s is None or None in means(signal, self.which):
            return None
        return min(signal.sampled_at_ms, move.sampled_at_ms)


def side_view(side: BrokerSide, view: ControlInput, sights: dict[int, BrokerEstimate]) -> SideView:
    broker, which = side
    move, sight, capacity = view.moves.get(side), sights.get(broker), view.capacities.get(broker)
    used, total = None, 0.0
    if capacity is not None:
        total = capacity.out_bytes_per_s if which is Side.LEADER else capacity.in_bytes_per_s
        if sight is not None:
            used = sight.directions[which].load
    return SideView(which, move, view.brokers.get(broker), sight, capacity, used, total, in_sync_bytes_per_s(move))


def measured_bytes_per_s(which: Side, signal: BrokerSignal | None) -> float | None:
    """What counted against this side's throttle, by Kafka's own mean over its window; what counts too much is no measure."""
    if signal is None or signal.throttled_by == ThrottledBy.REPLICATION:
        return None
    return signal.leader_throttled_bytes_per_s if which is Side.LEADER else signal.follower_throttled_bytes_per_s
