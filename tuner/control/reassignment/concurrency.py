"""Decides how many partitions are copied through each side of each broker at a time, by additive increase and halving (AIMD).

Too few partitions at a time leave a throttle unused, because each step spends seconds on its start and end. Too many use up the
throttle for new writes, and burden the controller, as many steps end at the same moment. The right number is unknown and changes.
So one slot is added while the throttle is not full and a partition waits. The slots are halved when a broker or the controller is
overloaded.

Rules for each side, the most urgent first:

    condition                                                        slots
    partitions below min.insync.replicas, or the ISR shrinks         half
    the controller exceeds its objective                             half, on every side
    no recent signal of the broker                                   unchanged; after a minute one less at a time
    cooldown after a cut, or the last increase cannot be judged yet  unchanged
    throttle full or used up by new writes, or a slot is free,       unchanged, because more slots would not help
    or no partition waits
    the controller is near its objective                             unchanged
    the throttle is not full                                         one more. If it was never full yet: as many as would fill it,
                                                                     but at most twice as many as now

Invariant: nothing increases without a new signal. The slots increase again only after a measurement that lies entirely after the
last change and after the time at which all slots were in use. The operator's limits always hold.

Terms:
    side     one broker as a leader (source of copies) or as a follower (destination); each side has its own throttle.
    slot     room for copying one partition through a side.
    full     the measured throttled bytes/s of a side reach its setpoint (``full_ratio``).
    starts   steps requested with one request; the controller works through them together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from streaming.shared.contract import BrokerSignal, ControllerSignal, Side, ThrottledBy
from tuner.control.reassignment.concurrency_model import (
    ConcurrencyChange,
    ConcurrencyDecision,
    ConcurrencyInput,
    ConcurrencyLimits,
    ConcurrencyReason,
    ConcurrencyState,
    SideConcurrency,
)
from tuner.control.reassignment.concurrency_text import describe_side_change, describe_starts_change, side_text
from tuner.core.cluster import BrokerSide
from tuner.core.controller import cluster_wide_measures
from tuner.core.controller_pressure import Pressure, learn_idle_baselines, worst_pressure


@dataclass(frozen=True, slots=True)
class _ControllerLoad:
    """The controller's pressure, and whether it was measured recently."""

    pressure: Pressure | None
    is_fresh: bool

    @property
    def ratio(self) -> float | None:
        """Load divided by the objective's limit; None: not known at present."""
        return self.pressure.ratio if self.pressure is not None and self.is_fresh else None


def decide_concurrency(
    inputs: ConcurrencyInput, state: ConcurrencyState, limits: ConcurrencyLimits
) -> ConcurrencyDecision:
    """Returns the slots of every side and the steps per request, until the next snapshot."""
    load, baselines = _controller_load(inputs, state, limits)
    load_ratio = load.ratio
    # Signals cover half a minute, so until the cooldown has passed they still show the load before the last cut.
    controller_is_busy = load_ratio is not None and load_ratio > 1.0 and inputs.now_ms >= state.cooldown_until_ms
    state = replace(
        state,
        idle_baselines=baselines,
        controller_was_measured=state.controller_was_measured or load_ratio is not None,
    )
    if controller_is_busy:
        state = replace(state, cooldown_until_ms=inputs.now_ms + round(limits.rest_s * 1000))
    sides: dict[BrokerSide, SideConcurrency] = {}
    changes: list[ConcurrencyChange] = []
    for side in sorted(inputs.sides):
        known = state.sides.get(side)
        current = known if known is not None else _initial_state(inputs, state, limits)
        current = _note_full_use(side, current, inputs)
        decided = current  # A new side keeps its start value until the next decision.
        if known is not None:
            decided = _decide_side(
                side, current, inputs, state, limits, load_ratio=load_ratio, controller_is_busy=controller_is_busy
            )
        sides[side] = decided
        if known is None or decided.slots != current.slots:
            changes.append(describe_side_change(side, known, decided, load.pressure, inputs))
    starts_max, change = _decide_starts(inputs, state, limits, load, controller_is_busy=controller_is_busy)
    state = replace(state, sides=sides, starts_max=starts_max)
    if change is not None:
        changes.append(change)
        state = replace(state, starts_changed_at_ms=inputs.now_ms)
    explanations = {side: side_text(decided) for side, decided in sides.items()}
    slots = {side: decided.slots for side, decided in sides.items()}
    return ConcurrencyDecision(state, slots, limits.cluster_max, starts_max, tuple(changes), explanations)


def _initial_state(inputs: ConcurrencyInput, state: ConcurrencyState, limits: ConcurrencyLimits) -> SideConcurrency:
    # All sides share one controller. If other sides were cut because of its load, a new side must not begin with more slots.
    lowest = min((side.slots for side in state.sides.values()), default=limits.slots_start)
    slots = max(limits.slots_min, min(limits.slots_start, limits.slots_max, lowest))
    return SideConcurrency(slots, changed_at_ms=inputs.now_ms, measured_at_ms=inputs.now_ms)


def _note_full_use(side: BrokerSide, current: SideConcurrency, inputs: ConcurrencyInput) -> SideConcurrency:
    """Notes when all slots are first in use. After a change this takes seconds, because a step takes seconds to start."""
    if current.fully_used_at_ms is not None or not _uses_all_slots(side, current, inputs):
        return current
    return replace(current, fully_used_at_ms=inputs.now_ms)


def _uses_all_slots(side: BrokerSide, current: SideConcurrency, inputs: ConcurrencyInput) -> bool:
    # A fraction of the last slot may stay free because no waiting partition fits into it.
    return inputs.slots_in_use.get(side, 0.0) > current.slots - 1


def _decide_side(
    side: BrokerSide,
    current: SideConcurrency,
    inputs: ConcurrencyInput,
    state: ConcurrencyState,
    limits: ConcurrencyLimits,
    *,
    load_ratio: float | None,
    controller_is_busy: bool,
) -> SideConcurrency:
    now_ms, signal = inputs.now_ms, inputs.brokers.get(side[0])
    clamped = max(limits.slots_min, min(limits.slots_max, current.slots))
    if clamped != current.slots:
        return _with_slots(current, clamped, ConcurrencyReason.LIMITS_CHANGED, inputs)
    # Harm is judged from a signal of any age: a broker that was in trouble and then went silent is probably still in trouble.
    harm = None if signal is None else _find_harm(signal, limits)
    if now_ms >= current.cooldown_until_ms and (harm is not None or controller_is_busy):
        reason = harm or ConcurrencyReason.CONTROLLER_BUSY
        slots = max(limits.slots_min, int(current.slots * limits.cut_ratio))
        return SideConcurrency(
            slots,
            changed_at_ms=now_ms,
            measured_at_ms=current.measured_at_ms,
            cooldown_until_ms=now_ms + round(limits.rest_s * 1000),
            searching=False,
            reason=reason,
        )
    measured_at_ms = current.measured_at_ms if signal is None else signal.sampled_at_ms
    current = replace(current, measured_at_ms=measured_at_ms)
    age_s = abs(now_ms - measured_at_ms) / 1000
    since_change_s = (now_ms - current.changed_at_ms) / 1000
    if signal is None or age_s > limits.hold_age_s:
        may_decay = since_change_s >= limits.raise_every_s and current.slots > limits.slots_min
        if age_s > limits.decay_age_s and may_decay:
            return _with_slots(current, current.slots - 1, ConcurrencyReason.STALE_DECAY, inputs)
        return replace(current, reason=ConcurrencyReason.STALE)
    fill_ratio = _fill_ratio(side, signal, inputs)
    is_full = None if fill_ratio is None else fill_ratio >= limits.full_ratio
    current = replace(current, searching=current.searching and not is_full)
    obstacle = _find_obstacle(side, current, inputs, state, limits, is_full=is_full, load_ratio=load_ratio)
    if obstacle is not None or fill_ratio is None:
        return replace(current, reason=obstacle or ConcurrencyReason.NOT_THROTTLED)
    slots = min(_next_slots(current, fill_ratio, limits), _slots_max(state, limits))
    return _with_slots(current, slots, ConcurrencyReason.QUOTA_NOT_FULL, inputs)


def _with_slots(
    current: SideConcurrency, slots: int, reason: ConcurrencyReason, inputs: ConcurrencyInput
) -> SideConcurrency:
    return replace(current, slots=slots, changed_at_ms=inputs.now_ms, fully_used_at_ms=None, reason=reason)


def _next_slots(current: SideConcurrency, fill_ratio: float, limits: ConcurrencyLimits) -> int:
    """Returns more slots, but no more than fill the throttle: each copy uses a part of the throttle for new writes."""
    next_slots = current.slots + limits.raise_by
    if not current.searching:
        return next_slots
    # A low measurement is inexact, so the slots at most double.
    filling_slots = math.ceil(current.slots / max(fill_ratio, 0.5))
    return max(next_slots, filling_slots)


def _find_harm(signal: BrokerSignal, limits: ConcurrencyLimits) -> ConcurrencyReason | None:
    if (signal.under_min_isr_partitions or 0.0) > 0.0:
        return ConcurrencyReason.UNDER_MIN_ISR
    if (signal.isr_shrinks_per_s or 0.0) > limits.isr_shrinks_per_s_max:
        return ConcurrencyReason.ISR_SHRINKS
    return None


def _find_obstacle(
    side: BrokerSide,
    current: SideConcurrency,
    inputs: ConcurrencyInput,
    state: ConcurrencyState,
    limits: ConcurrencyLimits,
    *,
    is_full: bool | None,
    load_ratio: float | None,
) -> ConcurrencyReason | None:
    """Returns why the side gets no more slots; None: it may get more."""
    since_change_ms = inputs.now_ms - current.changed_at_ms
    cooldown_until_ms = max(current.cooldown_until_ms, state.cooldown_until_ms)
    if inputs.now_ms < cooldown_until_ms or since_change_ms < limits.raise_every_s * 1000:
        return ConcurrencyReason.COOLDOWN
    rate = inputs.setpoints.get(side)
    if rate is None or is_full is None:
        return ConcurrencyReason.NOT_THROTTLED
    if is_full:
        return ConcurrencyReason.QUOTA_FULL
    if inputs.steady_state.get(side, 0.0) > limits.full_ratio * rate:
        return ConcurrencyReason.STEADY_STATE_FILLS
    if not _uses_all_slots(side, current, inputs):
        return ConcurrencyReason.SLOTS_NOT_USED
    if not inputs.waiting.get(side):
        return ConcurrencyReason.NO_PARTITION_WAITS
    if current.slots >= limits.slots_max:
        return ConcurrencyReason.AT_MAXIMUM
    if current.slots >= _slots_max(state, limits):
        return ConcurrencyReason.CONTROLLER_NOT_MEASURED
    # A measurement that began before all slots were in use does not show how much these slots can copy.
    if current.fully_used_at_ms is None or current.measured_at_ms - current.fully_used_at_ms < limits.measure_s * 1000:
        return ConcurrencyReason.COOLDOWN
    if load_ratio is None and state.controller_was_measured:
        return ConcurrencyReason.CONTROLLER_NOT_MEASURED
    if load_ratio is not None and load_ratio > limits.near_ratio:
        return ConcurrencyReason.CONTROLLER_NEAR_LIMIT
    return None


def _slots_max(state: ConcurrencyState, limits: ConcurrencyLimits) -> int:
    """Returns the maximum for a side, which is lower until a controller has been measured."""
    return limits.slots_max if state.controller_was_measured else min(limits.slots_max, limits.slots_unmeasured_max)


def _fill_ratio(side: BrokerSide, signal: BrokerSignal, inputs: ConcurrencyInput) -> float | None:
    """Returns the used share of the side's throttle; None: it has no throttle, or its use is not measured."""
    rate = inputs.setpoints.get(side)
    measured = signal.leader_throttled_bytes_per_s if side[1] is Side.LEADER else signal.follower_throttled_bytes_per_s
    # The total replication rate is no substitute, because it includes replicas that are not in the throttle's replica list.
    if rate is None or measured is None or signal.throttled_by == ThrottledBy.REPLICATION:
        return None
    return measured / max(rate, 1.0)


def _controller_load(
    inputs: ConcurrencyInput, state: ConcurrencyState, limits: ConcurrencyLimits
) -> tuple[_ControllerLoad, Mapping[str, float]]:
    """Returns the controller's load, and the idle baselines that it was compared with."""
    measures = cluster_wide_measures(inputs.controllers, inputs.brokers, inputs.now_ms, limits.hold_age_s)
    baselines = learn_idle_baselines(measures, state.idle_baselines)
    active = [signal for signal in inputs.controllers.values() if signal.active]
    newest: ControllerSignal | None = max(active, key=lambda signal: signal.sampled_at_ms, default=None)
    if newest is None:
        return _ControllerLoad(None, is_fresh=False), baselines
    is_fresh = abs(inputs.now_ms - newest.sampled_at_ms) <= limits.hold_age_s * 1000
    return _ControllerLoad(worst_pressure(newest, measures, inputs.objective, baselines), is_fresh), baselines


def _decide_starts(
    inputs: ConcurrencyInput,
    state: ConcurrencyState,
    limits: ConcurrencyLimits,
    load: _ControllerLoad,
    *,
    controller_is_busy: bool,
) -> tuple[int, ConcurrencyChange | None]:
    """Returns the number of steps per request, and its change; None: it has not changed.

    This number follows additive increase and halving too, because the steps of one request queue at the controller.
    """
    current = state.starts_max if state.starts_max is not None else limits.starts_start
    current = max(limits.starts_min, min(limits.starts_max, current))
    load_ratio = load.ratio
    if controller_is_busy:
        decided, reason = max(limits.starts_min, int(current * limits.cut_ratio)), ConcurrencyReason.CONTROLLER_BUSY
    elif (
        load_ratio is not None
        and load_ratio <= limits.near_ratio
        and inputs.last_request_steps >= current
        and inputs.now_ms >= state.cooldown_until_ms
        and inputs.now_ms - state.starts_changed_at_ms >= limits.raise_every_s * 1000
    ):
        decided, reason = min(limits.starts_max, current + limits.starts_raise_by), ConcurrencyReason.REQUESTS_FULL
    else:
        return current, None
    if decided == current:
        return current, None
    return decided, describe_starts_change(current, decided, reason, load.pressure)
