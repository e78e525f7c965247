"""Applies the vetoes of external checks to the decision about one side (the leader or the follower throttle of one broker).

A veto turns a raise into a hold, and may also lower the rate. Without an objective this module decides the lower rate. With an
objective the control law lowers the rate, because ``steering_tick.py`` gives it the lower rate as its maximum. If the law has no
trustworthy measurements of the side, this module decides the lower rate instead.

Invariant: a veto raises no rate and delays no repair. It does not apply to sides of replicas for which partitions wait before they
accept writes, or which recover in partitions exactly at min.insync.replicas. An operator's order has priority over a veto.
"""

from __future__ import annotations

from streaming.shared.units import rate_text
from tuner.control.throttle.decision import AllowSteering, Decision, Hold, Reason, SetRate
from tuner.control.throttle.operator_overrides import is_in_force
from tuner.control.throttle.side_case import SideCase
from tuner.core.cluster import side_name
from tuner.core.vetoes import lowest_rate_bytes_per_s, vetoes_text

# The control law gets no maximum rate for sides that the cycle holds for these reasons (steering_tick.py).
_NOT_JUDGED = frozenset({Reason.SIGNALS_MISSING, Reason.SIGNALS_STALE, Reason.SIGNALS_CONTRADICT})


def is_subject_to_vetoes(case: SideCase) -> bool:
    """Returns whether a veto is in force and applies to this side."""
    if not case.view.vetoes or case.blocks_writes or case.side in case.view.sides_at_min_isr:
        return False
    return not is_in_force(case.view.orders.overrides.get(case.side), case.view.now_ms)


def max_rate_of_vetoes(case: SideCase) -> int | None:
    """Returns the rate to which vetoes lower this side, in bytes/s; None: no veto lowers it."""
    return lowest_rate_bytes_per_s(case.view.vetoes) if is_subject_to_vetoes(case) else None


def lower_for_veto(case: SideCase) -> Decision | None:
    """Returns the decision that lowers the side to the rate of a veto, without an objective; None: no veto lowers this side.

    After the veto the tuner restores the earlier rate. With an objective ``apply_vetoes`` or the control law lowers the rate.
    """
    return None if case.limits.closed_loop else _lower(case)


def apply_vetoes(case: SideCase, decision: Decision) -> Decision:
    """Returns a hold instead of a decision that raises the rate or lets the law raise it; else the decision itself.

    With an objective, also returns the change to the veto's rate if the control law has no trustworthy measurements of the side.
    """
    if not is_subject_to_vetoes(case):
        return decision
    if case.limits.closed_loop and isinstance(decision, Hold) and decision.reason in _NOT_JUDGED:
        return _lower(case) or decision
    if not _raises(case, decision):
        return decision
    return case.hold(Reason.VETOED, f"not raised: {vetoes_text(case.view.vetoes)}")


def _lower(case: SideCase) -> Decision | None:
    rate, setting = max_rate_of_vetoes(case), case.setting
    if rate is None or setting is None or setting.bytes_per_s <= rate:
        return None
    if case.is_ramping:
        return case.hold_if_ramping_down()
    causes = vetoes_text(veto for veto in case.view.vetoes if veto.lower_to_bytes_per_s is not None)
    text = f"{side_name(case.side)} {rate_text(setting.bytes_per_s)} → {rate_text(rate)}: {causes}"
    return case.set_rate(setting, rate, Reason.VETOED, text)


def _raises(case: SideCase, decision: Decision) -> bool:
    match decision:
        case AllowSteering():
            return True
        case SetRate(reason=Reason.WINDOW_WARMUP):  # A warm-up ends at a rate that was in force before.
            return False
        case SetRate():
            return decision.setpoint_bytes_per_s > decision.current_bytes_per_s
        case Hold(reason=Reason.RATE_IS_CHANGING):
            return _is_raise_in_progress(case)
        case _:
            return False


def _is_raise_in_progress(case: SideCase) -> bool:
    setting, owned = case.setting, case.owned
    if setting is None or owned is None or case.side in case.view.empty_windows:
        return False
    return owned.setpoint_bytes_per_s > setting.bytes_per_s
