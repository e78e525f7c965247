"""Decides for each throttle of a running move what to do, and why.

The order of the rules for one side (the leader or the follower throttle of one broker):

1. ``SAFETY_RUNGS``: observability, ownership, operator orders, changes that need no measurement, measurements.
2. The throttle itself: the side must have a throttle, a measured load, a feasible ceiling and no ramp in progress.
3. The strategy: with an objective the control law steers, without one a stalled move is rescued.
4. Vetoes of external checks: a raise becomes a hold (``vetoes.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from streaming.shared.units import rate_text
from tuner.control.throttle.deadline import OBSERVED_S_MIN, DeadlineMiss, find_deadline_miss
from tuner.control.throttle.decision import Decision, Hold, Reason
from tuner.control.throttle.diagnosis.not_throttle_bound import BottleneckFinder, explain_remote_storage
from tuner.control.throttle.rescue_rate import is_infeasible
from tuner.control.throttle.rescue_strategy import decide_rescue, hold_for_unmeasured_side
from tuner.control.throttle.safety_rungs import SAFETY_RUNGS, find_preserved_rate, follow_override
from tuner.control.throttle.side_case import SideCase, Stall, ThrottledSide
from tuner.control.throttle.state import Memory
from tuner.control.throttle.steering_strategy import allow_steering
from tuner.control.throttle.temporary_rates import open_for_isr_recovery, restore_after_temporary_change
from tuner.control.throttle.vetoes import apply_vetoes
from tuner.control.throttle.view import MovesView
from tuner.core import formatting
from tuner.core.cluster import BrokerSide, side_name
from tuner.core.throttle_limits import StallLimits


@dataclass(frozen=True, slots=True)
class _CycleFindings:
    """The findings of one cycle that concern all sides."""

    stall_limits: StallLimits
    stalled_destinations: Set[int]
    deadline_miss: DeadlineMiss | None
    bottlenecks: BottleneckFinder


def decide_sides(
    sides: Iterable[BrokerSide], view: MovesView, memory: Memory, stall_limits: StallLimits
) -> list[Decision]:
    """Returns one decision for each of ``sides``, in their order."""
    observed = (side for side in view.sides if _is_observed_for_long(side, view, memory))
    findings = _CycleFindings(
        stall_limits=stall_limits,
        stalled_destinations={destination for destination, state in memory.stalls.items() if state.stalled},
        deadline_miss=find_deadline_miss(
            view.loads, view.setpoints, observed, view.now_ms, view.limits, view.eta_ratios
        ),
        bottlenecks=BottleneckFinder(view, memory, stall_limits),
    )
    cases = (SideCase.of(side, view, memory) for side in sides)
    return [apply_vetoes(case, _decide_side(case, findings)) for case in cases]


def _is_observed_for_long(side: BrokerSide, view: MovesView, memory: Memory) -> bool:
    return all(memory.stalls[d].observed_s >= OBSERVED_S_MIN for d in view.measured_destinations(side))


def _decide_side(case: SideCase, findings: _CycleFindings) -> Decision:
    """Returns the decision of the first rule that applies; the module docstring has their order."""
    for rung in SAFETY_RUNGS:
        if (decision := rung(case)) is not None:
            return decision
    stall = _find_stall(case, findings.stalled_destinations)
    setting, load = case.view.throttle(case.side), case.view.loads.get(case.side)
    if setting is None:
        return _hold_without_throttle(case, stall)
    if load is None:
        text = "log sizes or write rates are not measured yet: that takes two scrapes"
        return case.hold(Reason.SIGNALS_MISSING, text)
    throttled = ThrottledSide(case, setting, load, stall)
    if (infeasible := _hold_if_infeasible(throttled)) is not None:
        return infeasible
    # During a ramp the measurements show neither the old rate nor the new one.
    if case.is_ramping:
        return case.hold(Reason.RATE_IS_CHANGING, "its rate is changing, in steps over the quota window")
    if case.limits.closed_loop:
        return allow_steering(throttled, findings.deadline_miss, findings.bottlenecks)
    return decide_rescue(throttled, findings.stall_limits, findings.bottlenecks)


def _find_stall(case: SideCase, stalled_destinations: Set[int]) -> Stall:
    """Returns the stalled moves through one side, a throttle that limits them, and a side on their path that is not measured."""
    view = case.view
    if not stalled_destinations:
        return Stall(destinations=[], bound_side=None, unmeasured_side=None)
    stalled = sorted(view.measured_destinations(case.side) & stalled_destinations)
    # A replica that waits for the remote storage copies nothing, so no throttle limits it.
    copying = [d for d in stalled if not view.is_held_by_remote_storage(d)]
    bound = (side for d in copying if (side := view.first_bound_side(d)) is not None)
    unmeasured = (side for d in copying if (side := view.first_unmeasured_side(d)) is not None)
    return Stall(stalled, bound_side=min(bound, default=None), unmeasured_side=min(unmeasured, default=None))


def _hold_without_throttle(case: SideCase, stall: Stall) -> Hold:
    """Returns the hold for a side without a throttle: there is no rate to change, and a stall has another cause."""
    if not stall.destinations or stall.bound_side:
        limit = f"; the {side_name(stall.bound_side)} limits the move" if stall.bound_side else ""
        return case.hold(Reason.NOT_THROTTLED, f"{_explain_missing_throttle(case)}{limit}")
    if stall.unmeasured_side:
        return hold_for_unmeasured_side(case, stall.unmeasured_side)
    if (remote := explain_remote_storage(stall.destinations, case.view)) is not None:
        return case.hold(Reason.STALLED_REMOTE_STORAGE, remote)
    return case.hold(
        Reason.STALLED_UNTHROTTLED,
        f"the move onto {formatting.brokers(stall.destinations)} has stalled, and no throttle limits it on this side: look at "
        "the disks, the network and the fetcher threads of the source and the destination",
    )


def _explain_missing_throttle(case: SideCase) -> str:
    limits = case.view.limits
    if limits.throttles_all_moves:
        return "no throttle is set, so there is no rate to change"
    head = f"no throttle is set, so the ceiling of {rate_text(limits.rate_bytes_per_s_max)} does not limit the move on this side"
    if limits.closed_loop:
        return f"{head}: rheostat throttles moves of other tools only with tuner.unthrottled_moves: throttle"
    return (
        f"{head}: with tuner.objective: off rheostat does not throttle moves of other tools. Set a throttle with the tool "
        "that started the move, or remove tuner.objective: off"
    )


def _hold_if_infeasible(throttled: ThrottledSide) -> Hold | None:
    """Returns a hold with the numbers for the operator if no permitted rate ends the move; else None.

    With an objective, only the ceiling counts, because the control law lowers a higher current rate to the ceiling.
    """
    case, load, limits = throttled.case, throttled.load, throttled.case.limits
    current = 0 if limits.closed_loop else throttled.setting.bytes_per_s
    if not is_infeasible(current, load, limits):
        return None
    setting_name = "tuner.rate_bytes_per_s_max"
    if case.is_limited_by_plan:
        setting_name = "the throttle of the plan (--throttle)"
    elif case.view.limits.schedule_rules:
        rules = case.view.limits.schedule_rules
        setting_name = f"{setting_name}, or the ceiling in the rules of tuner.schedule that apply ({rules})"
    return case.hold(
        Reason.INFEASIBLE,
        f"steady-state replication alone takes {rate_text(load.steady_state_bytes_per_s)}, and {case.ceiling_name} is "
        f"{rate_text(limits.rate_bytes_per_s_max)}: no permitted throttle ends this move. Raise {setting_name}, or move fewer "
        "partitions at a time",
    )


def decide_sides_without_moves(view: MovesView, memory: Memory) -> list[Decision]:
    """Returns the decisions for throttles that no move uses and that slow lost replicas, such as replicas on a list of "*".

    The throttle opens for the lost replicas, and returns to its earlier rate when they are back in the ISR.
    """
    temporary = {side for side, owned in memory.owned.items() if owned.restore_to_bytes_per_s is not None}
    if not (view.blocking_writes or temporary):
        return []
    decisions: list[Decision] = []
    for side in sorted((view.blocking_writes | temporary).difference(view.sides)):
        case = SideCase.of(side, view, memory)
        is_reachable = side[0] in view.live.brokers and side[0] not in view.live.unreadable
        if case.setting is None or not is_reachable or side in memory.externally_owned_until_ms:
            continue
        if find_preserved_rate(case) is not None:
            continue
        decision = follow_override(case)
        if decision is None:
            decision = open_for_isr_recovery(case) if case.blocks_writes else restore_after_temporary_change(case)
        if decision is not None:
            decisions.append(apply_vetoes(case, decision))
    return decisions
