"""Implements the strategy without an objective: the tuner only raises throttles that made a move stall (a rescue)."""

from __future__ import annotations

from streaming.shared.contract import Side
from streaming.shared.units import rate_text, size_text, span_text
from tuner.control.throttle.decision import Decision, Hold, Reason
from tuner.control.throttle.diagnosis.not_throttle_bound import BottleneckFinder, explain_unthrottled_stall
from tuner.control.throttle.rescue_rate import setpoint_bytes_per_s
from tuner.control.throttle.side_case import SideCase, ThrottledSide
from tuner.core import formatting
from tuner.core.cluster import BrokerSide, side_name
from tuner.core.throttle_limits import StallLimits


def decide_rescue(throttled: ThrottledSide, stall_limits: StallLimits, bottlenecks: BottleneckFinder) -> Decision:
    """Returns a raise for a stall that a throttle causes, and a hold for everything else."""
    case, stall = throttled.case, throttled.stall
    if not stall.destinations:
        return _raise(throttled) if _is_rescue_too_low(case) else _hold_progressing(throttled, stall_limits)
    if stall.bound_side is None and stall.unmeasured_side is not None:
        return hold_for_unmeasured_side(case, stall.unmeasured_side)
    # No throttle limits the move. A higher rate would not help now, and would harm clients once the real cause is gone.
    if stall.bound_side is None:
        current = throttled.setting.bytes_per_s
        return case.hold(*explain_unthrottled_stall(case.side, current, stall.destinations, case.view, bottlenecks))
    return _raise(throttled)


def hold_for_unmeasured_side(case: SideCase, unmeasured: BrokerSide) -> Hold:
    """Returns the hold for a stall that a side without measurements may cause."""
    return case.hold_if_unmeasured(unmeasured) or case.hold(
        Reason.SIGNALS_MISSING, f"{side_name(unmeasured)} is not measured"
    )


def _is_rescue_too_low(case: SideCase) -> bool:
    """Whether the throttle of a side that was raised for a stall limits the moves again."""
    destinations = case.view.measured_destinations(case.side)
    return case.view.is_bound(case.side) and any(d in case.memory.rescued for d in destinations)


def _hold_progressing(throttled: ThrottledSide, stall_limits: StallLimits) -> Hold:
    case = throttled.case
    destinations = case.view.measured_destinations(case.side)
    observed_s = min(case.memory.stalls[d].observed_s for d in destinations)
    if observed_s < stall_limits.observed_s_min:
        text = (
            f"the tuner judges the move after {stall_limits.observed_s_min:.0f} s at one rate; {observed_s:.0f} s have "
            "passed so far"
        )
        return case.hold(Reason.WATCHING, text)
    rate, remaining = rate_text(throttled.setting.bytes_per_s), size_text(throttled.load.remaining_bytes)
    return case.hold(Reason.PROGRESSING, f"progressing under {rate}: {remaining} remain")


def _raise(throttled: ThrottledSide) -> Decision:
    """Returns the raise to the rate that ends all moves together; a hold if that is not worth a write."""
    case, load = throttled.case, throttled.load
    current, steady_state = throttled.setting.bytes_per_s, load.steady_state_bytes_per_s
    setpoint = setpoint_bytes_per_s(case.side[1], load, current, case.view.target_s, case.limits)
    # A small change is worth a write only if it lifts the throttle above steady-state replication.
    starts_draining = current <= steady_state < setpoint
    if setpoint <= current * (1 + case.limits.deadband_ratio) and not starts_draining:
        return _hold_at_current_rate(throttled)
    reason, cause = _explain_raise(throttled)
    text = f"{side_name(case.side)} {rate_text(current)} → {rate_text(setpoint)}: {cause}"
    return case.set_rate(throttled.setting, setpoint, reason, text)


def _hold_at_current_rate(throttled: ThrottledSide) -> Hold:
    case, limits = throttled.case, throttled.case.limits
    current, remaining = throttled.setting.bytes_per_s, size_text(throttled.load.remaining_bytes)
    if current >= limits.rate_bytes_per_s_max * (1 - limits.deadband_ratio):
        text = f"at {case.ceiling_name} ({rate_text(current)}), {remaining} remain"
        return case.hold(Reason.AT_CEILING, text)
    more = f"{100 * limits.deadband_ratio:.0f} %"
    text = f"the move needs at most {more} more than {rate_text(current)}, so the rate stays; {remaining} remain"
    return case.hold(Reason.WITHIN_DEADBAND, text)


def _explain_raise(throttled: ThrottledSide) -> tuple[Reason, str]:
    case, stalled = throttled.case, throttled.stall.destinations
    current, steady_state = throttled.setting.bytes_per_s, throttled.load.steady_state_bytes_per_s
    remaining = f"{size_text(throttled.load.remaining_bytes)} remain"
    demand = f"{remaining}, and steady-state replication takes {rate_text(steady_state)}"
    if not stalled:
        return Reason.RESCUE_NEEDS_MORE, demand
    lost_s = max(case.memory.stalls[d].lost_s for d in stalled)
    stall = f"the move onto {formatting.brokers(stalled)} has stalled ({span_text(lost_s)} of progress lost)"
    if current <= steady_state:
        followers = ", in-sync followers included" if case.side[1] is Side.LEADER else ""
        return Reason.STALLED_BELOW_STEADY_STATE, (
            f"{stall}; {rate_text(current)} is not above the {rate_text(steady_state)} of steady-state replication{followers}, "
            f"so the move would never end; {remaining}"
        )
    role = (
        "this throttle limits the move"
        if case.view.is_bound(case.side)
        else "this throttle is raised too, so that it does not limit the move next"
    )
    return Reason.STALLED_THROTTLE_BOUND, f"{stall}; {role}; {demand}"
