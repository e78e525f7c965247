"""Implements the strategy with an objective: the control law sets the rate of a side every second, until the next cycle.

A decision of this module permits the law to do so, and gives the most important fact about the side as its reason.
"""

from __future__ import annotations

from streaming.shared.units import rate_text, size_text
from tuner.control.throttle.deadline import DeadlineMiss, explain_deadline_miss
from tuner.control.throttle.decision import AllowSteering, Reason
from tuner.control.throttle.diagnosis.not_throttle_bound import BottleneckFinder, explain_unthrottled_stall
from tuner.control.throttle.side_case import SideCase, ThrottledSide
from tuner.core.cluster import Setpoint, side_name


def allow_steering(
    throttled: ThrottledSide, deadline_miss: DeadlineMiss | None, bottlenecks: BottleneckFinder
) -> AllowSteering:
    """Returns the permission to steer, with the first reason that applies.

    Args:
        deadline_miss: the slowest side of all moves, if it will miss the deadline. The side of ``throttled`` may still be in time.
    """
    reason, text = _explain(throttled, deadline_miss, bottlenecks)
    case, setting = throttled.case, throttled.setting
    return AllowSteering(
        *case.side, setting.bytes_per_s, reason, f"{side_name(case.side)}: {text}", setting.is_set_on_broker
    )


def _explain(
    throttled: ThrottledSide, deadline_miss: DeadlineMiss | None, bottlenecks: BottleneckFinder
) -> tuple[Reason, str]:
    case, load = throttled.case, throttled.load
    setpoint = case.view.setpoints.get(case.side)
    inputs_stale = setpoint is not None and setpoint.inputs_stale
    # Partitions accept no writes until lost replicas are back. Durability has priority over latency, so the law raises the rate.
    # With stale inputs the law raises no rate, so this reason does not apply.
    if case.blocks_writes and not inputs_stale:
        return Reason.ISR_RECOVERY, (
            "partitions refuse writes until out-of-sync replicas are back in the ISR: the throttle is raised for them, up to "
            "the capacity and the ceiling"
        )
    if case.side in case.view.sides_at_min_isr and not inputs_stale:
        return Reason.RECOVERY_AT_MIN_ISR, (
            "partitions with exactly min.insync.replicas replicas in sync recover through this throttle, so it gets at "
            "least half of the speed of the network link (or of the ceiling, if that is lower), even if clients then wait longer"
        )
    # No throttle causes the stall, so a higher rate would not help. The operator must look for the cause.
    if (bottleneck := _explain_stall(throttled, bottlenecks)) is not None:
        return bottleneck
    # Without the broker's network bytes the headroom of clients is unknown, so the current rate is not raised.
    if inputs_stale:
        return Reason.LOAD_NOT_MEASURED, (
            f"the client traffic of broker {case.side[0]} is unknown, because its network bytes or its reassignment bytes are not "
            "measured, so the rate is not raised; docs/how-to/metrics-overview.md lists the metrics that a collector has to report"
        )
    late_text = None
    if deadline_miss is not None and setpoint is not None:
        late_text = explain_deadline_miss(
            deadline_miss, case.side, load, setpoint, case.view.eta_ratios.get(case.side, 1.0)
        )
    steady_state = rate_text(load.steady_state_bytes_per_s)
    # Clients have priority, but the move continues at the minimum rate.
    if setpoint is not None and setpoint.no_headroom:
        return Reason.NO_HEADROOM, (
            f"clients (or tuner.objective.share_max) leave less than the {steady_state} that steady-state replication needs, so "
            f"the rate is at its minimum, {rate_text(setpoint.bytes_per_s)}; if clients wait just as long without the move, "
            "raise the objective; otherwise move fewer partitions at a time, or move them when clients send less"
            + (f"; {late_text}" if late_text else "")
        )
    # All available bandwidth is too little for the deadline: the operator decides what to change.
    if late_text is not None:
        return Reason.DEADLINE_NOT_MET, late_text
    rate = f"starts at {rate_text(throttled.setting.bytes_per_s)}"
    if setpoint is not None:
        rate = f"setpoint {rate_text(setpoint.bytes_per_s)}"
    return Reason.FOLLOWS_CLIENTS, (
        f"adjusted to the load of the broker's clients, {rate}: {size_text(load.remaining_bytes)} remain, and steady-state "
        f"replication takes {steady_state}" + _limits_text(setpoint) + _deadline_text(case)
    )


def _limits_text(setpoint: Setpoint | None) -> str:
    """Returns the latency limit of the broker, and the speed of its link if this limits the rate."""
    limits = (setpoint.latency_limit, setpoint.link_limit) if setpoint is not None else ()
    return "".join(f"; {limit.text}" for limit in limits if limit is not None and limit.text)


def _deadline_text(case: SideCase) -> str:
    """Returns what the forecast changes for the deadline; empty without a deadline."""
    if case.view.limits.finish_at_ms is None:
        return ""
    forecast = case.view.deadline_forecasts.get(case.side)
    if forecast is not None:
        return f"; {forecast.text}"
    return f"; broker {case.side[0]} has no usable profile, so the tuner assumes its present load until finish_at"


def _explain_stall(throttled: ThrottledSide, bottlenecks: BottleneckFinder) -> tuple[Reason, str] | None:
    """Returns the bottleneck of a stall that no throttle causes; None without such a stall."""
    case, stall = throttled.case, throttled.stall
    if not stall.destinations or stall.bound_side or stall.unmeasured_side:
        return None
    return explain_unthrottled_stall(
        case.side, throttled.setting.bytes_per_s, stall.destinations, case.view, bottlenecks
    )
