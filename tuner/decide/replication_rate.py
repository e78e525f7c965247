"""The throttle tuner's law, asked once a second: signals and memory in, rates to write and memory out.

``turn`` is the law, and reads as it goes; what it calls is told in this order:

    sight     the newest of what the signals tell of every broker, and the margin that its clients' latency asks for
    felt      what of that latency is over already, or is in Kafka's p99 and need not be kept away from it
    headroom  the load that is to be expected, and what it leaves of the link
    tracking  T, in which all can be done, and the rate that every side needs for it; the least that it gets in any case, and
              who need not wait for the slowest
    pacing    the setting that lets just that rate through Kafka's window of the last eleven seconds

Intuition: clients come first. What they leave of the slowest link says how long the moves take, and every other side gets
just what it needs to be done by then. A leader's throttle paces, its follower's stands a little above and guards.

Invariant: no news never raises a rate. A side of which something is not known, or not known any more, stays where it is
meant to be, and then sinks to its floor.

Vocabulary:
    meant  the rate that a side is to have in the mean; what is written plays around it as the window holds more or less.
    tight  of a side: all that it may have is little more than what keeping up takes.
    stuck  of the slowest side: its throttle is not full for a while, so something else holds it.
    full   of a throttle: what is measured comes up to what is meant, so it is the throttle that holds the move.
    known  when everything that a side's rate depends on was last measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from streaming.contract import Side, ThrottledBy
from tuner.decide.course import NOTHING, Course, LawMemory, LawView, in_sync_bytes_per_s
from tuner.decide.headroom import headroom_bytes_per_s
from tuner.decide.pacing import bound, replayed
from tuner.decide.sight import Sight, means, seen
from tuner.decide.tracking import (
    Wanted,
    ahead,
    ceiling_bytes_per_s,
    drain_target_s,
    drain_times_s,
    floor_of,
    next_push,
    opened,
    taken_over,
    wanted,
)
from tuner.model.cluster import BrokerSide
from tuner.model.objectives import LawLimits, Objective
from tuner.plan.move_time import SideLoad
from tuner.plan.window import SECONDS_KEPT, steady

_SLEWED_BACK_MS_MAX = 1000  # As a clock goes that is slewed and not set.


def turn(
    view: LawView, memory: LawMemory, objective: Objective, limits: LawLimits
) -> tuple[LawMemory, dict[BrokerSide, int]]:
    """The memory after this second, and the rates to be written; sides that may stay as they are have none."""
    # What do the clients need? Latency is only asked where replication fills what it was left.
    tested = {
        side[0] for side, course in memory.courses.items() if course.wanted.binds and _full(side, course, view, limits)
    }
    tight = {side[0] for side, course in memory.courses.items() if _is_tight(course, limits)}
    # What came from far ahead came from a clock that was wrong, and must not keep out all that comes after.
    latest_ms = view.now_ms + limits.hold_age_s * 1000
    past = {b: sight for b, sight in memory.sights.items() if sight.sampled_at_ms <= latest_ms}
    sights = {
        b: seen(s, past.get(b), b in tested, objective, limits, tight=b in tight) for b, s in view.brokers.items()
    }
    # What does that leave, and how long do all the moves take with it?
    loads = _loads(view, memory)
    ceilings = {side: _ceiling(side, view, memory, sights, objective, limits) for side in loads}
    floors = {side: floor_of(load, limits, _left(side, view, sights, limits)) for side, load in loads.items()}
    # Nobody waits for a side of which nothing is heard: its broker is gone, or its part of the move was cancelled.
    heard = {side: load for side, load in loads.items() if _is_heard(side, view, limits)}
    times_s = drain_times_s(heard or loads, floors, ceilings)
    target_s = drain_target_s(times_s, objective, view.now_ms, limits)
    # The others wait for the slowest, unless something else than its throttle holds it.
    slowest = max(times_s, key=times_s.__getitem__, default=None)
    stuck = slowest if slowest is not None and _is_stuck(slowest, view, memory, limits) else None

    courses: dict[BrokerSide, Course] = {}
    writes: dict[BrokerSide, int] = {}
    for side, load in loads.items():
        stands = view.rates.get(side)
        if stands is None:
            continue
        course = memory.courses.get(side)
        if course is None or _clock_was_set(course, view):
            course = _begun(side, stands, view, limits)
        course = replayed(course, side, stands, view, sights, limits, load=load)
        known_now_ms = _known_at_ms(side, view)
        known_at_ms = course.known_at_ms if known_now_ms is None else known_now_ms
        # What seems to come from the future is no younger for it: somebody's clock was set.
        age_s = abs(view.now_ms - (known_at_ms or 0)) / 1000
        blind = known_now_ms is None or age_s > limits.hold_age_s
        # Never measured here: somebody has set this rate, and we know nothing better.
        if known_at_ms is None:
            meant = replace(course.wanted, binds=False)
        # Too long ago: whatever clients do by now, the least that still drains cannot hurt them much.
        elif age_s > limits.decay_age_s:
            meant = _sunk(course, stands, limits)
        # Perhaps only late.
        elif blind:
            meant = replace(course.wanted, binds=False)
        # Partitions take no writes until their followers are back: durability comes before latency.
        elif side in view.recovering:
            meant = opened(side[1], floors[side], view.capacities[side[0]], limits)
        else:
            course = _pushed(course, side, view, limits)
            # What was brought down too far for Kafka's measure drains nothing, and goes back up.
            floor = min(floor_of(load, limits), course.push * floors[side])
            if stuck is None or side == stuck:
                meant = wanted(side[1], load, floor, ceilings[side], target_s, limits, course.push)
            else:
                meant = ahead(side[1], load, floor, ceilings[side], target_s, limits, course.push)
            if side == stuck and _is_held_elsewhere(side, course, view, limits):
                course = replace(course, stuck_until_ms=view.now_ms + round(limits.ahead_for_s * 1000))
            since_s = (view.now_ms - course.since_ms) / 1000
            # A rate below the floor drains nothing, so the way up begins there.
            stood = max(course.stood_bytes_per_s, floor)
            meant = taken_over(meant, stood, since_s, limits)
        course = replace(course, known_at_ms=known_at_ms, blind=blind, wanted=meant)
        # What the window holds is not known then either, so it is given no play, and nothing is raised.
        rate = bound(side[1], course, limits, play=0.0 if blind else limits.bound_play)
        rate = min(stands, max(rate, round(floor_of(load, limits)))) if blind else rate
        rate = stands if known_at_ms is None else rate
        deadband_ratio = limits.deadband_ratio if side[1] is Side.LEADER else limits.guard_deadband_ratio
        if abs(rate - stands) > deadband_ratio * stands:
            writes[side] = rate
        courses[side] = course
    return LawMemory(sights, courses), writes


# -- what is known ----------------------------------------------------------------------------------------------------


def _loads(view: LawView, memory: LawMemory) -> dict[BrokerSide, SideLoad]:
    """Of the sides in which something moves; where a signal is missing or does not say, what was known before."""
    found = {}
    for side in sorted({*view.moves, *memory.courses}):
        signal, before = view.moves.get(side), memory.courses.get(side)
        if signal is not None and signal.moving_partitions == 0:
            continue
        old = before.load if before is not None else NOTHING
        if signal is not None and signal.remaining_bytes is not None:
            keep_up = signal.keep_up_bytes_per_s
            found[side] = SideLoad(signal.remaining_bytes, old.keep_up_bytes_per_s if keep_up is None else keep_up)
        elif before is not None and side in view.rates:
            found[side] = old
    return found


def _begun(side: BrokerSide, stands: int, view: LawView, limits: LawLimits) -> Course:
    """A rate that somebody set is where we begin; its window holds what is measured, and not what the rate would allow."""
    measured = _measured_bytes_per_s(side, view)
    passed = float(stands) if measured is None else min(measured, float(stands))
    window = steady(view.now_ms, float(stands), passed)
    # The line to another rate begins at what has passed: where the throttle did not hold, there is nothing to come down from.
    window = replace(window, meant=window.seconds)
    held_to = passed if passed < limits.fill_ratio_min * stands else None
    return Course(view.now_ms, float(stands), Wanted(float(stands)), window, held_to_bytes_per_s=held_to)


def _clock_was_set(course: Course, view: LawView) -> bool:
    """What was learned of the seconds before says nothing of those now; a machine that slept is the same to us."""
    return not -_SLEWED_BACK_MS_MAX <= view.now_ms - course.window.until_ms <= SECONDS_KEPT * 1000


def _is_heard(side: BrokerSide, view: LawView, limits: LawLimits) -> bool:
    move = view.moves.get(side)
    return move is not None and abs(view.now_ms - move.sampled_at_ms) <= limits.hold_age_s * 1000


def _known_at_ms(side: BrokerSide, view: LawView) -> int | None:
    """When all that this side's rate depends on was measured; None where something of it is missing now."""
    broker, which = side
    signal, move = view.brokers.get(broker), view.moves.get(side)
    if signal is None or move is None or broker not in view.capacities:
        return None
    if move.remaining_bytes is None or move.keep_up_bytes_per_s is None or None in means(signal, which):
        return None
    return min(signal.sampled_at_ms, move.sampled_at_ms)


def _measured_bytes_per_s(side: BrokerSide, view: LawView) -> float | None:
    """What counted against this side's throttle, by Kafka's own mean over its window; what counts too much is no measure."""
    broker, which = side
    signal = view.brokers.get(broker)
    if signal is None or signal.throttled_by == ThrottledBy.REPLICATION:
        return None
    return signal.leader_throttled_bytes_per_s if which is Side.LEADER else signal.follower_throttled_bytes_per_s


def _full(side: BrokerSide, course: Course, view: LawView, limits: LawLimits) -> bool:
    """Whether what passes comes up to what is meant. Not knowing the measure is not knowing, so no."""
    measured = _measured_bytes_per_s(side, view)
    slack = 1.0 if side[1] is Side.LEADER else limits.guard_slack
    return measured is not None and slack * measured >= limits.fill_ratio_min * course.wanted.rate_bytes_per_s


# -- what it may have, and what it is meant to have ---------------------------------------------------------------------


def _is_tight(course: Course, limits: LawLimits) -> bool:
    """Little more than what keeping up takes is all that clients leave."""
    return course.wanted.binds and course.wanted.rate_bytes_per_s < limits.tight_ratio * course.load.keep_up_bytes_per_s


def _is_stuck(side: BrokerSide, view: LawView, memory: LawMemory, limits: LawLimits) -> bool:
    """Only leaders pace, so only of them it can be told from what passes."""
    course = memory.courses.get(side)
    if course is None or side[1] is Side.FOLLOWER:
        return False
    return view.now_ms < course.stuck_until_ms or _is_held_elsewhere(side, course, view, limits)


def _is_held_elsewhere(side: BrokerSide, course: Course, view: LawView, limits: LawLimits) -> bool:
    """It runs at its ceiling, has been here for as long as what is measured looks back, and less passes."""
    if not course.wanted.binds or view.now_ms - course.since_ms < (limits.start_s + limits.ahead_after_s) * 1000:
        return False
    return _measured_bytes_per_s(side, view) is not None and not _full(side, course, view, limits)


def _ceiling(
    side: BrokerSide,
    view: LawView,
    memory: LawMemory,
    sights: Mapping[int, Sight],
    objective: Objective,
    limits: LawLimits,
) -> float:
    """Where nothing is known of the broker there is no headroom."""
    broker, which = side
    move = view.moves.get(side)
    if move is None:
        return memory.courses[side].wanted.rate_bytes_per_s
    sight, capacity = sights.get(broker), view.capacities.get(broker)
    if sight is None or capacity is None or (load := sight.directions[which].load) is None:
        return 0.0
    # A trend is not gone on with for longer than its signals are trusted.
    age_s = min(limits.hold_age_s, (view.now_ms - sight.sampled_at_ms) / 1000)
    total = capacity.out_bytes_per_s if which is Side.LEADER else capacity.in_bytes_per_s
    room = headroom_bytes_per_s(total, load, sight.margin, age_s + sight.step_s / 2, limits)
    return ceiling_bytes_per_s(which, room, in_sync_bytes_per_s(move), capacity, objective)


def _left(side: BrokerSide, view: LawView, sights: Mapping[int, Sight], limits: LawLimits) -> float:
    """What clients usually leave this throttle, on the careful side; infinite where something of it is not known."""
    broker, which = side
    move, sight, capacity = view.moves.get(side), sights.get(broker), view.capacities.get(broker)
    if move is None or sight is None or capacity is None or (load := sight.directions[which].load) is None:
        return math.inf
    total = capacity.out_bytes_per_s if which is Side.LEADER else capacity.in_bytes_per_s
    usual = load.usual_bytes_per_s + limits.floor_spreads * load.spread_bytes_per_s
    return limits.utilisation_max * total - usual + in_sync_bytes_per_s(move)


def _sunk(course: Course, stands: int, limits: LawLimits) -> Wanted:
    """From what stands where that is less than what was meant: the way up is over as well."""
    meant = min(course.wanted.rate_bytes_per_s, float(stands))
    least = min(meant, floor_of(course.load, limits))
    return replace(course.wanted, rate_bytes_per_s=max(least, meant * limits.decay_per_s), binds=False)


def _pushed(course: Course, side: BrokerSide, view: LawView, limits: LawLimits) -> Course:
    if view.now_ms - course.pushed_at_ms < limits.push_every_s * 1000:
        return course
    push = next_push(course.push, side in view.stalled, _full(side, course, view, limits), limits)
    return replace(course, push=push, pushed_at_ms=view.now_ms) if push != course.push else course
