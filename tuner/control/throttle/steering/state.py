"""Defines the input of one control step, and the state that the control law keeps for each broker and side between two steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.shared.contract import BrokerSignal, MoveSignal, Side
from tuner.control.throttle.objective import Capacity
from tuner.control.throttle.quota_window.model import QuotaSamples
from tuner.control.throttle.steering.broker_estimate import BrokerEstimate
from tuner.control.throttle.steering.target_rate import TargetRate
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.cluster import BrokerSide, Setpoint
from tuner.core.drain_time import SideLoad
from tuner.core.value import value

NO_LOAD = SideLoad(0.0, 0.0)


@value
class SideControlState:
    """The state that the law keeps for one side.

    Attributes:
        controlled_since_ms: when the law began to control the side (the takeover); epoch.
        initial_rate_bytes_per_s: the throttle rate that was set at the takeover.
        setpoint: the mean rate that the side should have.
        window: the model of Kafka's quota window.
        corrected_until_ms: end of the newest measured step that has corrected the window; epoch.
        load: the newest known remaining bytes and steady-state replication.
        known_at_ms: the time of the oldest input, when the law last had all inputs of the side; None: never since the takeover.
        inputs_stale: whether an input is missing or too old now.
        initial_flow_bytes_per_s: bytes/s that passed at the takeover, if the throttle did not limit the move at this time; else
            None.
        boost: factor on the rate with which the side ends in time; above 1 while the move stalls although its throttle is full.
        boosted_at_ms: when ``boost`` last changed; epoch.
        not_throttle_limited_until_ms: until this time (epoch) the law assumes that something other than the throttle limits this
            side, so the other sides do not wait for it.
    """

    controlled_since_ms: int
    initial_rate_bytes_per_s: float
    setpoint: TargetRate
    window: QuotaSamples
    corrected_until_ms: int = 0
    load: SideLoad = NO_LOAD
    known_at_ms: int | None = None
    inputs_stale: bool = False
    initial_flow_bytes_per_s: float | None = None
    boost: float = 1.0
    boosted_at_ms: int = 0
    not_throttle_limited_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class ControlState:
    """The state that the law keeps between two steps."""

    broker_estimates: Mapping[int, BrokerEstimate] = field(default_factory=dict)
    side_states: Mapping[BrokerSide, SideControlState] = field(default_factory=dict)

    def setpoint(self, side: BrokerSide) -> Setpoint | None:
        """Returns the setpoint of a side with the limits behind it; None for a side that the law does not control."""
        state, estimate = self.side_states.get(side), self.broker_estimates.get(side[0])
        if state is None:
            return None
        target = state.setpoint
        return Setpoint(
            target.rate_bytes_per_s,
            target.infeasible,
            state.inputs_stale,
            estimate.latency_limit if estimate is not None else None,
            estimate.link_limit(side[1]) if estimate is not None else None,
        )


@dataclass(frozen=True, slots=True)
class ControlInput:
    """The input of one step of the law.

    Attributes:
        now_ms: epoch.
        brokers: the newest signal of each broker.
        moves: the newest signal of each side in which partitions move.
        current_rates: the current throttle rates of the sides that the law may change, in bytes/s.
        capacities: the capacity of each broker for which the settings have one.
        stalled_sides: the leader side and the follower side of every stalled move.
        recovering_sides: sides whose throttle delays lost replicas: they have left the ISR although their broker is alive.
        restore_rates: the rate before the tuner's first write on each managed side, in bytes/s; 0: no throttle was set.
        planned_sides: sides through which plans still have to start copies.
        plan_max_rates: the highest rate that a plan allows on a side, in bytes/s, if it is lower than the operator's maximum.
        at_min_isr_sides: sides that copy replicas of partitions with exactly min.insync.replicas replicas in sync.
        baselines: each broker's usual latency without copies.
        deadline_ratios: ``DeadlineForecast.time_ratio`` of the sides with a forecast until the deadline.
    """

    now_ms: int
    brokers: Mapping[int, BrokerSignal]
    moves: Mapping[BrokerSide, MoveSignal]
    current_rates: Mapping[BrokerSide, int]
    capacities: Mapping[int, Capacity]
    stalled_sides: frozenset[BrokerSide] = frozenset()
    recovering_sides: frozenset[BrokerSide] = frozenset()
    restore_rates: Mapping[BrokerSide, int] = field(default_factory=dict)
    planned_sides: frozenset[BrokerSide] = frozenset()
    plan_max_rates: Mapping[BrokerSide, float] = field(default_factory=dict)
    at_min_isr_sides: frozenset[BrokerSide] = frozenset()
    baselines: Mapping[int, BrokerBaseline] = field(default_factory=dict)
    deadline_ratios: Mapping[BrokerSide, float] = field(default_factory=dict)


def in_sync_bytes_per_s(move: MoveSignal | None) -> float:
    """Returns the part of the throttled bytes that in-sync followers fetch, in bytes/s; 0 on a follower side.

    A leader's steady-state replication is its write rate × (in-sync followers + adding replicas). A move usually adds one replica.
    So steady-state replication − write rate is the part of the in-sync followers.
    """
    if move is None or move.side is Side.FOLLOWER:
        return 0.0
    return max(0.0, (move.steady_state_bytes_per_s or 0.0) - (move.write_bytes_per_s or 0.0))
