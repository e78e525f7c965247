"""How much may all tenants together ask of the controller?

Intuition: a driver in fog who goes faster as long as there is road to be seen, never faster than would let the car stop in time,
and who brakes harder than he accelerates. What is seen is the pressure on the controller; the distance to stop in is the burst
that every tenant's bucket holds: it passes at once whenever its tenant likes, and no law is quick enough to prevent that.

    cap    span × cost × total ≤ what the controller may be busy with when as much as is admitted is spent at once
    up     by half of what the pressure leaves, never by more than a step; only while somebody is held back;
           and by half of what is left to where it was too much before
    down   in proportion to what is too much, at once; and where brokers fall behind, to less than what they apply;
           by a little where they are about to; where others wait too long, by a tenth at least, and where nearly so, by a tenth;
           for others who wait not below what any controller bears with ease, unless they wait for twice as long as they may; and
           for the lines of brokers not below what was promised

Invariant: the total stays between its least and its cap; nothing unmeasured raises it; where it does not bind it does not grow.

Vocabulary:
    total  partitions/s, created or deleted, of all tenants.
    binds  some tenant is held back by its quota.
"""

from __future__ import annotations

from dataclasses import replace

from tuner.control.mutation_quota.apply_lag import (
    PressureTrend,
    is_creeping_up,
    is_falling_behind,
    is_first_lag_breach,
    known_limit_per_s,
    sustained_per_s,
    with_known_limit,
)
from tuner.control.mutation_quota.decision import QuotaReason
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy
from tuner.control.mutation_quota.state import LearnedCost, TotalRate
from tuner.core.controller import ControllerObjective
from tuner.core.controller_pressure import Measure, Pressure


def burst_cap_per_s(cost: LearnedCost, objective: ControllerObjective, limits: MutationLimits) -> float:
    """The hard cap: at it the buckets of those who share the total hold just what the controller may be busy with.

    Quotas add up to more than the total where share is lent out (over_allocation). That not all come at once is the KIP's own
    wager, and whoever does not take it sets that to 1.
    """
    held = limits.samples * limits.window_s * (1 + limits.deadband_ratio)
    return max(
        limits.rate_per_s_min, min(limits.rate_per_s_max, objective.burst_ms_max / (held * cost.partition_total_ms))
    )


def initial_total(pressure: Pressure, done_per_s: float, cap: float, now_ms: int, limits: MutationLimits) -> TotalRate:
    """Where we begin: with what is done now and a little more, or with less of it where that is too much already."""
    if pressure.ratio <= 1:
        wanted = max(limits.rate_per_s_start, limits.demand_slack * done_per_s)
    elif _is_little(done_per_s, limits):
        wanted = limits.rate_per_s_safe
    else:
        wanted = done_per_s / pressure.ratio
    return TotalRate(_within(wanted, cap, limits), raised_at_ms=now_ms)


def next_total(
    total: TotalRate,
    pressure: Pressure,
    course: PressureTrend,
    heartbeats_time_out: bool,
    binds: bool,
    done_per_s: float,
    cap: float,
    now_ms: int,
    limits: MutationLimits,
) -> tuple[TotalRate, QuotaReason]:
    """After one more window.

    Args:
        course: where the pressure comes from and how it goes on.
    """
    rate = total.rate_per_s
    rested = now_ms - total.cut_at_ms >= limits.hold_after_cut_s * 1000
    # What does not bind holds nothing back until it comes down to what is done.
    base = rate if binds else min(rate, limits.demand_slack * done_per_s)
    # Brokers are about to be fenced: every event that does not come is worth more than fairness.
    if heartbeats_time_out and rested:
        return _lowered(total, base * limits.heartbeat_cut_factor, QuotaReason.HEARTBEAT_TIMEOUTS, cap, now_ms, limits)
    lines_ratio = 0.0 if course.lines is None else course.lines.ratio
    least = min(cap, _lines_least_per_s(course, limits))
    # Something else took of what was promised, and lines take nothing from it.
    if (
        pressure.by is Measure.FORWARDING
        and lines_ratio >= limits.forwarding_target_ratio
        and rate < least
        and binds
        and rested
    ):
        return replace(total, rate_per_s=_within(least, cap, limits), raised_at_ms=now_ms), QuotaReason.AT_MINIMUM
    if pressure.ratio > 1:
        if _is_little(done_per_s, limits) and not (binds or course.tenants_held_back):
            return _eased(total, rested and course.newer, cap, now_ms, limits)
        made = _pressed(total, pressure, course, base, cap, now_ms, limits)
        # Where what others feel takes nothing any more, lines may.
        if made[1] is QuotaReason.AT_MINIMUM and course.lines is not None and lines_ratio > 1:
            return _pressed(total, course.lines, course, base, cap, now_ms, limits)
        return made
    # Not pressed, but a burst would press it.
    if rate > cap:
        return replace(total, rate_per_s=cap), QuotaReason.OVER_CAP
    # A lag has no resting place: what goes up goes on going up, and beyond the objective it takes more to bring it down.
    if is_creeping_up(pressure, course, limits) and binds and rested:
        # Of the last raise as much as the deadband may never have been written, and does not press.
        ratio = limits.smallest_cut_factor - limits.deadband_ratio
        total = with_known_limit(total, rate, course, now_ms, limits)
        return _cut(total, rate * ratio, cap, now_ms, limits), QuotaReason.FALLING_BEHIND
    near = _step_from_near(rate, course, limits)
    if near < rate and binds and rested and course.newer:
        if now_ms - total.raised_at_ms < limits.raise_every_s * 1000:
            return total, QuotaReason.SETTLING
        # It keeps neither a cut that is urgent from being made, nor is it remembered: nothing has been missed.
        return replace(total, rate_per_s=_within(near, cap, limits), raised_at_ms=now_ms), QuotaReason.NEAR_OBJECTIVE
    is_full = course.probe_likely_ratio >= limits.probe_target_ratio or lines_ratio >= limits.forwarding_target_ratio
    if is_full or pressure.ratio >= _aim(pressure, limits):
        return total, QuotaReason.WITHIN_OBJECTIVE
    if not binds:
        return total, QuotaReason.NOT_BINDING
    if rate >= cap:
        return total, QuotaReason.AT_CAP
    # Somebody waits, and in half a minute nothing at all was answered: no line is free for that.
    if course.lines is not None and lines_ratio <= 0:
        return total, QuotaReason.SETTLING
    # The window has to see the last change before it is judged by it. And of what wavers, the least of many looks promises
    # nothing: there is room where there was in all of a window.
    if not rested or now_ms - max(total.raised_at_ms, course.no_headroom_at_ms) < limits.raise_every_s * 1000:
        return total, QuotaReason.SETTLING
    room = limits.known_limit_margin_ratio * known_limit_per_s(total, now_ms, limits) - rate
    if room <= limits.deadband_ratio * rate:
        return total, QuotaReason.NEAR_KNOWN_LIMIT
    step = min(_step(rate, pressure, course.felt_ratio, cap, limits), max(room / 2, limits.deadband_ratio * rate))
    return replace(
        total, rate_per_s=_within(rate + step, cap, limits), raised_at_ms=now_ms
    ), QuotaReason.HEADROOM_AVAILABLE


def _eased(
    total: TotalRate, may_cut: bool, cap: float, now_ms: int, limits: MutationLimits
) -> tuple[TotalRate, QuotaReason]:
    """So little is done that it is not that which is too much, and nothing is known to be: whoever comes finds what any controller
    bears with ease."""
    if total.rate_per_s <= limits.rate_per_s_safe:
        return total, QuotaReason.NOT_BINDING
    if not may_cut:
        return total, QuotaReason.SETTLING
    return _lowered(total, limits.rate_per_s_safe, QuotaReason.OVER_OBJECTIVE, cap, now_ms, limits)


def _pressed(
    total: TotalRate,
    pressure: Pressure,
    course: PressureTrend,
    base: float,
    cap: float,
    now_ms: int,
    limits: MutationLimits,
) -> tuple[TotalRate, QuotaReason]:
    """
    Args:
        base: what of the total is used.
    """
    # Where next to nothing comes, it is not that which is too much.
    comes = base >= limits.learn_rate_per_s_min
    if (
        comes
        and is_falling_behind(pressure, course)
        and now_ms - total.known_limit_at_ms >= limits.hold_after_cut_s * 1000
    ):
        total = with_known_limit(total, base, course, now_ms, limits)
        borne = limits.drain_ratio * sustained_per_s(base, course)
        return _lowered(total, borne, QuotaReason.OVER_OBJECTIVE, cap, now_ms, limits)
    # What piled up takes its time to go: while it goes, what comes in is little enough.
    before = course.pressure_before
    goes_down = before is not None and pressure.ratio < limits.receding_ratio * before
    if not course.newer or now_ms - total.cut_at_ms < limits.hold_after_cut_s * 1000 or goes_down:
        return total, QuotaReason.SETTLING
    felt = pressure.by is Measure.FELT
    # The window is still for the most part of before the step; much more than the step takes is something else.
    step = {Measure.FELT: limits.probe_step_ratio, Measure.FORWARDING: 1 - limits.smallest_cut_factor}.get(
        pressure.by, 0.0
    )
    eased = now_ms - course.near_cut_at_ms < limits.hold_after_cut_s * 1000
    if step and eased and pressure.ratio * (1 - step) <= 1:
        return total, QuotaReason.SETTLING
    # So little is not what makes others wait: with less nobody would be answered sooner, and whoever wants little would wait for
    # his quota instead, for seconds.
    kept = min(cap, _kept_per_s(pressure, course, limits))
    if total.rate_per_s <= kept:
        return total, QuotaReason.AT_MINIMUM
    # Of a tail no mean warns: whoever comes back to where it was too long finds it too long again.
    if felt and comes:
        total = with_known_limit(total, base, course, now_ms, limits)
    wanted = max(kept, base * _cut_ratio(pressure, course, limits))
    return _lowered(total, wanted, QuotaReason.OVER_OBJECTIVE, cap, now_ms, limits)


def _lowered(
    total: TotalRate, wanted: float, why: QuotaReason, cap: float, now_ms: int, limits: MutationLimits
) -> tuple[TotalRate, QuotaReason]:
    if total.rate_per_s <= limits.rate_per_s_min:
        return total, QuotaReason.AT_MINIMUM
    return _cut(total, wanted, cap, now_ms, limits), why


def _step_from_near(rate: float, course: PressureTrend, limits: MutationLimits) -> float:
    """What is left of the total where one of the next looks may well be over the objective; the rate itself where none is, or
    nothing may be taken for it."""
    left = rate
    if course.probe_spread_known and course.probe_likely_ratio > 1:
        left = min(left, max(_near_least_per_s(course, limits), rate * (1 - limits.probe_step_ratio)))
    if course.lines is not None and course.lines.ratio > limits.forwarding_near_ratio:
        left = min(left, max(_lines_least_per_s(course, limits), rate * limits.smallest_cut_factor))
    return left


def _kept_per_s(pressure: Pressure, course: PressureTrend, limits: MutationLimits) -> float:
    """What is let through although others wait for longer than they may; of all else nothing is."""
    match pressure.by:
        case Measure.FELT:
            return _near_least_per_s(course, limits) if pressure.ratio <= limits.probe_far_ratio else 0.0
        case Measure.FORWARDING:
            return _lines_least_per_s(course, limits)
        case _:
            return 0.0


def _lines_least_per_s(course: PressureTrend, limits: MutationLimits) -> float:
    # What lines are taken for moves with what is let through, down to where next to nothing is.
    return course.unmanaged_per_s + max(limits.light_load_ratio * limits.rate_per_s_safe, course.guaranteed_per_s)


def _near_least_per_s(course: PressureTrend, limits: MutationLimits) -> float:
    # What was promised is kept as long as nothing is much over its objective; and who is not ours to hold back takes his first.
    return course.unmanaged_per_s + max(limits.rate_per_s_safe, course.guaranteed_per_s)


def _aim(pressure: Pressure, limits: MutationLimits) -> float:
    return {Measure.FELT: limits.probe_target_ratio, Measure.FORWARDING: limits.forwarding_target_ratio}.get(
        pressure.by, limits.target_ratio
    )


def _is_little(done_per_s: float, limits: MutationLimits) -> bool:
    return done_per_s <= limits.light_load_ratio * limits.rate_per_s_safe


def _step(rate: float, pressure: Pressure, felt_ratio: float, cap: float, limits: MutationLimits) -> float:
    most, ratio = limits.raise_ratio_max * rate, pressure.ratio
    if ratio <= 0:
        return most
    step = most if ratio < limits.target_ratio / 2 else min(most, limits.raise_cap_ratio * cap)
    aim = limits.forwarding_target_ratio if pressure.by is Measure.FORWARDING else limits.target_ratio
    half_of_room = rate * (aim / ratio - 1) / 2
    if felt_ratio < 0.5:
        return min(step, half_of_room)
    # Whoever asks waits for the commit under way: that is soon so always, and then for long no more. How much is left says little.
    tenth = min(step, limits.probe_step_ratio * rate)
    return tenth if pressure.by is Measure.FELT else min(tenth, half_of_room)


def _cut_ratio(pressure: Pressure, course: PressureTrend, limits: MutationLimits) -> float:
    # How late it is says nothing of how much is too much, and one look may be a burst that is over.
    if is_first_lag_breach(pressure, course):
        return limits.smallest_cut_factor
    # A tail is nearly the same over a wide stretch: one step down is no less than one up.
    least = 1 - limits.probe_step_ratio if pressure.by is Measure.FELT else limits.smallest_cut_factor
    return min(least, max(limits.largest_cut_factor, 1 / pressure.ratio))


def decay_total(total: TotalRate, blind_s: float, limits: MutationLimits) -> TotalRate:
    """After so long without news, beyond the age from which it sinks."""
    return replace(total, rate_per_s=max(limits.rate_per_s_min, total.rate_per_s * limits.decay_per_s**blind_s))


def find_size_limit(
    partitions: float | None, replicas: float | None, policy: MutationPolicy
) -> tuple[float | None, int | None]:
    """What there is and how much there may be: partitions by the brake's own limit, else replicas by the cluster's."""
    if policy.partitions_max is not None:
        return partitions, policy.partitions_max
    return replicas, policy.replicas_max


def size_brake_ratio(partitions: float | None, policy: MutationPolicy, replicas: float | None = None) -> float | None:
    """The soft brake: 1 far from the limit of partitions, 0 at it and beyond. None: there is one, and nobody knows how far."""
    there, most = find_size_limit(partitions, replicas, policy)
    if most is None:
        return 1.0
    if there is None:
        return None
    if there >= most:
        return 0.0
    near = policy.partitions_near_ratio * most
    return min(1.0, (most - there) / (most - near))


def _cut(total: TotalRate, rate: float, cap: float, now_ms: int, limits: MutationLimits) -> TotalRate:
    return replace(total, rate_per_s=_within(rate, cap, limits), raised_at_ms=now_ms, cut_at_ms=now_ms)


def _within(rate: float, cap: float, limits: MutationLimits) -> float:
    return max(limits.rate_per_s_min, min(rate, cap))
