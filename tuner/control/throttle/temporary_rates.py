"""Decides temporary rates: while an empty quota window fills (a warm-up), under a plan, and while lost replicas catch up.

The tuner records the rate from before a temporary rate, and restores it when the reason is over.
"""

from __future__ import annotations

from collections.abc import Mapping

from streaming.shared.units import rate_text
from tuner.control.throttle.decision import Decision, Reason, SetRate, StartRate
from tuner.control.throttle.operator_overrides import decide_restore, is_in_force
from tuner.control.throttle.quota_window.ramp import plan_fill
from tuner.control.throttle.rescue_rate import min_draining_bytes_per_s
from tuner.control.throttle.side_case import SideCase
from tuner.control.throttle.vetoes import max_rate_of_vetoes
from tuner.control.throttle.view import MovesView
from tuner.core.cluster import BrokerSide, RateSetting, side_name
from tuner.core.vetoes import vetoes_text

_WARMUP_CAUSE = "no bytes were copied for a while, so Kafka would let a whole window's bytes pass at once"


def warm_up_empty_window(case: SideCase) -> Decision | None:
    """Returns the warm-up of a side with an empty quota window: a low rate that rises in steps. It needs no measurement.

    Without an objective only the sides of plans warm up, to the plan's rate. With an objective a side warms up to its earlier rate.
    Returns None if no warm-up is necessary, or if the throttle blocks writes: another rule opens it.
    """
    setting = case.setting
    plan_rate = None if case.limits.closed_loop else case.view.rate_for_plan(case.side)
    if case.side not in case.view.empty_windows or setting is None or case.blocks_writes:
        return None
    if not case.limits.closed_loop and plan_rate is None:
        return None
    if case.is_ramping:
        text = "the rate rises step by step until the quota window is full, because a high rate would cause a burst now"
        return case.hold(Reason.RATE_IS_CHANGING, text)
    current, owned = setting.bytes_per_s, case.owned
    restore_to = owned.restore_to_bytes_per_s if owned is not None else None
    earlier_rate = current if restore_to is None else restore_to
    setpoint = plan_rate or min(earlier_rate, int(case.limits.rate_bytes_per_s_max))
    if (veto_rate := max_rate_of_vetoes(case)) is not None:
        setpoint = min(setpoint, veto_rate)
    start = plan_fill(setpoint, case.limits.warmup_start_bytes_per_s)[0].rate_bytes_per_s
    if current >= setpoint:
        # Without a step below the setpoint there is nothing to warm up.
        if start >= setpoint:
            return None
        # The write of an earlier warm-up got no answer and had no effect. So the rate was never lowered, and need not rise.
        if restore_to is not None and owned is not None and owned.possible_rates != (current,):
            return None
    if setpoint == veto_rate:
        head = f"{side_name(case.side)} changes to {rate_text(setpoint)} while the quota window fills"
        text = f"{head}: {vetoes_text(case.view.vetoes)}"
    elif plan_rate is not None:
        source = "the rate of a rheostat plan" if setpoint == case.view.plan_rates[case.side] else "as ordered"
        text = f"{side_name(case.side)} rises to {rate_text(setpoint)}, {source}, while the quota window fills: {_WARMUP_CAUSE}"
    else:
        text = _explain_warm_up(case, setting, setpoint, start, restored=restore_to is not None)
    return case.set_rate(setting, setpoint, Reason.WINDOW_WARMUP, text)


def _explain_warm_up(case: SideCase, setting: RateSetting, setpoint: int, start: int, *, restored: bool) -> str:
    current = setting.bytes_per_s
    target = "the current rate" if setpoint == current else "the ceiling"
    if restored:
        target = "the earlier rate"
    if current < setpoint:
        head = f"{side_name(case.side)} {rate_text(current)} → {rate_text(setpoint)}"
        return f"{head}: {target}, because a warm-up to this rate was interrupted before"
    head = f"{side_name(case.side)} {rate_text(start)} → {rate_text(setpoint)}"
    return f"{head}: {target}, while the quota window fills: {_WARMUP_CAUSE}"


def warm_up_started_rates(started: Mapping[BrokerSide, StartRate], view: MovesView) -> list[SetRate]:
    """Returns the warm-ups of the throttles that start for a plan in this cycle, to the plan's rate; empty with an objective."""
    warmups: list[SetRate] = []
    if view.limits.closed_loop:  # The control law raises the rate itself.
        return warmups
    for side, start in started.items():
        setpoint = view.rate_for_plan(side)
        if side not in view.empty_windows:
            continue
        if setpoint is None or start.value_bytes_per_s >= setpoint:
            continue
        head = f"{side_name(side)} {rate_text(start.value_bytes_per_s)} → {rate_text(setpoint)}"
        text = f"{head}: rises for a rheostat plan while the quota window fills"
        warmups.append(SetRate(*side, setpoint, setpoint, Reason.WINDOW_WARMUP, text))
    return warmups


def follow_plan_rate(case: SideCase) -> Decision | None:
    """Returns the change to the rate of a plan that copies through this side, or is about to. It needs no measurement.

    With an objective the control law sets the rate, so only a rate above the plan's is lowered.
    """
    plan_rate, setting, owned = case.view.plan_rates.get(case.side), case.setting, case.owned
    if plan_rate is None or setting is None or case.blocks_writes:
        return None
    closed_loop = case.view.limits.closed_loop
    current, setpoint = setting.bytes_per_s, plan_rate
    if case.is_ramping:
        if closed_loop or owned is None or owned.setpoint_bytes_per_s != plan_rate:
            return None
        text = "the rate changes to the rate of a rheostat plan, in steps over the quota window"
        return case.hold(Reason.RATE_IS_CHANGING, text)
    if closed_loop:
        setpoint = min(current, plan_rate)
    elif case.side in case.view.sides_with_external_moves and current < plan_rate:
        # A move of another tool copies through this side too, at a rate that the tool may have set. A plan does not raise the
        # tool's rate. If the tuner owns the present rate and has no rate to restore, the tool has set no rate.
        existing = owned.restore_to_bytes_per_s if owned is not None else current
        setpoint = plan_rate if existing is None else min(plan_rate, max(current, existing))
    if current == setpoint:
        return None
    head = f"{side_name(case.side)} {rate_text(current)} → {rate_text(setpoint)}"
    text = f"{head}: the rate of a rheostat plan that copies through this throttle"
    return case.set_rate(setting, setpoint, Reason.PLAN_RATE, text)


def restore_after_temporary_change(case: SideCase) -> Decision | None:
    """Returns the change that restores the rate from before a temporary change, once the reason of the change is over.

    A rise needs a fresh signal. While it is unknown whether writes wait for lost replicas on this side, nothing changes.
    """
    owned, setting, view = case.owned, case.setting, case.view
    if owned is None or owned.restore_to_bytes_per_s is None or setting is None:
        return None
    if case.blocks_writes or case.side in view.possibly_blocking_writes:
        return None
    if case.is_ramping:
        ordered = is_in_force(view.orders.overrides.get(case.side), view.now_ms)
        return None if ordered else case.hold_if_ramping_down()
    if owned.restore_to_bytes_per_s > setting.bytes_per_s and not view.has_fresh_signal(case.side):
        return None
    signal, min_rate = view.signal(case.side), 0.0
    if signal is not None:
        min_rate = min_draining_bytes_per_s(signal.steady_state_bytes_per_s or 0.0, view.limits)
    return decide_restore(case.side, owned, setting, min_rate, case.limits)


def open_for_isr_recovery(case: SideCase) -> Decision:
    """Returns the raise of a throttle to the ceiling, so that lost replicas return to the ISR faster; or a hold."""
    setting, limits = case.setting, case.view.limits
    max_rate = limits.rate_bytes_per_s_max
    cause = "partitions refuse writes until out-of-sync replicas are back in the ISR"
    if case.is_ramping:
        return case.hold(Reason.RATE_IS_CHANGING, f"{cause}: its rate is changing, in steps over the quota window")
    if setting is None or setting.bytes_per_s >= max_rate * (1 - limits.deadband_ratio):
        return case.hold(Reason.ISR_RECOVERY, f"{cause}: the throttle is as high as the ceiling allows")
    head = f"{side_name(case.side)} {rate_text(setting.bytes_per_s)} → {rate_text(max_rate)}"
    return case.set_rate(setting, round(max_rate), Reason.ISR_RECOVERY, f"{head}: {cause}")
