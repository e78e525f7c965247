"""How many partitions of a plan are copied at a time: what the operator allows, what is seen, what is remembered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from streaming.shared.contract import BrokerSignal, ControllerSignal
from tuner.core.cluster import BrokerSide
from tuner.core.controller import ControllerObjective


class ConcurrencyReason(StrEnum):
    INITIAL = "initial"
    LIMITS_CHANGED = "limits_changed"
    # Less: somebody is hurt.
    UNDER_MIN_ISR = "under_min_isr"
    ISR_SHRINKS = "isr_shrinks"
    CONTROLLER_BUSY = "controller_busy"
    STALE_DECAY = "stale_decay"
    # As it is: nobody knows, or more would change nothing.
    COOLDOWN = "cooldown"
    STALE = "stale"
    CONTROLLER_NOT_MEASURED = "controller_not_measured"
    NOT_THROTTLED = "not_throttled"
    QUOTA_FULL = "quota_full"
    STEADY_STATE_FILLS = "steady_state_fills"
    SLOTS_NOT_USED = "slots_not_used"
    NO_PARTITION_WAITS = "no_partition_waits"
    CONTROLLER_NEAR_LIMIT = "controller_near_limit"
    AT_MAXIMUM = "at_maximum"
    # More.
    QUOTA_NOT_FULL = "quota_not_full"
    REQUESTS_FULL = "requests_full"


@dataclass(frozen=True, slots=True)
class ConcurrencyLimits:
    """The operator's numbers, and the constants of the law with the reason for each."""

    slots_min: int = 1
    slots_max: int = 64  # Of a side.
    cluster_max: int = 1250  # Cruise Control's; ListPartitionReassignments of so many takes 25 ms.
    slots_start: int = 5  # Cruise Control's first.
    # Where no controller was ever measured: Cruise Control's most, which nobody has complained about.
    slots_unseen_max: int = 12

    # A side is full when its measured bytes reach this share of what is meant for it; as for stalls.
    full_ratio: float = 0.85
    # Once it was full, or somebody was hurt, slots are added one at a time; before that as many as would fill it.
    raise_by: int = 1
    # Kafka's measure looks back 11 s, and comes up to 10 s late: a raise is judged by what came after it.
    raise_every_s: float = 15.0
    # So far back looks Kafka's measure: its window, and the second that is being filled.
    measure_s: float = 12.0
    cut_ratio: float = 0.5
    # The stream's window: what it tells before that is of the time before the cut.
    rest_s: float = 35.0
    # Partitions/s that leave their ISR on one broker; a fetch that comes late once is none.
    isr_shrinks_per_s_max: float = 0.05

    # Steps asked for at a time: each is an event's worth of work that others wait for.
    starts_start: int = 50
    starts_min: int = 1
    # As many as keep others waiting for half of 500 ms where each takes 1 ms; KRaft has been seen to take a tenth of that.
    starts_max: int = 250
    starts_raise_by: int = 50
    # Of the controller's objective: above this nothing grows.
    near_ratio: float = 0.6

    # Signals older than the first hold, and older than the second sink by one slot a raise's time.
    hold_age_s: float = 30.0
    decay_age_s: float = 60.0

    def __post_init__(self) -> None:
        # The settings have told the operator already, naming the key; here it guards the core.
        assert 1 <= self.slots_min <= self.slots_max
        assert self.cluster_max >= 1
        assert 1 <= self.starts_min <= self.starts_max


@dataclass(frozen=True, slots=True)
class ConcurrencyInput:
    """What there is to see, by side where it says nothing else."""

    now_ms: int
    sides: frozenset[BrokerSide]  # That the plan still copies something through.
    slots_in_use: Mapping[BrokerSide, float] = field(default_factory=dict)  # Slots in use.
    waiting: Mapping[BrokerSide, int] = field(default_factory=dict)
    # What is meant for it now, and thus should be measured; a side that isn't named has no throttle.
    setpoints: Mapping[BrokerSide, float] = field(default_factory=dict)
    steady_state: Mapping[BrokerSide, float] = field(default_factory=dict)
    last_request_steps: int = 0  # Steps that the last request asked for.
    brokers: Mapping[int, BrokerSignal] = field(default_factory=dict)
    controllers: Mapping[int, ControllerSignal] = field(default_factory=dict)
    objective: ControllerObjective = field(default_factory=ControllerObjective)


@dataclass(frozen=True, slots=True)
class SideConcurrency:
    slots: int
    changed_at_ms: int
    measured_at_ms: int  # When its broker was measured last; where it never was, when the side began.
    cooldown_until_ms: int = 0
    searching: bool = True  # Never full and never cut so far: nobody knows where the end is.
    reason: ConcurrencyReason = ConcurrencyReason.INITIAL
    fully_used_at_ms: int | None = None  # When all of them were first seen in use since the last change; None: not yet.


@dataclass(frozen=True, slots=True)
class ConcurrencyState:
    """Where it is lost, all begins at the start's numbers again."""

    sides: Mapping[BrokerSide, SideConcurrency] = field(default_factory=dict)
    starts_max: int | None = None
    starts_changed_at_ms: int = 0
    cooldown_until_ms: int = 0  # The whole cluster, after a cut for the controller.
    idle_baselines: Mapping[str, float] = field(default_factory=dict)  # Of the controller's measures, ms.
    controller_seen: bool = False
    last_start_at_ms: int | None = None  # When something was to begin last; None: not yet.
    last_snapshot_at_ms: int | None = None
    carried_small_share: float = 0.0  # As control/reassignment/small_partitions.py carries it from request to request.

    def since_last_start_s(self, now_ms: int) -> float:
        return _ago_s(self.last_start_at_ms, now_ms)

    def snapshot_interval_s(self, now_ms: int) -> float:
        return _ago_s(self.last_snapshot_at_ms, now_ms)


@dataclass(frozen=True, slots=True)
class ConcurrencyChange:
    side: BrokerSide | None  # None: of the steps that are asked for at a time.
    before: int
    after: int
    reason: ConcurrencyReason
    text: str


@dataclass(frozen=True, slots=True)
class ConcurrencyDecision:
    state: ConcurrencyState
    slots: Mapping[BrokerSide, int]
    cluster_max: int
    starts_max: int
    changes: tuple[ConcurrencyChange, ...]
    explanations: Mapping[BrokerSide, str]  # Of every side: why it has as many as it has.


def _ago_s(at_ms: int | None, now_ms: int) -> float:
    # Who set the clock back has not made it known how long ago it was.
    return math.inf if at_ms is None or at_ms > now_ms else (now_ms - at_ms) / 1000
