"""Collects the inputs of one side for one control step, so that each input is looked up only once."""

from __future__ import annotations

import math
from typing import NamedTuple

from streaming.shared.contract import BrokerSignal, MoveSignal, Side, ThrottledBy
from tuner.control.throttle.objective import Capacity
from tuner.control.throttle.steering.broker_estimate import BrokerEstimate, window_rates
from tuner.control.throttle.steering.headroom import DirectionLoad
from tuner.control.throttle.steering.state import ControlInput, in_sync_bytes_per_s
from tuner.core.cluster import BrokerSide


class SideInputs(NamedTuple):
    """The inputs of one side.

    Attributes:
        direction: leader or follower.
        move: the newest signal of the side's moves; None: there is none.
        signal: the newest signal of the side's broker; None: there is none.
        estimate: the estimate of the side's broker; None without a signal of the broker.
        capacity: the capacity of the side's broker in the settings, or else the traffic that was measured first; None: not known.
        other_load: all traffic in this direction except the bytes of copies; None if it is not known.
        capacity_bytes_per_s: ``capacity`` in this direction; 0 if it is not known.
        in_sync_bytes_per_s: the part of the throttled bytes that in-sync followers fetch.
        is_capacity_configured: the capacity comes from the settings.
    """

    direction: Side
    move: MoveSignal | None
    signal: BrokerSignal | None
    estimate: BrokerEstimate | None
    capacity: Capacity | None
    other_load: DirectionLoad | None
    capacity_bytes_per_s: float
    in_sync_bytes_per_s: float
    is_capacity_configured: bool = True

    @property
    def link_bytes_per_s(self) -> float:
        """The capacity in this direction from the settings; infinite if the settings have none."""
        return self.capacity_bytes_per_s if self.is_capacity_configured else math.inf

    @property
    def throttled_bytes_per_s(self) -> float | None:
        """The result of ``throttled_bytes_per_s`` (below) for this side."""
        return throttled_bytes_per_s(self.direction, self.signal)

    @property
    def measured_at_ms(self) -> int | None:
        """When the oldest input was measured (epoch); None if any input is missing."""
        signal, move = self.signal, self.move
        if signal is None or move is None or self.capacity is None:
            return None
        network, catch_up = window_rates(signal, self.direction)
        if move.remaining_bytes is None or move.steady_state_bytes_per_s is None or network is None or catch_up is None:
            return None
        return min(signal.sampled_at_ms, move.sampled_at_ms)


def collect_side_inputs(side: BrokerSide, inputs: ControlInput, estimates: dict[int, BrokerEstimate]) -> SideInputs:
    """Returns the inputs of ``side``, selected from the inputs of the whole cluster."""
    broker, direction = side
    move, estimate, capacity = inputs.moves.get(side), estimates.get(broker), inputs.capacities.get(broker)
    other_load, capacity_bytes_per_s, is_configured = None, 0.0, capacity is not None
    if capacity is None and estimate is not None:
        capacity = estimate.capacity
    if capacity is not None:
        capacity_bytes_per_s = capacity.out_bytes_per_s if direction is Side.LEADER else capacity.in_bytes_per_s
        if estimate is not None:
            other_load = estimate.directions[direction].load
    return SideInputs(
        direction=direction,
        move=move,
        signal=inputs.brokers.get(broker),
        estimate=estimate,
        capacity=capacity,
        other_load=other_load,
        capacity_bytes_per_s=capacity_bytes_per_s,
        in_sync_bytes_per_s=in_sync_bytes_per_s(move),
        is_capacity_configured=is_configured,
    )


def throttled_bytes_per_s(direction: Side, signal: BrokerSignal | None) -> float | None:
    """Returns the bytes/s that count against the side's throttle: Kafka's mean over the quota window.

    Returns None if they were not measured, or if the broker's metric counts more bytes than the throttle counts.
    """
    if signal is None or signal.throttled_by == ThrottledBy.REPLICATION:
        return None
    return signal.leader_throttled_bytes_per_s if direction is Side.LEADER else signal.follower_throttled_bytes_per_s
