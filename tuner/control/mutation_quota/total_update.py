"""How much in all, after one more look: what is learned of it, and why the total is what it is now.

Invariant: one signal is learned from once, and moves the total once; the total rests longer than a signal is trusted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from streaming.shared.contract import ControllerSignal
from tuner.control.mutation_quota.apply_lag import PressureTrend, lag_growth_ratio
from tuner.control.mutation_quota.cost_model import initial_cost, learn_from_window
from tuner.control.mutation_quota.decision import QuotaReason, TotalRateReport
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, QuotaView
from tuner.control.mutation_quota.probe_margin import is_spread_known, likely_ratio, update_trend
from tuner.control.mutation_quota.state import ControllerWindow, MutationMemory, ProbeTrend
from tuner.control.mutation_quota.tenant_status import TenantStatus, claim_of, used_per_s
from tuner.control.mutation_quota.total_rate import burst_cap_per_s, initial_total, next_total
from tuner.core.controller_pressure import Pressure, felt_ratio, lines_pressure


@dataclass(frozen=True, slots=True)
class ControllerUpdate:
    """Of the active controller."""

    signal: ControllerSignal
    pressed: Pressure
    active_since_ms: int  # 0: it was active when we came.
    books_per_s: float  # What Kafka's books say is done now.


def update_total(
    view: QuotaView,
    news: ControllerUpdate,
    memory: MutationMemory,
    places: Sequence[TenantStatus],
    policy: MutationPolicy,
    *,
    brakes: bool,
) -> tuple[MutationMemory, TotalRateReport]:
    """The memory with what is learned and the total.

    Args:
        brakes: who is held back is held back by something else than the total.
    """
    limits, before, signal, pressed = policy.limits, memory.window, news.signal, news.pressed
    done = math.fsum(place.state.rate_per_s for place in places)
    newer = before is None or signal.node != before.node or signal.sampled_at_ms > before.sampled_at_ms
    same = before if newer and _is_the_one_before(before, signal, limits) else None
    cost = memory.cost or initial_cost(limits)
    if newer:
        cost = learn_from_window(cost, signal, before, done, news.books_per_s, limits)
        memory = replace(memory, cost=cost, window=_window(view, news, before, same, memory, policy))
    seen = memory.window
    assert seen is not None
    felt = seen.felt or ProbeTrend()
    lines = lines_pressure(view.cluster_wide, policy.objective)
    full = likely_ratio(felt, limits) >= limits.probe_target_ratio or (
        lines is not None and lines.ratio >= limits.forwarding_target_ratio
    )
    seen = replace(seen, no_headroom_at_ms=view.now_ms if full else seen.no_headroom_at_ms)
    cap = burst_cap_per_s(cost, policy.objective, limits)
    total, reason = memory.total, QuotaReason.INITIAL
    if total is None:
        total = initial_total(pressed, done, cap, view.now_ms, limits)
    else:
        course = _course(pressed, lines, seen, same, newer, places, limits)
        late = (signal.heartbeats_timed_out_per_s or 0.0) > 0
        binds = course.tenants_held_back and not brakes
        total, reason = next_total(total, pressed, course, late, binds, done, cap, view.now_ms, limits)
    if reason is QuotaReason.NEAR_OBJECTIVE:
        seen = replace(seen, felt=replace(felt, near_cut_at_ms=view.now_ms))
    text = f"{total.rate_per_s:.1f} partitions/s in all: {pressed}; {_WHY[reason]}"
    return replace(memory, total=total, window=seen), TotalRateReport(total.rate_per_s, pressed.ratio, reason, text)


def _window(
    view: QuotaView,
    news: ControllerUpdate,
    before: ControllerWindow | None,
    same: ControllerWindow | None,
    memory: MutationMemory,
    policy: MutationPolicy,
) -> ControllerWindow:
    signal = news.signal
    felt = update_trend(
        before.felt if before is not None else None,
        felt_ratio(view.cluster_wide, policy.objective),
        signal.sampled_at_ms,
        (signal.sampled_at_ms - same.sampled_at_ms) / 1000 if same is not None else None,
        max(memory.total.cut_at_ms, memory.total.raised_at_ms) if memory.total is not None else 0,
        policy.limits,
    )
    return ControllerWindow(
        signal.node,
        signal.sampled_at_ms,
        signal.topics,
        signal.partitions,
        signal.idle_ratio,
        news.pressed.ratio,
        view.cluster_wide.apply_lag_ms,
        0 if before is None else before.no_headroom_at_ms,
        news.active_since_ms,
        felt,
    )


def _course(
    pressed: Pressure,
    lines: Pressure | None,
    seen: ControllerWindow,
    same: ControllerWindow | None,
    newer: bool,
    places: Sequence[TenantStatus],
    limits: MutationLimits,
) -> PressureTrend:
    """
    Args:
        same: the look before this one; None: there was none, or too long ago.
    """
    felt, ours = seen.felt or ProbeTrend(), [place for place in places if place.unmanaged_reason is None]
    behind = 0.0
    if same is not None:
        behind = lag_growth_ratio(pressed, same.apply_lag_ms, seen.sampled_at_ms - same.sampled_at_ms)
    return PressureTrend(
        pressure_before=same.pressure if same is not None else None,
        lag_growth_ratio=behind,
        lag_before_ms=same.apply_lag_ms if same is not None else None,
        newer=newer,
        felt_ratio=felt.ratio or 0.0,
        probe_likely_ratio=likely_ratio(felt, limits),
        probe_spread_known=is_spread_known(felt, limits),
        no_headroom_at_ms=seen.no_headroom_at_ms,
        near_cut_at_ms=felt.near_cut_at_ms,
        lines=lines,
        guaranteed_per_s=math.fsum(claim_of(place, limits).guaranteed_demand for place in ours),
        unmanaged_per_s=math.fsum(used_per_s(place) for place in places if place.unmanaged_reason is not None),
        # Whom a quota of ours for whoever has none holds back is held back by the total as well.
        tenants_held_back=any(
            place.state.backlogged
            for place in places
            if place.unmanaged_reason is None or place.bound_by_managed_default
        ),
    )


def _is_the_one_before(
    before: ControllerWindow | None, signal: ControllerSignal, limits: MutationLimits
) -> TypeGuard[ControllerWindow]:
    """Of the same controller, and no gap between them in which anything may have come and gone."""
    if before is None or before.node != signal.node:
        return False
    return signal.sampled_at_ms - before.sampled_at_ms <= limits.decay_age_s * 1000


_WHY = {
    QuotaReason.INITIAL: "the first look at it",
    QuotaReason.WITHIN_OBJECTIVE: "as it should be",
    QuotaReason.NOT_BINDING: "nobody is held back",
    QuotaReason.SETTLING: "the last change is still to be seen",
    QuotaReason.AT_CAP: "more would be too much if all buckets were spent at once",
    QuotaReason.OVER_CAP: "lowered, as all buckets spent at once would be too much",
    QuotaReason.NEAR_KNOWN_LIMIT: "little more was too much before",
    QuotaReason.HEADROOM_AVAILABLE: "raised, as somebody is held back",
    QuotaReason.FALLING_BEHIND: "lowered a little, as that would soon be too late",
    QuotaReason.NEAR_OBJECTIVE: "lowered a little, as one of the next looks may well be over it",
    QuotaReason.OVER_OBJECTIVE: "lowered",
    QuotaReason.AT_MINIMUM: "too much, and it is the least that is given",
    QuotaReason.HEARTBEAT_TIMEOUTS: "lowered by half, as heartbeats of brokers time out",
}
