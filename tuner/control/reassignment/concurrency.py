"""Decides how many partitions are copied through each side of each broker at a time, by additive increase and halving (AIMD).

Too few partitions at a time leave a throttle unused, because each step spends seconds on its start and end. Too many use the
throttle for new writes, end at the same moment and burden the controller. The right number is unknown and changes. So one slot is
added while the throttle is not full and a partition waits, and half is taken away when a broker or the controller suffers.

Rules for each side, the most urgent first:

    condition                                                        slots
    partitions below min.insync.replicas, or the ISR shrinks         half
    the controller exceeds its objective                             half, on every side
    no recent signal of the broker                                   unchanged; after a minute one less at a time
    cooldown after a cut, or the last increase cannot be judged yet  unchanged
    throttle full, or used up by new writes; slots free; no waiting  unchanged, more would not help
    the controller is near its objective                             unchanged
    the throttle is not full                                         one more; before it was ever full, as many as would fill it,
                                                                     at most twice as many

Invariant: nothing increases without a new signal. A change is judged only by what was measured after it, with all slots in use
for as long as the measurement looks back. The operator's limits always hold.

Terms:
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
    """Returns the slots of every side of the plans and the steps per request; valid until the next snapshot."""
    load, baselines = _controller_load(inputs, state, limits)
    ratio = load.ratio
    # Signals cover half a minute. Until the cooldown has passed they still show the load from before the cut.
    busy = ratio is not None and ratio > 1.0 and inputs.now_ms >= state.cooldown_until_ms
    state = replace(
        state,
        idle_baselines=baselines,
        controller_seen=state.controller_seen or ratio is not None,
        cooldown_until_ms=inputs.now_ms + round(limits.rest_s * 1000) if busy else state.cooldown_until_ms,
    )
    sides: dict[BrokerSide, SideConcurrency] = {}
    changes: list[ConcurrencyChange] = []
    for side in sorted(inputs.sides):
        known = state.sides.get(side)
        before = known if known is not None else _initial(inputs, state, limits)
        before = _note_full_use(side, before, inputs)
        after = before if known is None else _decide_side(side, before, inputs, state, limits, ratio=ratio, busy=busy)
        sides[side] = after
        if known is None or after.slots != before.slots:
            changes.append(describe_side_change(side, known, after, load.pressure, inputs))
    starts_max, change = _decide_starts(inputs, state, limits, load, busy=busy)
    state = replace(state, sides=sides, starts_max=starts_max)
    if change is not None:
        changes.append(change)
        state = replace(state, starts_changed_at_ms=inputs.now_ms)
    explanations = {side: side_text(decided) for side, decided in sides.items()}
    slots = {side: decided.slots for side, decided in sides.items()}
    return ConcurrencyDecision(state, slots, limits.cluster_max, starts_max, tuple(changes), explanations)


def _initial(inputs: ConcurrencyInput, state: ConcurrencyState, limits: ConcurrencyLimits) -> SideConcurrency:
    # A new side begins no higher than the others were cut to, because all sides share one controller.
    lowest = min((side.slots for side in state.sides.values()), default=limits.slots_start)
    slots = max(limits.slots_min, min(limits.slots_start, limits.slots_max, lowest))
    return SideConcurrency(slots, inputs.now_ms, inputs.now_ms)


def _note_full_use(side: BrokerSide, before: SideConcurrency, inputs: ConcurrencyInput) -> SideConcurrency:
    """Notes when all slots were first in use; that is seconds after a change, because a step takes seconds to start."""
    if before.fully_used_at_ms is not None or not _uses_all_slots(side, before, inputs):
        return before
    return replace(before, fully_used_at_ms=inputs.now_ms)


def _uses_all_slots(side: BrokerSide, before: SideConcurrency, inputs: ConcurrencyInput) -> bool:
    # A fraction of the last slot may stay free because no waiting partition fits into it.
    return inputs.slots_in_use.get(side, 0.0) > before.slots - 1


def _decide_side(
    side: BrokerSide,
    before: SideConcurrency,
    inputs: ConcurrencyInput,
    state: ConcurrencyState,
    limits: ConcurrencyLimits,
    *,
    ratio: float | None,
    busy: bool,
) -> SideConcurrency:
    now_ms, signal = inputs.now_ms, inputs.brokers.get(side[0])
    clamped = max(limits.slots_min, min(limits.slots_max, before.slots))
    if clamped != before.slots:
        return _changed(before, clamped, ConcurrencyReason.LIMITS_CHANGED, inputs)
    # A signal counts at any age here: a broker that suffered and then went silent is taken to suffer still.
    harm = None if signal is None else _find_harm(signal, limits)
    if now_ms >= before.cooldown_until_ms and (harm is not None or busy):
        reason = harm or ConcurrencyReason.CONTROLLER_BUSY
        slots = max(limits.slots_min, int(before.slots * limits.cut_ratio))
        cooldown_until_ms = now_ms + round(limits.rest_s * 1000)
        return SideConcurrency(slots, now_ms, before.measured_at_ms, cooldown_until_ms, searching=False, reason=reason)
    measured_at_ms = before.measured_at_ms if signal is None else signal.sampled_at_ms
    before = replace(before, measured_at_ms=measured_at_ms)
    age_s, since_change_s = abs(now_ms - measured_at_ms) / 1000, (now_ms - before.changed_at_ms) / 1000
    if signal is None or age_s > limits.hold_age_s:
        may_decay = since_change_s >= limits.raise_every_s and before.slots > limits.slots_min
        if age_s > limits.decay_age_s and may_decay:
            return _changed(before, before.slots - 1, ConcurrencyReason.STALE_DECAY, inputs)
        return replace(before, reason=ConcurrencyReason.STALE)
    fill_ratio = _fill_ratio(side, signal, inputs)
    full = None if fill_ratio is None else fill_ratio >= limits.full_ratio
    before = replace(before, searching=before.searching and not full)
    obstacle = _find_obstacle(side, before, inputs, state, limits, full=full, ratio=ratio)
    if obstacle is not None or fill_ratio is None:
        return replace(before, reason=obstacle or ConcurrencyReason.NOT_THROTTLED)
    slots = min(_increased(before, fill_ratio, limits), _slots_max(state, limits))
    return _changed(before, slots, ConcurrencyReason.QUOTA_NOT_FULL, inputs)


def _changed(
    before: SideConcurrency, slots: int, reason: ConcurrencyReason, inputs: ConcurrencyInput
) -> SideConcurrency:
    return replace(before, slots=slots, changed_at_ms=inputs.now_ms, fully_used_at_ms=None, reason=reason)


def _increased(before: SideConcurrency, fill_ratio: float, limits: ConcurrencyLimits) -> int:
    """Returns the next number of slots; not more than fill the throttle, because each slot uses some of it for new writes."""
    next_slots = before.slots + limits.raise_by
    if not before.searching:
        return next_slots
    # A low measurement is inexact, so it never more than doubles the slots.
    filling_slots = math.ceil(before.slots / max(fill_ratio, 0.5))
    return max(next_slots, filling_slots)


def _find_harm(signal: BrokerSignal, limits: ConcurrencyLimits) -> ConcurrencyReason | None:
    if (signal.under_min_isr_partitions or 0.0) > 0.0:
        return ConcurrencyReason.UNDER_MIN_ISR
    if (signal.isr_shrinks_per_s or 0.0) > limits.isr_shrinks_per_s_max:
        return ConcurrencyReason.ISR_SHRINKS
    return None


def _find_obstacle(
    side: BrokerSide,
    before: SideConcurrency,
    inputs: ConcurrencyInput,
    state: ConcurrencyState,
    limits: ConcurrencyLimits,
    *,
    full: bool | None,
    ratio: float | None,
) -> ConcurrencyReason | None:
    """Returns why the side gets no more slots; None: it may."""
    since_change_ms = inputs.now_ms - before.changed_at_ms
    cooldown_until_ms = max(before.cooldown_until_ms, state.cooldown_until_ms)
    if inputs.now_ms < cooldown_until_ms or since_change_ms < limits.raise_every_s * 1000:
        return ConcurrencyReason.COOLDOWN
    rate = inputs.setpoints.get(side)
    if rate is None or full is None:
        return ConcurrencyReason.NOT_THROTTLED
    if full:
        return ConcurrencyReason.QUOTA_FULL
    if inputs.steady_state.get(side, 0.0) > limits.full_ratio * rate:
        return ConcurrencyReason.STEADY_STATE_FILLS
    if not _uses_all_slots(side, before, inputs):
        return ConcurrencyReason.SLOTS_NOT_USED
    if not inputs.waiting.get(side):
        return ConcurrencyReason.NO_PARTITION_WAITS
    if before.slots >= limits.slots_max:
        return ConcurrencyReason.AT_MAXIMUM
    if before.slots >= _slots_max(state, limits):
        return ConcurrencyReason.CONTROLLER_NOT_MEASURED
    # Measurements from before all slots were in use do not show what these slots can do.
    if before.fully_used_at_ms is None or before.measured_at_ms - before.fully_used_at_ms < limits.measure_s * 1000:
        return ConcurrencyReason.COOLDOWN
    if ratio is None and state.controller_seen:
        return ConcurrencyReason.CONTROLLER_NOT_MEASURED
    return ConcurrencyReason.CONTROLLER_NEAR_LIMIT if ratio is not None and ratio > limits.near_ratio else None


def _slots_max(state: ConcurrencyState, limits: ConcurrencyLimits) -> int:
    return limits.slots_max if state.controller_seen else min(limits.slots_max, limits.slots_unseen_max)


def _fill_ratio(side: BrokerSide, signal: BrokerSignal, inputs: ConcurrencyInput) -> float | None:
    """Returns the used share of the side's throttle; None: it has no throttle, or its use is not measured."""
    rate = inputs.setpoints.get(side)
    measured = signal.leader_throttled_bytes_per_s if side[1] is Side.LEADER else signal.follower_throttled_bytes_per_s
    # The bytes of all replication do not measure the throttle, because they include replicas that are not listed.
    if rate is None or measured is None or signal.throttled_by == ThrottledBy.REPLICATION:
        return None
    return measured / max(rate, 1.0)


def _controller_load(
    inputs: ConcurrencyInput, state: ConcurrencyState, limits: ConcurrencyLimits
) -> tuple[_ControllerLoad, Mapping[str, float]]:
    """Returns the controller's load, and the idle baselines that it was compared with."""
    beside = cluster_wide_measures(inputs.controllers, inputs.brokers, inputs.now_ms, limits.hold_age_s)
    baselines = learn_idle_baselines(beside, state.idle_baselines)
    active = [signal for signal in inputs.controllers.values() if signal.active]
    newest: ControllerSignal | None = max(active, key=lambda signal: signal.sampled_at_ms, default=None)
    if newest is None:
        return _ControllerLoad(None, is_fresh=False), baselines
    is_fresh = abs(inputs.now_ms - newest.sampled_at_ms) <= limits.hold_age_s * 1000
    return _ControllerLoad(worst_pressure(newest, beside, inputs.objective, baselines), is_fresh), baselines


def _decide_starts(
    inputs: ConcurrencyInput,
    state: ConcurrencyState,
    limits: ConcurrencyLimits,
    load: _ControllerLoad,
    *,
    busy: bool,
) -> tuple[int, ConcurrencyChange | None]:
    """Returns the number of steps per request, and its change; AIMD too, because these steps queue at the controller."""
    before = state.starts_max if state.starts_max is not None else limits.starts_start
    before = max(limits.starts_min, min(limits.starts_max, before))
    ratio = load.ratio
    if busy:
        after, reason = max(limits.starts_min, int(before * limits.cut_ratio)), ConcurrencyReason.CONTROLLER_BUSY
    elif (
        ratio is not None
        and ratio <= limits.near_ratio
        and inputs.last_request_steps >= before
        and inputs.now_ms >= state.cooldown_until_ms
        and inputs.now_ms - state.starts_changed_at_ms >= limits.raise_every_s * 1000
    ):
        after, reason = min(limits.starts_max, before + limits.starts_raise_by), ConcurrencyReason.REQUESTS_FULL
    else:
        return before, None
    if after == before:
        return before, None
    return after, describe_starts_change(before, after, reason, load.pressure)
