"""The safety rules that come before any strategy, as an ordered ladder.

A rung is a rule that checks one side (the leader or the follower throttle of one broker) for the situation that the rung's
docstring describes. It returns a decision, or None if it does not apply. ``SAFETY_RUNGS``, at the end of this module, is their
order; only the first decision counts. The order is: sides that cannot be read, ownership, operator orders, changes that need no
measurement, and missing measurements.
"""

from __future__ import annotations

from collections.abc import Callable

from streaming.shared.contract import Side
from streaming.shared.units import rate_text
from tuner.control.throttle.decision import Decision, Reason
from tuner.control.throttle.operator_overrides import decide_override, hold_during_override_ramp, limit_override
from tuner.control.throttle.rescue_rate import min_draining_bytes_per_s
from tuner.control.throttle.side_case import SideCase
from tuner.control.throttle.temporary_rates import (
    follow_plan_rate,
    open_for_isr_recovery,
    restore_after_temporary_change,
    warm_up_empty_window,
)
from tuner.control.throttle.vetoes import lower_for_veto
from tuner.core import formatting
from tuner.core.cluster import side_name
from tuner.core.freshness import Freshness, age_s

Rung = Callable[[SideCase], Decision | None]


def _hold_if_broker_down(case: SideCase) -> Decision | None:
    """A broker that is down can neither be read nor written, and copies nothing."""
    broker = case.side[0]
    if broker in case.view.live.brokers:
        return None
    return case.hold(Reason.BROKER_DOWN, f"broker {broker} is not alive: bring it back, or cancel its moves")


def _hold_if_settings_unreadable(case: SideCase) -> Decision | None:
    """The settings of the broker cannot be read, so a write might overwrite a value that the tuner does not know."""
    if case.side[0] not in case.view.live.unreadable:
        return None
    return case.hold(Reason.SETTINGS_UNREADABLE, f"the settings of broker {case.side[0]} cannot be read")


def _hold_if_externally_owned(case: SideCase) -> Decision | None:
    """An operator or another tool changed this throttle after the tuner: the new value stays until the hold expires."""
    until_ms = case.memory.externally_owned_until_ms.get(case.side)
    if until_ms is None:
        return None
    minutes = (until_ms - case.view.now_ms) / 60_000
    return case.hold(
        Reason.EXTERNALLY_OWNED,
        f"an operator or another tool set this rate; the tuner leaves it alone for another {minutes:.0f} min",
    )


def _warm_up_for_plan(case: SideCase) -> Decision | None:
    """A plan is about to copy through an empty quota window: the bytes of a whole window would pass at once.

    This rung comes before an operator's override, because the ordered rate needs a warm-up too.
    """
    if case.limits.closed_loop or find_preserved_rate(case) is not None:
        return None
    return warm_up_empty_window(case)


def follow_override(case: SideCase) -> Decision | None:
    """An operator ordered a rate for this side until a given time. It needs no measurement."""
    order = limit_override(case.view.orders.overrides.get(case.side), case.view.limits)
    if order is None:
        return None
    if case.is_ramping:
        return hold_during_override_ramp(case.side, order, case.owned, case.view.now_ms)
    return decide_override(case.side, order, case.setting, case.view.now_ms)


def _preserve_existing_rate(case: SideCase) -> Decision | None:
    """The throttle is older than the move, and the settings tell the tuner to leave such throttles alone."""
    rate = find_preserved_rate(case)
    if rate is None:
        return None
    return case.hold(Reason.PRESERVED, f"{rate_text(rate)} was set before the move and is preserved")


def find_preserved_rate(case: SideCase) -> int | None:
    """Returns the current rate if it is older than the move and existing rates are preserved; else None.

    A rate for all brokers (``<default>``) is always older than the move, because no tool sets it for a move.
    """
    setting, owned = case.setting, case.owned
    if case.limits.adopts_existing or setting is None:
        return None
    if owned is None:
        existing = case.memory.preexisting_rates.get(case.side) if setting.is_set_on_broker else setting.bytes_per_s
    else:  # The tuner still owns the rate after an order that is over, or after a change that was not written.
        existing = None if case.is_ramping else owned.restore_to_bytes_per_s
    return setting.bytes_per_s if setting.bytes_per_s == existing else None


def _warm_up_for_steering(case: SideCase) -> Decision | None:
    """With an objective, the control law is about to steer a side whose quota window is empty.

    The rungs for overrides and preserved rates precede this one, because the control law does not steer such sides.
    """
    return warm_up_empty_window(case) if case.limits.closed_loop else None


def _restore_if_reason_is_over(case: SideCase) -> Decision | None:
    """The reason for a temporary change is over, so the earlier rate is restored. No other rule would lower the temporary rate.

    Two kinds of sides are left out: with an objective, a side whose rate the control law sets; without an objective, a side of a
    plan, which returns to the plan's rate (``follow_plan_rate``).
    """
    if case.limits.closed_loop:
        steerable = case.view.freshness(case.side) is Freshness.FRESH
        restores = not steerable or not case.limits.adopts_existing
    else:
        restores = case.side not in case.view.plan_rates
    return restore_after_temporary_change(case) if restores else None


def _lower_to_ceiling(case: SideCase) -> Decision | None:
    """The operator lowered the ceiling below a rate that the tuner had raised, so the rate falls to the ceiling.

    A rate from before the tuner's first change may stay above the ceiling. The control law's own rates are never above the ceiling.
    """
    limits, owned, setting = case.view.limits, case.owned, case.setting
    if limits.closed_loop or owned is None or setting is None:
        return None
    max_rate = max(limits.rate_bytes_per_s_max, owned.before_bytes_per_s or 0)
    if setting.bytes_per_s <= max_rate:
        return None
    if case.is_ramping:
        return case.hold_if_ramping_down()
    text = f"{side_name(case.side)} {rate_text(setting.bytes_per_s)} → {rate_text(max_rate)}: the ceiling was lowered"
    return case.set_rate(setting, int(max_rate), Reason.AT_CEILING, text)


def _hold_or_decay_without_fresh_signals(case: SideCase) -> Decision | None:
    """The side has no fresh signals, so its rate is not raised. After ``decay_age_s`` a rate that the tuner raised decays."""
    unmeasured = case.hold_if_unmeasured(case.side)
    if unmeasured is None:
        return None
    return _decay_stale_rate(case) or unmeasured


def _decay_stale_rate(case: SideCase) -> Decision | None:
    """Returns the next step down of a raised rate. It ends at the rate from before the raise, or at the minimum rate.

    Three kinds of rates do not decay here:

    - a plan's rate, because the operator chose it;
    - a rate of the control law, which lowers the rate itself;
    - a rate that blocks writes. The leader's fresh broker signal shows this, even if the signals of the move are old.
    """
    limits, owned, setting = case.view.limits, case.owned, case.setting
    if limits.closed_loop or case.side in case.view.plan_rates or owned is None or setting is None:
        return None
    if case.view.freshness(case.side) is Freshness.FRESH or case.blocks_writes:
        return None
    signal = case.view.signal(case.side)
    # If this tuner never had a signal, the previous tuner raised the rate. The time then counts from this tuner's first cycle.
    since_ms = case.memory.unmeasured_since_ms.get(case.side, case.view.now_ms)
    unmeasured_s = age_s(signal, case.view.now_ms) if signal is not None else (case.view.now_ms - since_ms) / 1000
    if unmeasured_s <= limits.decay_age_s:
        return None
    current = setting.bytes_per_s
    if case.is_ramping:
        return case.hold_if_ramping_down()
    decayed_at_ms = case.memory.decayed_at_ms.get(case.side)
    if decayed_at_ms is not None and 0 <= case.view.now_ms - decayed_at_ms < limits.decay_every_s * 1000:
        return None
    steady_state = (signal.steady_state_bytes_per_s if signal is not None else None) or 0.0
    min_rate = max(owned.before_bytes_per_s or 0.0, min_draining_bytes_per_s(steady_state, limits))
    setpoint = round(max(min_rate, limits.decay_ratio * current))
    if setpoint >= current:
        return None
    cause = (
        f"its last measurements are {unmeasured_s:.0f} s old"
        if signal is not None
        else f"no measurements for {unmeasured_s:.0f} s"
    )
    head = f"{side_name(case.side)} {rate_text(current)} → {rate_text(setpoint)}"
    text = f"{head}: {cause}, so the raised rate falls step by step to {rate_text(min_rate)}"
    return case.set_rate(setting, setpoint, Reason.STALE_DECAY, text)


def _hold_if_signals_contradict(case: SideCase) -> Decision | None:
    """The fresh signals contradict each other, so nothing is changed."""
    contradiction = case.view.contradictions.get(case.side)
    return None if contradiction is None else case.hold(Reason.SIGNALS_CONTRADICT, contradiction)


def _open_if_blocking_writes(case: SideCase) -> Decision | None:
    """Partitions accept no writes until lost replicas are back, so the throttle opens. Durability has priority over any throttle.

    With an objective, ``allow_steering`` opens the throttle instead of this rung.
    """
    if case.limits.closed_loop or not case.blocks_writes:
        return None
    return open_for_isr_recovery(case)


def _hold_if_destinations_down(case: SideCase) -> Decision | None:
    """All destinations of this side are down. If a destination is alive, later rules judge the side by its progress."""
    destinations = case.view.destinations_through(case.side)
    if case.view.measured_destinations(case.side) or not case.view.live.brokers.isdisjoint(destinations):
        return None
    names = formatting.brokers(sorted(destinations))
    return case.hold(
        Reason.BROKER_DOWN,
        f"nothing is copied, because all destinations are down ({names}): bring them back, or cancel their moves",
    )


def _hold_if_destinations_unmeasured(case: SideCase) -> Decision | None:
    """No destination has a fresh signal. Progress is measured at the destinations, so it is unknown."""
    if case.view.measured_destinations(case.side):
        return None
    destination = (min(case.view.destinations_through(case.side)), Side.FOLLOWER)
    return case.hold_if_unmeasured(destination) or case.hold(
        Reason.SIGNALS_MISSING, "no destination of the moves through this throttle is measured"
    )


SAFETY_RUNGS: tuple[Rung, ...] = (
    _hold_if_broker_down,
    _hold_if_settings_unreadable,
    _hold_if_externally_owned,
    _warm_up_for_plan,
    follow_override,
    _preserve_existing_rate,
    _warm_up_for_steering,
    lower_for_veto,
    follow_plan_rate,
    _restore_if_reason_is_over,
    _lower_to_ceiling,
    _hold_or_decay_without_fresh_signals,
    _hold_if_signals_contradict,
    _open_if_blocking_writes,
    _hold_if_destinations_down,
    _hold_if_destinations_unmeasured,
)
