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
    meant  the rate that a side is to have in the mean; what is written plays around it as the window holds more or less,
           but for a leader of a plan.
    tight  of a side: all that it may have is little more than what keeping up takes.
    stuck  of the slowest side: its throttle is not full for a while, so something else holds it.
    full   of a throttle: what is measured comes up to what is meant, so it is the throttle that holds the move.
    known  when everything that a side's rate depends on was last measured.
"""

from __future__ import annotations

import math
from dataclasses import replace

from streaming.shared.contract import MoveSignal, Side
from tuner.control.throttle.objective import Capacity, LawLimits, Objective, capped
from tuner.control.throttle.quota_window.model import SECONDS_KEPT, steady
from tuner.control.throttle.steering.broker_estimate import BrokerEstimate, seen
from tuner.control.throttle.steering.headroom import headroom_bytes_per_s
from tuner.control.throttle.steering.side_inputs import SideView, measured_bytes_per_s, side_view
from tuner.control.throttle.steering.state import NOTHING, ControlInput, ControlState, SideControlState
from tuner.control.throttle.steering.target_rate import (
    TargetRate,
    ahead,
    ceiling_bytes_per_s,
    drain_target_s,
    drain_times_s,
    floor_of,
    most_bytes_per_s,
    next_push,
    opened,
    slack_of,
    taken_over,
    wanted,
)
from tuner.control.throttle.steering.window_compensation import bound, replayed
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad

_SLEWED_BACK_MS_MAX = 1000  # As a clock goes that is slewed and not set.


def turn(
    view: ControlInput, memory: ControlState, objective: Objective, limits: LawLimits
) -> tuple[ControlState, dict[BrokerSide, int]]:
    """The memory after this second, and the rates to be written; sides that may stay as they are have none."""
    # Where the operator wants no more than it takes, a plan gets no more either.
    hurried = view.planned if objective.hurries else frozenset[BrokerSide]()
    # What do the clients need? Latency is only asked where replication fills what it was left.
    tested = {
        broker
        for (broker, which), course in memory.courses.items()
        if course.wanted.binds and _full(which, course, measured_bytes_per_s(which, view.brokers.get(broker)), limits)
    }
    tight = {side[0] for side, course in memory.courses.items() if _is_tight(course, limits)}
    # What came from far ahead came from a clock that was wrong, and must not keep out all that comes after.
    latest_ms = view.now_ms + limits.hold_age_s * 1000
    past = {b: sight for b, sight in memory.sights.items() if sight.sampled_at_ms <= latest_ms}
    crowded = {b for b, sight in past.items() if _is_crowded(sight, view.capacities.get(b), limits)}
    sights = {
        b: seen(s, past.get(b), b in tested, objective, limits, tight=b in tight, crowded=b in crowded)
        for b, s in view.brokers.items()
    }
    # What does that leave, and how long do all the moves take with it?
    loads = _loads(view, memory)
    told = {side: side_view(side, view, sights) for side in loads}
    limits_of = {side: capped(limits, view.most[side]) if side in view.most else limits for side in loads}
    mosts = {side: _most(here, objective, limits_of[side]) for side, here in told.items()}
    ceilings = {
        side: _ceiling(side, here, mosts[side], view.now_ms, memory, objective, limits) for side, here in told.items()
    }
    floors = {
        side: floor_of(load, limits_of[side], _left(told[side], limits), mosts[side]) for side, load in loads.items()
    }
    # Nobody waits for a side of which nothing is heard: its broker is gone, or its part of the move was cancelled.
    heard = {side: load for side, load in loads.items() if _is_heard(told[side].move, view.now_ms, limits)}
    times_s = drain_times_s(heard or loads, floors, ceilings)
    target_s = drain_target_s(times_s, objective, view.now_ms, limits)
    # The others wait for the slowest, unless something else than its throttle holds it.
    slowest = max(times_s, key=times_s.__getitem__, default=None)
    stuck = (
        slowest
        if slowest is not None and _is_stuck(memory.courses.get(slowest), told[slowest], view.now_ms, limits)
        else None
    )

    courses: dict[BrokerSide, SideControlState] = {}
    writes: dict[BrokerSide, int] = {}
    for side, load in loads.items():
        stands = view.rates.get(side)
        if stands is None:
            continue
        within = limits_of[side]
        course, here, least = memory.courses.get(side), told[side], floor_of(load, within, most_bytes_per_s=mosts[side])
        planned = side in hurried
        if course is None or _clock_was_set(course, view):
            course = _begun(stands, here, load, view.now_ms, limits, planned=planned)
        window, corrected_until_ms = replayed(course, here, stands, view.now_ms, limits)
        push, pushed_at_ms, stuck_until_ms = course.push, course.pushed_at_ms, course.stuck_until_ms
        known_now_ms = here.known_at_ms
        known_at_ms = course.known_at_ms if known_now_ms is None else known_now_ms
        # What seems to come from the future is no younger for it: somebody's clock was set.
        age_s = abs(view.now_ms - (known_at_ms or 0)) / 1000
        blind = known_now_ms is None or age_s > limits.hold_age_s
        # Never measured here. What somebody has set stands, for we know nothing better; what is our own, from before we were
        # started again, was right for clients of then, and goes back to what stood before it or to what drains.
        sinks = side in view.ours and (view.now_ms - course.since_ms) / 1000 > limits.decay_age_s
        if known_at_ms is None:
            least = max(least, view.ours.get(side, 0))
            meant = _sunk(course.wanted, stands, least, limits) if sinks else _unbound(course.wanted)
        # Too long ago: whatever clients do by now, the least that still drains cannot hurt them much.
        elif age_s > limits.decay_age_s:
            meant = _sunk(course.wanted, stands, least, limits)
        # Perhaps only late.
        elif blind:
            meant = _unbound(course.wanted)
        # Partitions take no writes until their followers are back: durability comes before latency.
        elif side in view.recovering:
            within = limits
            meant = opened(side[1], floors[side], view.capacities[side[0]], limits)
        else:
            if view.now_ms - pushed_at_ms >= limits.push_every_s * 1000:
                filled = _full(side[1], course, here.measured_bytes_per_s, limits, planned=planned)
                push = next_push(course.push, side in view.stalled, filled, limits)
                pushed_at_ms = view.now_ms if push != course.push else pushed_at_ms
            # What was brought down too far for Kafka's measure drains nothing, and goes back up.
            floor = min(least, push * floors[side])
            rated = wanted if stuck is None or side == stuck else ahead
            meant = rated(side[1], load, floor, ceilings[side], target_s, within, push, mosts[side], planned=planned)
            if side == stuck and _is_held_elsewhere(course, here, view.now_ms, limits):
                stuck_until_ms = view.now_ms + round(limits.ahead_for_s * 1000)
            since_s = (view.now_ms - course.since_ms) / 1000
            # A rate below the floor drains nothing, so the way up begins there.
            stood = max(course.stood_bytes_per_s, floor)
            meant = taken_over(meant, stood, since_s, limits)
        # Once for each side and second, field by field in their order: dataclasses.replace takes three times as long.
        course = SideControlState(
            course.since_ms,
            course.stood_bytes_per_s,
            meant,
            window,
            corrected_until_ms,
            load,
            known_at_ms,
            blind,
            course.held_to_bytes_per_s,
            push,
            pushed_at_ms,
            stuck_until_ms,
        )
        # What the window holds is not known then either, so it is given no play, and nothing is raised.
        rate = bound(side[1], course, within, play=0.0 if blind else limits.bound_play, still=planned)
        rate = min(stands, max(rate, round(least))) if blind else rate
        if known_at_ms is None:
            # What its window holds was never seen, so the line down begins at what stands.
            rate = min(stands, round(max(least, meant.rate_bytes_per_s))) if sinks else stands
        # What does not drain, or is more than is allowed, is no matter of a deadband.
        fits = min(rate, least) <= stands <= mosts[side]
        if abs(rate - stands) > _deadband_ratio(side[1], limits, planned=planned and fits) * stands:
            writes[side] = rate
        courses[side] = course
    return ControlState(sights, courses), writes


def _deadband_ratio(which: Side, limits: LawLimits, *, planned: bool) -> float:
    if which is Side.LEADER:
        return limits.plan_deadband_ratio if planned else limits.deadband_ratio
    return limits.plan_guard_deadband_ratio if planned else limits.guard_deadband_ratio


# -- what is known ----------------------------------------------------------------------------------------------------


def _loads(view: ControlInput, memory: ControlState) -> dict[BrokerSide, SideLoad]:
    """Of the sides in which something moves; where a signal is missing or does not say, what was known before."""
    found = {}
    # Those of before come in their order, and what is sorted already is soon sorted.
    for side in sorted(dict.fromkeys((*memory.courses, *view.moves, *view.ours))):
        signal, before = view.moves.get(side), memory.courses.get(side)
        if signal is not None and signal.moving_partitions == 0:
            continue
        old = before.load if before is not None else NOTHING
        if signal is not None and signal.remaining_bytes is not None:
            steady_state = signal.steady_state_bytes_per_s
            found[side] = SideLoad(
                signal.remaining_bytes, old.steady_state_bytes_per_s if steady_state is None else steady_state
            )
        elif (before is not None or side in view.ours) and side in view.rates:
            found[side] = old
    return found


def _begun(
    stands: int, here: SideView, load: SideLoad, now_ms: int, limits: LawLimits, *, planned: bool = False
) -> SideControlState:
    """A rate that somebody set is where we begin; its window holds what is measured, and not what the rate would allow.

    But a rate that is not above what keeping up takes is what holds the move, and its window is full, however little Kafka's
    mean says of it: that of a young move is of seconds in which it was not there. So are those of a plan, whose sides are in use by
    turns.
    """
    measured = here.measured_bytes_per_s if stands > load.steady_state_bytes_per_s and not planned else None
    passed = float(stands) if measured is None else min(measured, float(stands))
    window = steady(now_ms, float(stands), passed)
    # The line to another rate begins at what has passed: where the throttle did not hold, there is nothing to come down from.
    window = replace(window, meant=window.seconds)
    held_to = passed if passed < limits.fill_ratio_min * stands else None
    return SideControlState(now_ms, float(stands), TargetRate(float(stands)), window, held_to_bytes_per_s=held_to)


def _clock_was_set(course: SideControlState, view: ControlInput) -> bool:
    """What was learned of the seconds before says nothing of those now; a machine that slept is the same to us."""
    return not -_SLEWED_BACK_MS_MAX <= view.now_ms - course.window.until_ms <= SECONDS_KEPT * 1000


def _is_heard(move: MoveSignal | None, now_ms: int, limits: LawLimits) -> bool:
    return move is not None and abs(now_ms - move.sampled_at_ms) <= limits.hold_age_s * 1000


def _full(
    which: Side,
    course: SideControlState,
    measured_bytes_per_s: float | None,
    limits: LawLimits,
    *,
    planned: bool = False,
) -> bool:
    """Whether what passes comes up to what is meant. Not knowing the measure is not knowing, so no."""
    if measured_bytes_per_s is None:
        return False
    slack = slack_of(which, limits, planned=planned)
    return slack * measured_bytes_per_s >= limits.fill_ratio_min * course.wanted.rate_bytes_per_s


# -- what it may have, and what it is meant to have ---------------------------------------------------------------------


def _is_tight(course: SideControlState, limits: LawLimits) -> bool:
    """Little more than what keeping up takes is all that clients leave."""
    return (
        course.wanted.binds
        and course.wanted.rate_bytes_per_s < limits.tight_ratio * course.load.steady_state_bytes_per_s
    )


def _is_crowded(sight: BrokerEstimate, capacity: Capacity | None, limits: LawLimits) -> bool:
    """One direction of its link was nearly full in the newest step; not where an operator's ceiling holds the move below that."""
    if capacity is None:
        return False
    out, into = sight.directions[Side.LEADER].network.newest, sight.directions[Side.FOLLOWER].network.newest
    return (out or 0.0) >= limits.crowded_ratio * capacity.out_bytes_per_s or (
        into or 0.0
    ) >= limits.crowded_ratio * capacity.in_bytes_per_s


def _is_stuck(course: SideControlState | None, here: SideView, now_ms: int, limits: LawLimits) -> bool:
    """Only leaders pace, so only of them it can be told from what passes."""
    if course is None or here.which is Side.FOLLOWER:
        return False
    return now_ms < course.stuck_until_ms or _is_held_elsewhere(course, here, now_ms, limits)


def _is_held_elsewhere(course: SideControlState, here: SideView, now_ms: int, limits: LawLimits) -> bool:
    """It runs at its ceiling, has been here for as long as what is measured looks back, and less passes."""
    if not course.wanted.binds or now_ms - course.since_ms < (limits.start_s + limits.ahead_after_s) * 1000:
        return False
    measured = here.measured_bytes_per_s
    return measured is not None and not _full(here.which, course, measured, limits)


def _most(here: SideView, objective: Objective, limits: LawLimits) -> float:
    return most_bytes_per_s(here.which, here.in_sync_bytes_per_s, here.capacity, objective, limits)


def _ceiling(
    side: BrokerSide,
    here: SideView,
    most_bytes_per_s: float,
    now_ms: int,
    memory: ControlState,
    objective: Objective,
    limits: LawLimits,
) -> float:
    """Where nothing is known of the broker there is no headroom."""
    sight, used = here.sight, here.used
    if here.move is None:
        before = memory.courses.get(side)
        return before.wanted.rate_bytes_per_s if before is not None else 0.0
    if sight is None or here.capacity is None or used is None:
        return 0.0
    # A trend is not gone on with for longer than its signals are trusted.
    age_s = min(limits.hold_age_s, (now_ms - sight.sampled_at_ms) / 1000)
    ahead_s = age_s + min(limits.hold_age_s, sight.step_s) / 2
    room = headroom_bytes_per_s(here.total_bytes_per_s, used, sight.margin, ahead_s, limits)
    return ceiling_bytes_per_s(room, here.in_sync_bytes_per_s, most_bytes_per_s, objective)


def _left(here: SideView, limits: LawLimits) -> float:
    """What clients usually leave this throttle, on the careful side; infinite where something of it is not known."""
    used = here.used
    if here.move is None or used is None:
        return math.inf
    usual = used.usual_bytes_per_s + limits.floor_spreads * used.spread_bytes_per_s
    return limits.utilisation_max * here.total_bytes_per_s - usual + here.in_sync_bytes_per_s


def _sunk(before: TargetRate, stands: int, least_bytes_per_s: float, limits: LawLimits) -> TargetRate:
    """From what stands where that is less than what was meant: the way up is over as well."""
    meant = min(before.rate_bytes_per_s, float(stands))
    least = min(meant, least_bytes_per_s)
    return TargetRate(max(least, meant * limits.decay_per_s), before.infeasible)


def _unbound(before: TargetRate) -> TargetRate:
    return TargetRate(before.rate_bytes_per_s, before.infeasible) if before.binds else before
