"""The throttle tuner's law, once a second: signals and memory in, rates to write and memory out.

    sight     the newest of what the signals tell of every broker
    headroom  the load that is to be expected, and what it leaves
    tracking  the rate that every side needs, so that all end together
    window    the bound that lets just that rate through Kafka's window

Invariant: no news never raises a rate. A side whose signals are old stays where it is meant to be, and then sinks to its
floor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from streaming.contract import BrokerSignal, MoveSignal, Side
from tuner.decide.freshness import age_s
from tuner.decide.headroom import headroom_bytes_per_s
from tuner.decide.sight import Sight, seen
from tuner.decide.tracking import (
    Wanted,
    ceiling_bytes_per_s,
    drain_target_s,
    floor_bytes_per_s,
    taken_over,
    wanted,
)
from tuner.model.cluster import BrokerSide
from tuner.model.objectives import Capacity, LawLimits, Objective
from tuner.plan.move_time import SideLoad
from tuner.plan.window import Window, advanced, bound_for, corrected, steady


@dataclass(frozen=True, slots=True)
class Course:
    """What one side is meant to do."""

    since_ms: int
    stood_bytes_per_s: float  # When we came.
    wanted: Wanted
    window: Window
    corrected_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class LawMemory:
    sights: Mapping[int, Sight] = field(default_factory=dict)
    courses: Mapping[BrokerSide, Course] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LawView:
    now_ms: int
    brokers: Mapping[int, BrokerSignal]
    moves: Mapping[BrokerSide, MoveSignal]
    rates: Mapping[BrokerSide, int]  # That stand on the sides we may turn.
    capacities: Mapping[int, Capacity]


def turn(
    view: LawView, memory: LawMemory, objective: Objective, limits: LawLimits
) -> tuple[LawMemory, dict[BrokerSide, int]]:
    """The memory after this second, and the rates to be written; sides that may stay as they are have none."""
    full = {broker for (broker, _), course in memory.courses.items() if course.wanted.binds}
    sights = {b: seen(signal, memory.sights.get(b), b in full, objective, limits) for b, signal in view.brokers.items()}
    loads = _loads(view)
    ceilings = {side: _ceiling(side, view, sights, objective, limits) for side in loads}
    target_s = drain_target_s(loads, ceilings, objective, view.now_ms, limits)
    courses: dict[BrokerSide, Course] = {}
    writes: dict[BrokerSide, int] = {}
    for side, load in loads.items():
        stands = view.rates.get(side)
        if stands is None:
            continue
        course = memory.courses.get(side) or _begun(view.now_ms, stands)
        meant = _meant(side, load, ceilings[side], target_s, course, view, limits)
        course = _replayed(replace(course, wanted=meant), side, stands, view, sights, load, target_s, limits)
        rate = _bound(side[1], course, load, limits)
        deadband_ratio = limits.deadband_ratio if side[1] is Side.LEADER else limits.guard_deadband_ratio
        if abs(rate - stands) > deadband_ratio * stands:
            writes[side] = rate
        courses[side] = course
    return LawMemory(sights, courses), writes


def _bound(which: Side, course: Course, load: SideLoad, limits: LawLimits) -> int:
    """What is written: through the window where the side paces, and as it is meant where it guards."""
    meant = course.wanted.rate_bytes_per_s
    if which is Side.FOLLOWER:
        return round(meant)
    bound = bound_for(course.window, meant, limits.quota_samples)
    least = limits.bound_ratio_min * meant
    most = min(limits.bound_ratio_max * meant, max(meant, limits.rate_bytes_per_s_max))
    return round(min(most, max(least, bound, floor_bytes_per_s(load, limits))))


def _loads(view: LawView) -> dict[BrokerSide, SideLoad]:
    """Of the sides in which something moves, as far as they are known."""
    return {
        side: SideLoad(signal.remaining_bytes, signal.keep_up_bytes_per_s or 0.0)
        for side, signal in sorted(view.moves.items())
        if signal.moving_partitions > 0 and signal.remaining_bytes is not None
    }


def _ceiling(
    side: BrokerSide, view: LawView, sights: Mapping[int, Sight], objective: Objective, limits: LawLimits
) -> float:
    """Where nothing is known of the broker there is no headroom."""
    broker, which = side
    sight, capacity = sights.get(broker), view.capacities.get(broker)
    if sight is None or capacity is None or (load := sight.directions[which].load) is None:
        return 0.0
    ahead_s = (view.now_ms - sight.sampled_at_ms) / 1000 + sight.step_s / 2
    total = capacity.out_bytes_per_s if which is Side.LEADER else capacity.in_bytes_per_s
    room = headroom_bytes_per_s(total, load, sight.margin, ahead_s, limits)
    return ceiling_bytes_per_s(which, room, _in_sync_bytes_per_s(view.moves[side]), capacity, objective)


def _in_sync_bytes_per_s(signal: MoveSignal) -> float:
    """Of what counts against the throttle, what in-sync followers fetch: on the leader side only."""
    if signal.side is Side.FOLLOWER:
        return 0.0
    return max(0.0, (signal.keep_up_bytes_per_s or 0.0) - (signal.write_bytes_per_s or 0.0))


def _meant(
    side: BrokerSide,
    load: SideLoad,
    ceiling: float,
    target_s: float,
    course: Course,
    view: LawView,
    limits: LawLimits,
) -> Wanted:
    broker, which = side
    signal = view.brokers.get(broker)
    ages = [age_s(view.moves[side], view.now_ms)] + ([age_s(signal, view.now_ms)] if signal is not None else [])
    if signal is None or broker not in view.capacities:
        return course.wanted
    if max(ages) > limits.decay_age_s:
        sunk = course.wanted.rate_bytes_per_s * limits.decay_per_s
        return replace(course.wanted, rate_bytes_per_s=max(sunk, floor_bytes_per_s(load, limits)), binds=False)
    if max(ages) > limits.hold_age_s:
        return replace(course.wanted, binds=False)
    meant = wanted(which, load, ceiling, target_s, limits)
    return taken_over(meant, course.stood_bytes_per_s, (view.now_ms - course.since_ms) / 1000, limits)


def _begun(now_ms: int, stands: int) -> Course:
    """A rate that somebody set is where we begin."""
    return Course(now_ms, float(stands), Wanted(float(stands)), steady(now_ms, float(stands)))


def _replayed(
    course: Course,
    side: BrokerSide,
    stands: int,
    view: LawView,
    sights: Mapping[int, Sight],
    load: SideLoad,
    target_s: float,
    limits: LawLimits,
) -> Course:
    """The course with its window up to now, corrected where a newer step was measured."""
    broker, which = side
    flow = _flow_bytes_per_s(side, view, sights, load, target_s, limits)
    window = advanced(course.window, view.now_ms, float(stands), flow, limits.quota_samples)
    sight = sights.get(broker)
    if sight is None or sight.sampled_at_ms <= course.corrected_until_ms:
        return replace(course, window=window)
    caught = sight.directions[which].caught.newest
    if caught is None:
        return replace(course, window=window)
    passed = (caught + _in_sync_bytes_per_s(view.moves[side])) * sight.step_s
    window = corrected(window, sight.sampled_at_ms, sight.step_s, passed, flow, limits.quota_samples)
    return replace(course, window=window, corrected_until_ms=sight.sampled_at_ms)


def _flow_bytes_per_s(
    side: BrokerSide,
    view: LawView,
    sights: Mapping[int, Sight],
    load: SideLoad,
    target_s: float,
    limits: LawLimits,
) -> float:
    """What can pass when the bound lets everything: all that clients leave of the link, or what the leaders send."""
    broker, which = side
    if which is Side.FOLLOWER:
        return load.keep_up_bytes_per_s + limits.pace_slack * load.remaining_bytes / target_s
    sight, capacity = sights.get(broker), view.capacities.get(broker)
    if sight is None or capacity is None or (used := sight.directions[which].load) is None:
        return float("inf")
    return max(0.0, capacity.out_bytes_per_s - used.level_bytes_per_s) + _in_sync_bytes_per_s(view.moves[side])
