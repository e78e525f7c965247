"""From the rate that is meant to the setting that is written: what Kafka's window holds decides what the next second lets through.

Intuition: the leader's side paces, so its setting plays around what is meant as the window holds more or less. The follower's
side guards: it stands where it is meant, above the leader's, and is not lowered under what its window still holds, for that
would be silence until the window has emptied.

Invariant: what was measured wins over what was replayed; what is written stays within the operator's ceiling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streaming.contract import Side
from tuner.decide.course import Course, LawView, in_sync_bytes_per_s
from tuner.decide.sight import Sight
from tuner.decide.tracking import floor_bytes_per_s
from tuner.model.cluster import BrokerSide
from tuner.model.objectives import LawLimits
from tuner.plan.move_time import SideLoad
from tuner.plan.window import advanced, bound_for, corrected, held_bytes_per_s


def bound(which: Side, course: Course, limits: LawLimits, *, play: float) -> int:
    """Through the window where the side paces, and as it is meant where it guards."""
    meant = course.wanted.rate_bytes_per_s
    if which is Side.FOLLOWER:
        # Below what its window holds nothing would pass until the window has emptied; the leader's side is lowered already.
        held = limits.guard_slack * held_bytes_per_s(course.window, limits.quota_samples)
        held = min(held, course.window.bounds[-1])  # That is a reason not to lower it, and none to raise it.
        return round(meant if play == 0.0 else min(max(meant, limits.rate_bytes_per_s_max), max(meant, held)))
    bound = bound_for(course.window, meant, limits.quota_samples, play=play)
    least = min(meant, floor_bytes_per_s(course.load, limits))
    return round(min(max(meant, limits.rate_bytes_per_s_max), max(bound, least)))


def replayed(
    course: Course,
    side: BrokerSide,
    stands: int,
    view: LawView,
    sights: Mapping[int, Sight],
    target_s: float,
    limits: LawLimits,
) -> Course:
    """The course with its window up to now, corrected where a newer step was measured."""
    broker, which = side
    flow = _flow_bytes_per_s(side, view, sights, course.load, target_s, limits)
    meant = course.wanted.rate_bytes_per_s
    window = advanced(course.window, view.now_ms, float(stands), flow, limits.quota_samples, meant_bytes_per_s=meant)
    course, sight = replace(course, window=window), sights.get(broker)
    if sight is None or sight.sampled_at_ms <= course.corrected_until_ms:
        return course
    caught = sight.directions[which].caught.newest
    if caught is None:
        return course
    passed = (caught + in_sync_bytes_per_s(view.moves.get(side))) * sight.step_s
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
    return max(0.0, capacity.out_bytes_per_s - used.level_bytes_per_s) + in_sync_bytes_per_s(view.moves.get(side))
