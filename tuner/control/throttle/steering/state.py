"""What the law sees, and what it remembers of each side from second to second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.shared.contract import BrokerSignal, MoveSignal, Side
from tuner.control.throttle.objective import Capacity
from tuner.control.throttle.quota_window.model import QuotaSamples
from tuner.control.throttle.steering.broker_estimate import BrokerEstimate
from tuner.control.throttle.steering.target_rate import TargetRate
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad
from tuner.core.value import value

NOTHING = SideLoad(0.0, 0.0)


@value
class SideControlState:
    """What one side is meant to do."""

    since_ms: int
    stood_bytes_per_s: float  # When we came.
    wanted: TargetRate
    window: QuotaSamples
    corrected_until_ms: int = 0
    load: SideLoad = NOTHING  # The newest that is known.
    known_at_ms: int | None = None  # None: never since we came.
    blind: bool = False  # Something that it depends on is not known now.
    held_to_bytes_per_s: float | None = None  # What passed when we came, if what stood there did not hold it.
    push: float = 1.0  # Times what it should need: its move has stalled, and it was this throttle.
    pushed_at_ms: int = 0
    stuck_until_ms: int = 0  # Something else than its throttle has held it; nobody waits for it until then.


@dataclass(frozen=True, slots=True)
class ControlState:
    sights: Mapping[int, BrokerEstimate] = field(default_factory=dict)
    courses: Mapping[BrokerSide, SideControlState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ControlInput:
    now_ms: int
    brokers: Mapping[int, BrokerSignal]
    moves: Mapping[BrokerSide, MoveSignal]
    rates: Mapping[BrokerSide, int]  # That stand on the sides we may turn.
    capacities: Mapping[int, Capacity]
    stalled: frozenset[BrokerSide] = frozenset()  # Both ends of every move that the judge calls stalled.
    # Sides whose throttle holds back replicas of a living broker that have been in the ISR and are not now.
    recovering: frozenset[BrokerSide] = frozenset()
    # Sides whose rate we have written, perhaps before we were started again, and what stood there before: bytes/s, 0 is nothing.
    ours: Mapping[BrokerSide, int] = field(default_factory=dict)
    planned: frozenset[BrokerSide] = frozenset()  # Plans still have something to begin there.
    # The most that plans allow sides that they copy through, in bytes/s; only where that is below the ceiling.
    most: Mapping[BrokerSide, float] = field(default_factory=dict)


def in_sync_bytes_per_s(move: MoveSignal | None) -> float:
    """Of what counts against the throttle, what in-sync followers fetch: on the leader side only."""
    if move is None or move.side is Side.FOLLOWER:
        return 0.0
    return max(0.0, (move.steady_state_bytes_per_s or 0.0) - (move.write_bytes_per_s or 0.0))
