"""How many partitions at a time may be copied through each side of each broker? AIMD, as TCP and Cruise Control do it.

Intuition: too few at a time leave a quota unused, as each one spends seconds on being begun, joining and being noticed. Too
many take the quota for keeping up, end all at the same moment, and press the controller, which everybody needs. Nobody knows
the number, and it changes; so one more is tried while the quota isn't full and somebody waits for it, and half is taken
back when somebody is hurt.

Invariant: no news raises nothing. A change is judged only by what was measured after it, with all the slots in use for as long as
the measure looks back. All stays within the operator's limits.

The ladder, for every side, from the most urgent down:
    producers are refused, or followers fall out of sync on its broker   half
    the controller is over its objective                                 half, everywhere
    the broker is not seen                                               as it is; after a minute one less at a time
    it rests from a cut, or the last raise can't be judged yet           as it is
    its quota is full; keeping up fills it; slots are free; nobody waits as it is: more would change nothing
    the controller is near its objective                                 as it is
    the quota isn't full                                                 one more; as long as it never was, as many as would fill
                                                                         it at what each copies now, twice as many at most

Vocabulary:
    full      of a side: what is measured comes up to what is meant for it.
    starts    steps that are asked for with one request. They all stand in the controller's line at once.
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
from tuner.core.controller import beside_of
from tuner.core.controller_pressure import Pressure, pressure, rested


@dataclass(frozen=True, slots=True)
class _Controller:
    pressed: Pressure | None
    fresh: bool

    @property
    def ratio(self) -> float | None:
        return self.pressed.ratio if self.pressed is not None and self.fresh else None


def decide_concurrency(
    view: ConcurrencyInput, memory: ConcurrencyState, limits: ConcurrencyLimits
) -> ConcurrencyDecision:
    """Slots for every side of the plan, and steps for one request, until it is asked again: with every look, or every second."""
    controller, rests = _controller(view, memory, limits)
    ratio = controller.ratio
    # What it tells is of half a minute: before that has gone by, the pressure is that of before the cut.
    busy = ratio is not None and ratio > 1.0 and view.now_ms >= memory.cooldown_until_ms
    memory = replace(
        memory,
        idle_baselines=rests,
        controller_seen=memory.controller_seen or ratio is not None,
        cooldown_until_ms=view.now_ms + round(limits.rest_s * 1000) if busy else memory.cooldown_until_ms,
    )
    sides: dict[BrokerSide, SideConcurrency] = {}
    changes: list[ConcurrencyChange] = []
    for side in sorted(view.sides):
        known = memory.sides.get(side)
        before = known if known is not None else _begun(view, memory, limits)
        before = _in_use(side, before, view)
        after = before if known is None else _side(side, before, view, memory, limits, ratio=ratio, busy=busy)
        sides[side] = after
        if known is None or after.slots != before.slots:
            changes.append(describe_side_change(side, known, after, controller.pressed, view))
    starts, change = _starts(view, memory, limits, controller, busy=busy)
    memory = replace(memory, sides=sides, starts_max=starts)
    if change is not None:
        changes.append(change)
        memory = replace(memory, starts_changed_at_ms=view.now_ms)
    why = {side: side_text(one) for side, one in sides.items()}
    slots = {side: one.slots for side, one in sides.items()}
    return ConcurrencyDecision(memory, slots, limits.cluster_max, starts, tuple(changes), why)


def _begun(view: ConcurrencyInput, memory: ConcurrencyState, limits: ConcurrencyLimits) -> SideConcurrency:
    # A side of a broker that has others begins where those are cut to: the controller is the same.
    most = min((one.slots for one in memory.sides.values()), default=limits.slots_start)
    slots = max(limits.slots_min, min(limits.slots_start, limits.slots_max, most))
    return SideConcurrency(slots, view.now_ms, view.now_ms)


def _in_use(side: BrokerSide, before: SideConcurrency, view: ConcurrencyInput) -> SideConcurrency:
    """Steps that are decided on are announced, asked for and heard of before the first byte: slots are in use seconds later."""
    if before.fully_used_at_ms is not None or not _uses_all(side, before, view):
        return before
    return replace(before, fully_used_at_ms=view.now_ms)


def _uses_all(side: BrokerSide, before: SideConcurrency, view: ConcurrencyInput) -> bool:
    # Of the last slot a part may be left that nobody fits into.
    return view.slots_in_use.get(side, 0.0) > before.slots - 1


def _side(
    side: BrokerSide,
    before: SideConcurrency,
    view: ConcurrencyInput,
    memory: ConcurrencyState,
    limits: ConcurrencyLimits,
    *,
    ratio: float | None,
    busy: bool,
) -> SideConcurrency:
    now_ms, signal = view.now_ms, view.brokers.get(side[0])
    clamped = max(limits.slots_min, min(limits.slots_max, before.slots))
    if clamped != before.slots:
        return _changed(before, clamped, ConcurrencyReason.LIMITS_CHANGED, view)
    rests = now_ms < before.cooldown_until_ms
    # A broker that has been silent since it was hurt is hurt still, as far as anybody knows.
    hurt = None if signal is None else _hurt(signal, limits)
    if not rests and (hurt is not None or busy):
        reason = hurt or ConcurrencyReason.CONTROLLER_BUSY
        slots = max(limits.slots_min, int(before.slots * limits.cut_ratio))
        rests_until_ms = now_ms + round(limits.rest_s * 1000)
        return SideConcurrency(slots, now_ms, before.measured_at_ms, rests_until_ms, searching=False, reason=reason)
    heard_at_ms = before.measured_at_ms if signal is None else signal.sampled_at_ms
    before = replace(before, measured_at_ms=heard_at_ms)
    age_s, waited_s = abs(now_ms - heard_at_ms) / 1000, (now_ms - before.changed_at_ms) / 1000
    if signal is None or age_s > limits.hold_age_s:
        if age_s > limits.decay_age_s and waited_s >= limits.raise_every_s and before.slots > limits.slots_min:
            return _changed(before, before.slots - 1, ConcurrencyReason.STALE_DECAY, view)
        return replace(before, reason=ConcurrencyReason.STALE)
    filled = _filled(side, signal, view)
    full = None if filled is None else filled >= limits.full_ratio
    before = replace(before, searching=before.searching and not full)
    holds = _holds(side, before, view, memory, limits, full=full, ratio=ratio)
    if holds is not None or filled is None:
        return replace(before, reason=holds or ConcurrencyReason.NOT_THROTTLED)
    slots = min(_more(before, filled, limits), _most(memory, limits))
    return _changed(before, slots, ConcurrencyReason.QUOTA_NOT_FULL, view)


def _changed(before: SideConcurrency, slots: int, reason: ConcurrencyReason, view: ConcurrencyInput) -> SideConcurrency:
    return replace(before, slots=slots, changed_at_ms=view.now_ms, fully_used_at_ms=None, reason=reason)


def _more(before: SideConcurrency, filled: float, limits: ConcurrencyLimits) -> int:
    """More than fill the quota do harm: each that is written to takes of it what keeping up with it takes."""
    least = before.slots + limits.raise_by
    if not before.searching:
        return least
    # Nothing is measured to a byte: what is nearly nothing asks for no more than twice as many either.
    wanted = math.ceil(before.slots / max(filled, 0.5))
    return max(least, wanted)


def _hurt(signal: BrokerSignal, limits: ConcurrencyLimits) -> ConcurrencyReason | None:
    if (signal.under_min_isr_partitions or 0.0) > 0.0:
        return ConcurrencyReason.UNDER_MIN_ISR
    if (signal.isr_shrinks_per_s or 0.0) > limits.isr_shrinks_per_s_max:
        return ConcurrencyReason.ISR_SHRINKS
    return None


def _holds(
    side: BrokerSide,
    before: SideConcurrency,
    view: ConcurrencyInput,
    memory: ConcurrencyState,
    limits: ConcurrencyLimits,
    *,
    full: bool | None,
    ratio: float | None,
) -> ConcurrencyReason | None:
    """Why there are no more; None: nothing speaks against it."""
    waited_ms = view.now_ms - before.changed_at_ms
    if view.now_ms < max(before.cooldown_until_ms, memory.cooldown_until_ms) or waited_ms < limits.raise_every_s * 1000:
        return ConcurrencyReason.COOLDOWN
    rate = view.setpoints.get(side)
    if rate is None or full is None:
        return ConcurrencyReason.NOT_THROTTLED
    if full:
        return ConcurrencyReason.QUOTA_FULL
    if view.steady_state.get(side, 0.0) > limits.full_ratio * rate:
        return ConcurrencyReason.STEADY_STATE_FILLS
    if not _uses_all(side, before, view):
        return ConcurrencyReason.SLOTS_NOT_USED
    if not view.waiting.get(side):
        return ConcurrencyReason.NO_PARTITION_WAITS
    if before.slots >= _most(memory, limits):
        return (
            ConcurrencyReason.AT_MAXIMUM
            if before.slots >= limits.slots_max
            else ConcurrencyReason.CONTROLLER_NOT_MEASURED
        )
    # ``heard`` is when it was measured; the seconds before the slots were in use say nothing of them.
    if before.fully_used_at_ms is None or before.measured_at_ms - before.fully_used_at_ms < limits.measure_s * 1000:
        return ConcurrencyReason.COOLDOWN
    if ratio is None and memory.controller_seen:
        return ConcurrencyReason.CONTROLLER_NOT_MEASURED
    return ConcurrencyReason.CONTROLLER_NEAR_LIMIT if ratio is not None and ratio > limits.near_ratio else None


def _most(memory: ConcurrencyState, limits: ConcurrencyLimits) -> int:
    return limits.slots_max if memory.controller_seen else min(limits.slots_max, limits.slots_unseen_max)


def _filled(side: BrokerSide, signal: BrokerSignal, view: ConcurrencyInput) -> float | None:
    """The share of its throttle that is used; None: no throttle, or nothing that measures it."""
    rate = view.setpoints.get(side)
    measured = signal.leader_throttled_bytes_per_s if side[1] is Side.LEADER else signal.follower_throttled_bytes_per_s
    # All replication bytes are no measure of it: they count what isn't listed.
    if rate is None or measured is None or signal.throttled_by == ThrottledBy.REPLICATION:
        return None
    return measured / max(rate, 1.0)


def _controller(
    view: ConcurrencyInput, memory: ConcurrencyState, limits: ConcurrencyLimits
) -> tuple[_Controller, Mapping[str, float]]:
    beside = beside_of(view.controllers, view.brokers, view.now_ms, limits.hold_age_s)
    rests = rested(beside, memory.idle_baselines)
    active = [signal for signal in view.controllers.values() if signal.active]
    newest: ControllerSignal | None = max(active, key=lambda signal: signal.sampled_at_ms, default=None)
    if newest is None:
        return _Controller(None, fresh=False), rests
    fresh = abs(view.now_ms - newest.sampled_at_ms) <= limits.hold_age_s * 1000
    return _Controller(pressure(newest, beside, view.objective, rests), fresh), rests


def _starts(
    view: ConcurrencyInput, memory: ConcurrencyState, limits: ConcurrencyLimits, controller: _Controller, *, busy: bool
) -> tuple[int, ConcurrencyChange | None]:
    """How many steps one request may ask for: AIMD as well, as it is these that stand in the controller's line together."""
    before = memory.starts_max if memory.starts_max is not None else limits.starts_start
    before = max(limits.starts_min, min(limits.starts_max, before))
    ratio = controller.ratio
    if busy:
        after, reason = max(limits.starts_min, int(before * limits.cut_ratio)), ConcurrencyReason.CONTROLLER_BUSY
    elif (
        ratio is not None
        and ratio <= limits.near_ratio
        and view.last_request_steps >= before
        and view.now_ms >= memory.cooldown_until_ms
        and view.now_ms - memory.starts_changed_at_ms >= limits.raise_every_s * 1000
    ):
        after, reason = min(limits.starts_max, before + limits.starts_raise_by), ConcurrencyReason.REQUESTS_FULL
    else:
        return before, None
    if after == before:
        return before, None
    return after, describe_starts_change(before, after, reason, controller.pressed)
