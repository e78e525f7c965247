"""Defines limits, inputs, state and decision of the concurrency of plans: how many partitions are copied at a time.

A slot is one of the partitions that may be copied through a side at the same time. A side is the leader or the follower throttle of
one broker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from streaming.shared.contract import BrokerSignal, ControllerSignal
from tuner.core.cluster import BrokerSide
from tuner.core.controller import ControllerObjective


class ConcurrencyReason(StrEnum):
    """Why a side has its number of slots (concurrency.py)."""

    INITIAL = "initial"
    LIMITS_CHANGED = "limits_changed"
    # Fewer slots.
    UNDER_MIN_ISR = "under_min_isr"
    ISR_SHRINKS = "isr_shrinks"
    CONTROLLER_BUSY = "controller_busy"
    STALE_DECAY = "stale_decay"
    # Unchanged: more slots would not help, or their effect is not known.
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
    # More slots.
    QUOTA_NOT_FULL = "quota_not_full"
    REQUESTS_FULL = "requests_full"


@dataclass(frozen=True, slots=True)
class ConcurrencyLimits:
    """The operator's limits, and the constants of the rules (concurrency.py) with their reasons."""

    slots_min: int = 1
    slots_max: int = 64  # For one side.
    # As in Cruise Control; a ListPartitionReassignments response with this many partitions takes 25 ms.
    cluster_max: int = 1250
    slots_start: int = 5  # As in Cruise Control.
    # The maximum until a controller has been measured: the default of Cruise Control, which is in wide use.
    slots_unmeasured_max: int = 12

    # A throttle is full when the measured bytes reach this share of its setpoint, as in the stall detector.
    full_ratio: float = 0.85
    # Slots per increase, once the throttle was full or the slots were cut. Before that the slots increase faster ("searching").
    raise_by: int = 1
    # Shortest time between two increases. Kafka's rate shows the effect of an increase late: it covers the last 11 s, and the
    # signal arrives some seconds later.
    raise_every_s: float = 15.0
    # Kafka's rate covers its window of 11 s and the second in progress.
    measure_s: float = 12.0
    cut_ratio: float = 0.5  # A cut multiplies the slots by this.
    # Cooldown after a cut. Signals cover a window of 30 s, so for this time they also cover seconds from before the cut.
    rest_s: float = 35.0
    # ISR shrinks per second on one broker. A single late fetch stays below this rate.
    isr_shrinks_per_s_max: float = 0.05

    # Steps per request. The controller handles all steps of a request as one event, while other requests wait.
    starts_start: int = 50
    starts_min: int = 1
    # At 1 ms per step, this many steps delay other requests by 250 ms. KRaft controllers need only about a tenth of that.
    starts_max: int = 250
    starts_raise_by: int = 50
    # Above this share of the controller's objective, neither slots nor steps per request increase.
    near_ratio: float = 0.6

    # If a broker's signals are older than ``hold_age_s``, its slots stay. Beyond ``decay_age_s``, they fall by one per
    # raise_every_s.
    hold_age_s: float = 30.0
    decay_age_s: float = 60.0

    def __post_init__(self) -> None:
        # The settings report wrong values with their keys; these checks guard other callers.
        assert 1 <= self.slots_min <= self.slots_max
        assert self.cluster_max >= 1
        assert 1 <= self.starts_min <= self.starts_max


@dataclass(frozen=True, slots=True)
class ConcurrencyInput:
    """The inputs of the decision.

    Attributes:
        sides: sides through which plans still have to copy.
        slots_in_use: slots of each side that running steps use.
        waiting: partitions that wait for each side.
        setpoints: throttle of each side now, bytes/s; a side without an entry has no throttle.
        steady_state: bytes/s of each side's throttle that the new writes of running steps use.
        last_request_steps: number of steps in the last request.
        objective: the controller's objective.
    """

    now_ms: int
    sides: frozenset[BrokerSide]
    slots_in_use: Mapping[BrokerSide, float] = field(default_factory=dict)
    waiting: Mapping[BrokerSide, int] = field(default_factory=dict)
    setpoints: Mapping[BrokerSide, float] = field(default_factory=dict)
    steady_state: Mapping[BrokerSide, float] = field(default_factory=dict)
    last_request_steps: int = 0
    brokers: Mapping[int, BrokerSignal] = field(default_factory=dict)
    controllers: Mapping[int, ControllerSignal] = field(default_factory=dict)
    objective: ControllerObjective = field(default_factory=ControllerObjective)


@dataclass(frozen=True, slots=True)
class SideConcurrency:
    """The slots of one side, and its state for the next decision.

    Attributes:
        measured_at_ms: time of the broker's newest measurement; without a measurement the time at which the side began.
        searching: the throttle was never full and the slots were never cut, so the right number is still unknown.
        fully_used_at_ms: first time since the last change at which all slots were in use; None: not yet.
    """

    slots: int
    changed_at_ms: int
    measured_at_ms: int
    cooldown_until_ms: int = 0
    searching: bool = True
    reason: ConcurrencyReason = ConcurrencyReason.INITIAL
    fully_used_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ConcurrencyState:
    """State between decisions. It is not in the journal: each leadership term begins with the start values.

    Attributes:
        starts_max: highest number of steps per request; None: not decided yet.
        cooldown_until_ms: end of the cooldown of all sides after a cut because of the controller's load.
        idle_baselines: latency of each measure while the controller is idle, ms.
        controller_was_measured: a controller has been measured at least once.
        last_start_at_ms: when steps were last started; None: never.
        last_snapshot_at_ms: when the cluster was last read; None: never.
        carried_small_share: see ``small_partitions``.
    """

    sides: Mapping[BrokerSide, SideConcurrency] = field(default_factory=dict)
    starts_max: int | None = None
    starts_changed_at_ms: int = 0
    cooldown_until_ms: int = 0
    idle_baselines: Mapping[str, float] = field(default_factory=dict)
    controller_was_measured: bool = False
    last_start_at_ms: int | None = None
    last_snapshot_at_ms: int | None = None
    carried_small_share: float = 0.0

    def since_last_start_s(self, now_ms: int) -> float:
        return _elapsed_s(self.last_start_at_ms, now_ms)

    def snapshot_interval_s(self, now_ms: int) -> float:
        return _elapsed_s(self.last_snapshot_at_ms, now_ms)


@dataclass(frozen=True, slots=True)
class ConcurrencyChange:
    """A change of the slots of one side. If ``side`` is None, a change of the steps per request."""

    side: BrokerSide | None
    before: int
    after: int
    reason: ConcurrencyReason
    text: str


@dataclass(frozen=True, slots=True)
class ConcurrencyDecision:
    """The concurrency until the next decision.

    Attributes:
        slots: slots of each side.
        cluster_max: highest number of copying steps in the whole cluster.
        starts_max: highest number of steps per request.
        explanations: for each side a sentence about its number of slots and the reason.
    """

    state: ConcurrencyState
    slots: Mapping[BrokerSide, int]
    cluster_max: int
    starts_max: int
    changes: tuple[ConcurrencyChange, ...]
    explanations: Mapping[BrokerSide, str]


def _elapsed_s(at_ms: int | None, now_ms: int) -> float:
    # A time in the future means that the clock was set back, so the elapsed time is not known.
    return math.inf if at_ms is None or at_ms > now_ms else (now_ms - at_ms) / 1000
