"""Which rate does each side of each broker need, so that all moves end together and as soon as they may?

Intuition: a throttle carries two things: what keeps its followers up to date (W), and what catches up. The slowest broker
sets the time T in which all can be done; each of the others gets just W + B/T, for to be done sooner would help nobody and
cost its clients. But where something else than its throttle holds the slowest, it is a link or a disk that it shares, and
nobody waits: the others go ahead, and leave that to it. Of the two ends of a copy the leader paces; the follower's rate
stands a little above, so that it holds only when the leader does not.

Invariant: a wanted rate lies between floor and ceiling; where the ceiling is below the floor it is the floor, and the side
is called infeasible aloud. Nothing is above what the operator allows, the floor included.

Vocabulary:
    floor    bytes/s that this side gets whatever its clients need: a move that does not drain helps nobody.
    ceiling  bytes/s that the throttle of this side may let through, keep-up included.
    most     bytes/s that the operator allows this side, whatever it needs and whatever its clients leave.
    T        seconds in which the move is to be done.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from streaming.shared.contract import Side
from tuner.control.throttle.objective import Capacity, LawLimits, Mode, Objective
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad, drain_s
from tuner.core.value import value


@value
class TargetRate:
    rate_bytes_per_s: float
    infeasible: bool = False  # Its ceiling does not even carry what keeps up.
    binds: bool = False  # It runs at its ceiling.


def most_bytes_per_s(
    side: Side, in_sync_bytes_per_s: float, capacity: Capacity | None, objective: Objective, limits: LawLimits
) -> float:
    """The operator's ceiling, and in share mode the share of the link: a promise, and not a wish like the headroom.

    Args:
        in_sync_bytes_per_s: what in-sync followers take: the share is of what a move brings, and the throttle counts them too.
        capacity: None where it is not known; then the share of it is not known either.
    """
    most = limits.rate_bytes_per_s_max
    if objective.mode is Mode.SHARE and objective.share_max is not None and capacity is not None:
        link = capacity.out_bytes_per_s if side is Side.LEADER else capacity.in_bytes_per_s
        most = min(most, objective.share_max * link + in_sync_bytes_per_s)
    return most


def floor_of(
    load: SideLoad, limits: LawLimits, left_bytes_per_s: float = math.inf, most_bytes_per_s: float = math.inf
) -> float:
    """The least that drains, within what the operator allows.

    Args:
        left_bytes_per_s: what clients usually leave this throttle, W included; infinite where that is not known. Where it is
            less than the floor, clients would pay for every byte above it, so the floor comes down to it, but never so near
            to W that nothing drains.
        most_bytes_per_s: see there; the operator's ceiling is known here without it.
    """
    steady_state = load.steady_state_bytes_per_s
    least = max(
        limits.floor_over_steady_state_tight * steady_state,
        min(limits.floor_over_steady_state * steady_state, left_bytes_per_s),
    )
    return min(limits.rate_bytes_per_s_max, most_bytes_per_s, max(limits.rate_bytes_per_s_min, least))


def ceiling_bytes_per_s(
    headroom_bytes_per_s: float, in_sync_bytes_per_s: float, most_bytes_per_s: float, objective: Objective
) -> float:
    """
    Args:
        headroom_bytes_per_s: for what catches up.
        in_sync_bytes_per_s: of W, what in-sync followers take: it is in the load already, and the throttle counts it too.
        most_bytes_per_s: see there. Without it T would be what a link could do and no throttle may, and all but the
            slowest would go ahead of it.
    """
    if objective.mode is Mode.GENTLE:
        headroom_bytes_per_s *= objective.gentle_ratio
    return min(most_bytes_per_s, headroom_bytes_per_s + in_sync_bytes_per_s)


def drain_times_s(
    loads: Mapping[BrokerSide, SideLoad],
    floors: Mapping[BrokerSide, float],
    ceilings: Mapping[BrokerSide, float],
) -> dict[BrokerSide, float]:
    """How long each side takes at its ceiling; those that never end are not in it."""
    times = {}
    for side, load in loads.items():
        time_s = drain_s(load, max(ceilings[side], floors[side]))
        if time_s is not None:
            times[side] = time_s
    return times


def drain_target_s(times_s: Mapping[BrokerSide, float], objective: Objective, now_ms: int, limits: LawLimits) -> float:
    """T: as short as the slowest side allows, and in deadline mode no shorter than it may take."""
    target_s = max([limits.drain_s_min, *times_s.values()])
    if objective.mode is Mode.DEADLINE and objective.finish_at_ms is not None:
        left_s = (objective.finish_at_ms - now_ms) / 1000 - limits.deadline_reserve_s
        target_s = max(target_s, limits.deadline_ratio * left_s)
    return target_s


def wanted(
    side: Side,
    load: SideLoad,
    floor_bytes_per_s: float,
    ceiling_bytes_per_s: float,
    target_s: float,
    limits: LawLimits,
    push: float = 1.0,
    most_bytes_per_s: float = math.inf,
    *,
    planned: bool = False,
) -> TargetRate:
    """The rate of one side.

    Args:
        planned: a plan still has something to begin there.
        most_bytes_per_s: see there; the operator's ceiling is known here without it.
        push: times what it should need, where it turned out to need more.
    """
    slack = slack_of(side, limits, planned=planned)
    needed = push * (load.steady_state_bytes_per_s + slack * load.remaining_bytes / target_s)
    # Where leaders bring more than the slowest takes the follower's side is a bound and no guard.
    bound = side is Side.LEADER or planned
    most = ceiling_bytes_per_s if bound else limits.guard_slack * ceiling_bytes_per_s
    most = min(most, limits.rate_bytes_per_s_max, most_bytes_per_s)
    infeasible = most <= load.steady_state_bytes_per_s
    if planned and side is Side.LEADER:
        # At the most that the operator allows the follower's side can stand no higher; so the leader's stands below it.
        most = min(most, limits.plan_pace_ratio * min(limits.rate_bytes_per_s_max, most_bytes_per_s))
    rate = max(floor_bytes_per_s, min(most, needed))
    return TargetRate(rate, infeasible, binds=needed >= limits.binds_ratio * most)


def slack_of(side: Side, limits: LawLimits, *, planned: bool) -> float:
    """Times the even part of what remains that a side is given."""
    slack = limits.pace_slack if side is Side.LEADER else limits.guard_slack
    return max(slack, limits.plan_slack) if planned else slack


def ahead(
    side: Side,
    load: SideLoad,
    floor_bytes_per_s: float,
    ceiling_bytes_per_s: float,
    target_s: float,
    limits: LawLimits,
    push: float = 1.0,
    most_bytes_per_s: float = math.inf,
    *,
    planned: bool = False,
) -> TargetRate:
    """The rate of a side that is to be done long before the slowest, which something else than its throttle holds.

    It takes more than its even part of a link that others share, so here the follower's side is a bound and no guard.
    """
    ahead_s = limits.ahead_ratio * target_s
    found = wanted(
        side, load, floor_bytes_per_s, ceiling_bytes_per_s, ahead_s, limits, push, most_bytes_per_s, planned=planned
    )
    most = max(floor_bytes_per_s, ceiling_bytes_per_s)
    return TargetRate(min(found.rate_bytes_per_s, most), found.infeasible, found.binds)


def opened(side: Side, floor_bytes_per_s: float, capacity: Capacity, limits: LawLimits) -> TargetRate:
    """For replicas without which a partition takes no writes: all that the operator and the link allow."""
    link = capacity.out_bytes_per_s if side is Side.LEADER else capacity.in_bytes_per_s
    return TargetRate(max(floor_bytes_per_s, min(link, limits.rate_bytes_per_s_max)))


def next_push(push: float, stalled: bool, filled: bool, limits: LawLimits) -> float:
    """What follows after ``push_every_s``: more, while the move stalls and this throttle is full; less, once it goes on.

    A stalled move whose throttle is not full is held by something else, and more would only be dangerous later.
    """
    if stalled:
        return min(limits.stall_push_max, push * limits.stall_push) if filled else push
    return max(1.0, push / limits.stall_push)


def taken_over(meant: TargetRate, stood_bytes_per_s: float, since_s: float, limits: LawLimits) -> TargetRate:
    """The rate on the way from what somebody had set to what is meant; where that is lower, it is lowered at once."""
    way = min(1.0, max(0.0, since_s / limits.start_s))  # A clock that was set back has not undone the way.
    rate = meant.rate_bytes_per_s
    on_the_way = min(rate, stood_bytes_per_s + way * (rate - stood_bytes_per_s))
    if on_the_way >= rate:
        return meant
    # Below its ceiling it does not fill the link, and low latency says nothing yet.
    return TargetRate(on_the_way, meant.infeasible)
