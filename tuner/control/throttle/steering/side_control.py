"""Controls one side for one second: computes its setpoint, the rate for that setpoint, and whether the rate is worth a write.

The setpoint of a side (the leader or the follower throttle of one broker) is decided by the first case that applies:

    never measured  The inputs were never complete since the takeover. The current rate stays. A managed side, whose rate is left
                    from before a restart, decays after ``decay_age_s``: down to the rate before the tuner's first write, or to
                    the minimum rate if that is higher.
    too old         The inputs are older than ``decay_age_s``. The setpoint decays to the minimum rate, to protect clients.
    stale           The inputs are older than ``hold_age_s`` or incomplete. The setpoint stays.
    ISR recovery    The throttle delays replicas outside the ISR. The setpoint is all that the operator and the link allow.
    else            The setpoint follows the target of the whole move.

Terms:
    full throttle  the measured bytes nearly reach the setpoint, so this throttle limits the move.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from streaming.shared.contract import Side
from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.quota_window.model import SECONDS_KEPT, steady_window
from tuner.control.throttle.steering.side_inputs import SideInputs
from tuner.control.throttle.steering.state import SideControlState
from tuner.control.throttle.steering.target_rate import (
    TargetRate,
    decoupled_rate,
    isr_recovery_rate,
    limit_takeover,
    margin_ratio,
    next_boost,
    target_rate,
)
from tuner.control.throttle.steering.window_compensation import compensated_rate, replay_window
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad

# A clock correction (slew) goes back no further; a larger step means that the clock was set.
_CLOCK_SLEW_BACK_MS_MAX = 1000


class MoveTarget(NamedTuple):
    """The common target of all sides.

    Attributes:
        target_s: T, the seconds in which all moves should end.
        decoupled_from: the slowest side, if something other than its throttle limits that side. The other sides then end before T.
    """

    target_s: float
    decoupled_from: BrokerSide | None


class SideBounds(NamedTuple):
    """The bounds of one side's rate.

    Attributes:
        limits: the constants of the law, capped at what a plan allows the side.
        min_bytes_per_s: the minimum rate.
        ceiling_bytes_per_s: the rate that the headroom allows now.
        max_bytes_per_s: the rate that the operator, the plan and the objective allow.
    """

    limits: ControlLimits
    min_bytes_per_s: float
    ceiling_bytes_per_s: float
    max_bytes_per_s: float


class SideContext(NamedTuple):
    """The inputs, bounds and flags of one side in this second.

    Attributes:
        current_bytes_per_s: the throttle rate that is set.
        restore_bytes_per_s: the rate before the tuner's first write, 0 if there was none; None if the side is not managed.
        planned: a plan still has partitions to start on this side.
        stalled: the stall detector calls a move through this side stalled.
        recovering: this throttle delays replicas outside the ISR.
    """

    side: BrokerSide
    current_bytes_per_s: int
    inputs: SideInputs
    load: SideLoad
    bounds: SideBounds
    restore_bytes_per_s: int | None
    planned: bool
    stalled: bool
    recovering: bool


class _NextSetpoint(NamedTuple):
    """The setpoint for this second, and the fields of ``SideControlState`` that are computed together with it."""

    setpoint: TargetRate
    boost: float
    boosted_at_ms: int
    not_throttle_limited_until_ms: int


def control_side(
    context: SideContext, before: SideControlState | None, target: MoveTarget, now_ms: int, limits: ControlLimits
) -> tuple[SideControlState, int | None]:
    """Returns the side's state after this second, and the rate to write in bytes/s; None if the current rate stays.

    Args:
        context: inputs, bounds and flags of the side.
        before: the previous state; None at the takeover.
        target: the common target of all sides.
        now_ms: epoch.
        limits: the constants of the law, without a plan's cap.
    """
    if before is None or _was_clock_set(before, now_ms):
        before = _initial_state(context, now_ms, limits)
    current, bounds = context.current_bytes_per_s, context.bounds
    window, corrected_until_ms = replay_window(before, context.inputs, current, now_ms, limits)
    min_rate = bounds.min_bytes_per_s
    measured_at_ms = context.inputs.measured_at_ms
    known_at_ms = before.known_at_ms if measured_at_ms is None else measured_at_ms
    # A measurement from the future is treated as old: a clock was set.
    age_s = abs(now_ms - (known_at_ms or 0)) / 1000
    stale = measured_at_ms is None or age_s > limits.hold_age_s
    # A managed rate that was set before a restart was chosen for the client load of that time, so it must not stay for ever.
    controlled_s = (now_ms - before.controlled_since_ms) / 1000
    decays = context.restore_bytes_per_s is not None and controlled_s > limits.decay_age_s
    rate_limits = bounds.limits
    if known_at_ms is None:
        next_setpoint = _keep_setpoint(before)
        min_rate = max(min_rate, context.restore_bytes_per_s or 0)
        if decays:
            next_setpoint = next_setpoint._replace(setpoint=_decay(before.setpoint, current, min_rate, limits))
    elif age_s > limits.decay_age_s:
        next_setpoint = _keep_setpoint(before)._replace(setpoint=_decay(before.setpoint, current, min_rate, limits))
    elif stale:
        next_setpoint = _keep_setpoint(before)
    elif context.recovering:
        # The partition may take no writes until its followers are back in the ISR. Durability comes before latency and plans, so
        # the plan's cap does not apply.
        rate_limits = limits
        setpoint = isr_recovery_rate(bounds.min_bytes_per_s, context.inputs.link_bytes_per_s, limits)
        next_setpoint = _keep_setpoint(before)._replace(setpoint=setpoint)
    else:
        next_setpoint = _follow_target(context, before, target, now_ms, limits)
    # Positional arguments: dataclasses.replace takes three times as long, and this runs for each side every second.
    state = SideControlState(
        before.controlled_since_ms,
        before.initial_rate_bytes_per_s,
        next_setpoint.setpoint,
        window,
        corrected_until_ms,
        context.load,
        known_at_ms,
        stale,
        before.initial_flow_bytes_per_s,
        next_setpoint.boost,
        next_setpoint.boosted_at_ms,
        next_setpoint.not_throttle_limited_until_ms,
    )
    if known_at_ms is None:
        # The window was never observed, so the rate is not compensated.
        rate = min(current, round(max(min_rate, state.setpoint.rate_bytes_per_s))) if decays else current
    else:
        # With stale inputs the window is not known, so the rate is neither compensated nor raised.
        compensation_range = 0.0 if stale else limits.window_compensation_range
        move = context.inputs.move
        rate = compensated_rate(
            context.inputs.direction,
            state,
            rate_limits,
            compensation_range=compensation_range,
            planned=context.planned,
            recovers=move is not None and 0 < move.moving_partitions == move.recovering_partitions,
        )
        rate = min(current, max(rate, round(min_rate))) if stale else rate
    return state, rate if _is_worth_a_write(context, rate, min_rate, limits) else None


def is_throttle_full(
    direction: Side,
    state: SideControlState,
    throttled_bytes_per_s: float | None,
    limits: ControlLimits,
    *,
    planned: bool = False,
) -> bool:
    """Returns whether the measured bytes nearly reach the setpoint; False if they were not measured."""
    if throttled_bytes_per_s is None:
        return False
    # The setpoint contains this margin over the bytes that the side needs.
    slack = margin_ratio(direction, limits, planned=planned)
    return slack * throttled_bytes_per_s >= limits.throttle_full_ratio_min * state.setpoint.rate_bytes_per_s


def is_limited_elsewhere(state: SideControlState, inputs: SideInputs, now_ms: int, limits: ControlLimits) -> bool:
    """Returns whether a side at its ceiling passes less than its throttle allows.

    The measured mean has to lie wholly after the takeover and its ramp; before that the result is False.
    """
    ramp_ms = (limits.takeover_ramp_s + limits.decoupled_after_s) * 1000
    if not state.setpoint.at_ceiling or now_ms - state.controlled_since_ms < ramp_ms:
        return False
    measured = inputs.throttled_bytes_per_s
    return measured is not None and not is_throttle_full(inputs.direction, state, measured, limits)


def _follow_target(
    context: SideContext,
    before: SideControlState,
    target: MoveTarget,
    now_ms: int,
    limits: ControlLimits,
) -> _NextSetpoint:
    """Returns the setpoint for the target of the whole move, raised by the boost and limited by the ramp after the takeover."""
    bounds, boost, boosted_at_ms = context.bounds, before.boost, before.boosted_at_ms
    not_limited_until_ms = before.not_throttle_limited_until_ms
    if now_ms - boosted_at_ms >= limits.boost_interval_s * 1000:
        measured = context.inputs.throttled_bytes_per_s
        full = is_throttle_full(context.inputs.direction, before, measured, limits, planned=context.planned)
        boost = next_boost(before.boost, stalled=context.stalled, throttle_full=full, limits=limits)
        boosted_at_ms = now_ms if boost != before.boost else boosted_at_ms
    min_rate = bounds.min_bytes_per_s
    ends_with_slowest = target.decoupled_from is None or context.side == target.decoupled_from
    compute_rate = target_rate if ends_with_slowest else decoupled_rate
    setpoint = compute_rate(
        context.inputs.direction,
        context.load,
        min_rate,
        bounds.ceiling_bytes_per_s,
        target.target_s,
        bounds.limits,
        boost,
        bounds.max_bytes_per_s,
        planned=context.planned,
    )
    if context.side == target.decoupled_from and is_limited_elsewhere(before, context.inputs, now_ms, limits):
        not_limited_until_ms = now_ms + round(limits.decoupled_for_s * 1000)
    since_s = (now_ms - before.controlled_since_ms) / 1000
    # With a rate below the minimum the move would never end, so the takeover's ramp starts at the minimum.
    initial = max(before.initial_rate_bytes_per_s, min_rate)
    setpoint = limit_takeover(setpoint, initial, since_s, limits)
    return _NextSetpoint(setpoint, boost, boosted_at_ms, not_limited_until_ms)


def _initial_state(context: SideContext, now_ms: int, limits: ControlLimits) -> SideControlState:
    """Returns the state at the takeover: the setpoint is the current rate, and the window has the measured bytes.

    In two cases Kafka's mean is too low, and the window is assumed to be full:

    - The rate is at or below the steady-state replication, so it limits the move. But the mean over a young move still counts
      seconds before its start.
    - On a side of a plan, the mean counts the pauses between two steps.

    A throttle that the tuner has just started limits the move from now on, and the window has no earlier bytes. So a measured step
    is used only if it lies wholly after the takeover.
    """
    current = float(context.current_bytes_per_s)
    above_steady_state = context.current_bytes_per_s > context.load.steady_state_bytes_per_s
    measured = context.inputs.throttled_bytes_per_s if above_steady_state and not context.planned else None
    is_idle = (context.inputs.throttled_bytes_per_s or 0.0) < limits.throttle_full_ratio_min * current
    corrected_until_ms = 0
    if is_idle and context.restore_bytes_per_s == 0 and not context.planned and context.inputs.estimate is not None:
        measured = None
        corrected_until_ms = now_ms + round(context.inputs.estimate.step_s * 1000)
    passed = current if measured is None else min(measured, current)
    window = steady_window(now_ms, current, passed)
    # The planned rate (quota_window/model.py) rises or falls from here to the next setpoint. It starts at the bytes that passed: a
    # throttle that did not limit the move never let its full rate through.
    window = replace(window, setpoints=window.seconds)
    initial_flow = passed if passed < limits.throttle_full_ratio_min * context.current_bytes_per_s else None
    return SideControlState(
        controlled_since_ms=now_ms,
        initial_rate_bytes_per_s=current,
        setpoint=TargetRate(current),
        window=window,
        corrected_until_ms=corrected_until_ms,
        initial_flow_bytes_per_s=initial_flow,
    )


def _was_clock_set(state: SideControlState, now_ms: int) -> bool:
    """Returns whether the clock was set since the last step, or the machine slept; then the modelled window cannot be used."""
    return not -_CLOCK_SLEW_BACK_MS_MAX <= now_ms - state.window.until_ms <= SECONDS_KEPT * 1000


def _keep_setpoint(before: SideControlState) -> _NextSetpoint:
    """Returns the previous values. The setpoint is treated as below its ceiling, because the ceiling is not known now."""
    setpoint = before.setpoint
    if setpoint.at_ceiling:
        setpoint = TargetRate(setpoint.rate_bytes_per_s, setpoint.infeasible, at_ceiling=False)
    return _NextSetpoint(setpoint, before.boost, before.boosted_at_ms, before.not_throttle_limited_until_ms)


def _decay(before: TargetRate, current_bytes_per_s: int, min_bytes_per_s: float, limits: ControlLimits) -> TargetRate:
    """Returns the setpoint one second further down to the minimum rate, starting at the current rate if that is lower."""
    setpoint = min(before.rate_bytes_per_s, float(current_bytes_per_s))
    min_rate = min(setpoint, min_bytes_per_s)
    return TargetRate(max(min_rate, setpoint * limits.decay_per_s), before.infeasible)


def _is_worth_a_write(
    context: SideContext, rate_bytes_per_s: int, min_bytes_per_s: float, limits: ControlLimits
) -> bool:
    """Returns whether the rate differs from the current one by more than the deadband."""
    current = context.current_bytes_per_s
    # The wider deadband of a plan must not keep a current rate at which the move never ends, or that exceeds the maximum.
    within_bounds = min(rate_bytes_per_s, min_bytes_per_s) <= current <= context.bounds.max_bytes_per_s
    deadband = limits.deadband_ratio
    if context.planned and within_bounds:
        is_leader = context.inputs.direction is Side.LEADER
        deadband = limits.plan_deadband_ratio if is_leader else limits.plan_follower_deadband_ratio
    return abs(rate_bytes_per_s - current) > deadband * current
