"""Implements the closed-loop control law, which once a second computes the throttle rates from the signals and its own state.

Clients come first. The headroom that they leave on the slowest link determines T, the time in which all moves can end. Every other
side (the leader or the follower throttle of one broker) gets just the rate with which it ends at T. Each step has its own module:

    broker_estimate      keeps each broker's load and its clients' latency from signal to signal
    present_latency      computes the current p99, because Kafka's p99 may still contain peaks of the last minutes
    allowed_utilisation  learns from the latency the utilisation to which the link may be filled
    headroom             computes the rate that clients leave below the allowed utilisation
    target_rate          computes T, and the rate of each side with which the side ends at T
    side_control         computes the setpoint of one side, also while its inputs are stale, and whether a write is worthwhile
    window_compensation  converts the setpoint to the rate that is written, given the bytes that Kafka's quota window has counted

Invariant: missing or old signals never raise a rate. A side with stale inputs keeps its setpoint for a while, and then decays to
its minimum rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from streaming.shared.contract import MoveSignal, Side
from tuner.control.throttle.objective import ControlLimits, Mode, Objective, with_max_rate
from tuner.control.throttle.recovery import AT_MIN_ISR_RATIO
from tuner.control.throttle.steering.broker_estimate import BrokerEstimate, update_estimate
from tuner.control.throttle.steering.headroom import headroom_bytes_per_s
from tuner.control.throttle.steering.recovery_bytes import with_recovery_bytes
from tuner.control.throttle.steering.side_control import (
    MoveTarget,
    SideBounds,
    SideContext,
    control_side,
    is_limited_elsewhere,
)
from tuner.control.throttle.steering.side_inputs import SideInputs, collect_side_inputs
from tuner.control.throttle.steering.state import NO_LOAD, ControlInput, ControlState, SideControlState
from tuner.control.throttle.steering.target_rate import (
    ceiling_bytes_per_s,
    drain_target_s,
    drain_times_s,
    max_rate_bytes_per_s,
    min_rate_bytes_per_s,
)
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad


@dataclass(frozen=True, slots=True)
class _Sides:
    """Load, inputs and bounds of every side in which partitions move."""

    loads: Mapping[BrokerSide, SideLoad]
    inputs: Mapping[BrokerSide, SideInputs]
    bounds: Mapping[BrokerSide, SideBounds]


def control_step(
    inputs: ControlInput, state: ControlState, objective: Objective, limits: ControlLimits
) -> tuple[ControlState, dict[BrokerSide, int]]:
    """Returns the state after this second, and the rates to write, in bytes/s. A side whose rate stays the same has no entry."""
    estimates = _update_estimates(inputs, state, objective, limits)
    sides = _describe_sides(inputs, state, estimates, objective, limits)
    # Factors on T, by side. A side whose clients will leave less later must end sooner (tuner/planning/deadline_forecast.py).
    forecasts = inputs.deadline_ratios if objective.mode is Mode.DEADLINE else {}
    target = _find_target(inputs, state, sides, objective, limits, forecasts)
    # Sides of a running plan get additional rate, but only if the objective's mode uses all headroom.
    planned = inputs.planned_sides if objective.uses_all_headroom else frozenset[BrokerSide]()
    side_states: dict[BrokerSide, SideControlState] = {}
    writes: dict[BrokerSide, int] = {}
    for side, load in sides.loads.items():
        current = inputs.current_rates.get(side)
        if current is None:
            continue
        context = SideContext(
            side=side,
            current_bytes_per_s=current,
            inputs=sides.inputs[side],
            load=load,
            bounds=sides.bounds[side],
            restore_bytes_per_s=inputs.restore_rates.get(side),
            planned=side in planned,
            stalled=side in inputs.stalled_sides,
            recovering=side in inputs.recovering_sides,
        )
        side_target = target
        if (ratio := forecasts.get(side)) is not None:
            side_target = target._replace(target_s=max(limits.drain_s_min, ratio * target.target_s))
        side_states[side], rate = control_side(context, state.side_states.get(side), side_target, inputs.now_ms, limits)
        if rate is not None:
            writes[side] = rate
    # A broker without a signal now keeps its last estimate.
    return ControlState({**state.broker_estimates, **estimates}, side_states), writes


def _update_estimates(
    inputs: ControlInput, state: ControlState, objective: Objective, limits: ControlLimits
) -> dict[int, BrokerEstimate]:
    """Returns the estimate of each broker after its newest signal."""
    # An estimate that is dated far in the future comes from a wrong clock. It is dropped, because all correct signals would look
    # older than it.
    latest_ms = inputs.now_ms + limits.hold_age_s * 1000
    estimates = {}
    for broker, signal in inputs.brokers.items():
        before = state.broker_estimates.get(broker)
        if before is not None and before.sampled_at_ms > latest_ms:
            before = None
        if before is not None and signal.sampled_at_ms <= before.sampled_at_ms:  # No new signal, in most seconds.
            estimates[broker] = before
            continue
        moves = inputs.moves.get
        signal = with_recovery_bytes(signal, moves((broker, Side.LEADER)), moves((broker, Side.FOLLOWER)))
        capacity, baseline = inputs.capacities.get(broker), inputs.baselines.get(broker)
        rates = inputs.current_rates
        throttles = {side: float(rates[broker, side]) for side in Side if (broker, side) in rates}
        estimates[broker] = update_estimate(signal, before, capacity, baseline, objective, limits, throttles)
    return estimates


def _describe_sides(
    inputs: ControlInput,
    state: ControlState,
    estimates: dict[int, BrokerEstimate],
    objective: Objective,
    limits: ControlLimits,
) -> _Sides:
    """Returns load, inputs and bounds of each side in which partitions move.

    The bounds are the minimum rate; the maximum rate that settings, plan and capacity allow; and the ceiling. The ceiling is the
    rate that the headroom allows now, and never exceeds the maximum rate.
    """
    loads = _find_loads(inputs, state)
    all_inputs, bounds = {}, {}
    for side, load in loads.items():
        side_inputs = all_inputs[side] = collect_side_inputs(side, inputs, estimates)
        plan_max = inputs.plan_max_rates.get(side)
        side_limits = limits if plan_max is None else with_max_rate(limits, plan_max)
        max_rate = max_rate_bytes_per_s(
            side_inputs.in_sync_bytes_per_s, side_inputs.link_bytes_per_s, objective, side_limits
        )
        is_stalled = side in inputs.stalled_sides
        ceiling = _ceiling(side_inputs, state.side_states.get(side), max_rate, objective, limits, stalled=is_stalled)
        min_rate = min_rate_bytes_per_s(load, side_limits, max_bytes_per_s=max_rate)
        if side in inputs.at_min_isr_sides:
            min_rate = max(min_rate, AT_MIN_ISR_RATIO * min(side_inputs.link_bytes_per_s, max_rate))
        bounds[side] = SideBounds(side_limits, min_rate, ceiling, max_rate)
    return _Sides(loads, all_inputs, bounds)


def _find_target(
    inputs: ControlInput,
    state: ControlState,
    sides: _Sides,
    objective: Objective,
    limits: ControlLimits,
    forecasts: Mapping[BrokerSide, float],
) -> MoveTarget:
    """Returns T; and the slowest side, if something other than the throttle of that side limits it.

    Args:
        forecasts: the sides with a forecast until the deadline. They do not determine T, because their present headroom does not
            show when they end.
    """
    # A side without a recent signal does not determine T: its broker is gone, or its part of the move was cancelled. If no side has
    # a recent signal, all sides are used.
    recent_loads = {
        side: load for side, load in sides.loads.items() if _is_recent(sides.inputs[side].move, inputs.now_ms, limits)
    }
    min_rates = {side: bounds.min_bytes_per_s for side, bounds in sides.bounds.items()}
    ceilings = {side: bounds.ceiling_bytes_per_s for side, bounds in sides.bounds.items()}
    times_s = drain_times_s(recent_loads or sides.loads, min_rates, ceilings)
    times_now_s = {side: time_s for side, time_s in times_s.items() if side not in forecasts}
    target_s = drain_target_s(times_now_s, objective, inputs.now_ms, limits)
    slowest = max(times_s, key=times_s.__getitem__, default=None)
    limited_elsewhere = slowest is not None and _is_or_was_limited_elsewhere(
        state.side_states.get(slowest), sides.inputs[slowest], inputs.now_ms, limits
    )
    return MoveTarget(target_s, slowest if limited_elsewhere else None)


def _find_loads(inputs: ControlInput, state: ControlState) -> dict[BrokerSide, SideLoad]:
    """Returns the load of each side in which partitions move; the last known load if the signal has none."""
    loads = {}
    # Known sides come first, in their sorted order, which keeps the sort fast.
    for side in sorted(dict.fromkeys((*state.side_states, *inputs.moves, *inputs.restore_rates))):
        signal, before = inputs.moves.get(side), state.side_states.get(side)
        if signal is not None and signal.moving_partitions == 0:
            continue
        last_load = before.load if before is not None else NO_LOAD
        if signal is not None and signal.remaining_bytes is not None:
            steady_state = signal.steady_state_bytes_per_s
            loads[side] = SideLoad(
                signal.remaining_bytes, last_load.steady_state_bytes_per_s if steady_state is None else steady_state
            )
        elif (before is not None or side in inputs.restore_rates) and side in inputs.current_rates:
            # A managed side without a signal of its remaining bytes keeps its last load; after a restart that is ``NO_LOAD``.
            loads[side] = last_load
    return loads


def _is_recent(move: MoveSignal | None, now_ms: int, limits: ControlLimits) -> bool:
    return move is not None and abs(now_ms - move.sampled_at_ms) <= limits.hold_age_s * 1000


def _is_or_was_limited_elsewhere(
    state: SideControlState | None, inputs: SideInputs, now_ms: int, limits: ControlLimits
) -> bool:
    """Returns whether something other than the throttle limits a leader side, now or within the last ``decoupled_for_s``.

    Always False for a follower side: its leaders limit the copy, so an unused rate is normal.
    """
    if state is None or inputs.direction is Side.FOLLOWER:
        return False
    return now_ms < state.not_throttle_limited_until_ms or is_limited_elsewhere(state, inputs, now_ms, limits)


def _ceiling(
    inputs: SideInputs,
    before: SideControlState | None,
    max_bytes_per_s: float,
    objective: Objective,
    limits: ControlLimits,
    *,
    stalled: bool,
) -> float:
    """Returns the rate that the headroom allows the side now, in bytes/s.

    - If neither a capacity nor a latency is known, a stalled side gets the rate that the operator and the link speed allow.
    - Without a signal of the side's moves, the ceiling is the previous setpoint.
    - Without the estimate or the capacity of the broker, the headroom is unknown, and the ceiling is 0.
    """
    estimate, other_load = inputs.estimate, inputs.other_load
    if inputs.move is None:
        return before.setpoint.rate_bytes_per_s if before is not None else 0.0
    if estimate is None or inputs.capacity is None or other_load is None:
        return 0.0
    used = estimate.directions[inputs.direction].network.newest or 0.0
    allowed = estimate.allowed.get(inputs.direction)
    has_no_latency = allowed is None or (stalled and estimate.latency.p99_ms == 0.0)
    if has_no_latency and not inputs.is_capacity_configured:
        allowed = math.inf
    room = headroom_bytes_per_s(
        inputs.capacity_bytes_per_s,
        other_load,
        used,
        allowed,
        limits,
        link_bytes_per_s=estimate.link_bytes_per_s(inputs.direction),
    )
    return ceiling_bytes_per_s(room, inputs.in_sync_bytes_per_s, max_bytes_per_s, objective)
