"""From the rate that is meant to the setting that is written: what Kafka's window holds decides what the next second lets through.

Intuition: the leader's side paces, so its setting plays around what is meant as the window holds more or less. The follower's
side guards: it stands where it is meant, above the leader's, and is not lowered under what its window still holds, for that
would be silence until the window has emptied. A plan's leader does not play: moves end and begin within its window all the
time, so the setting goes in a line from what was meant to what is, and stands.

Invariant: what was measured wins over what was replayed; what is written stays within the operator's ceiling.
"""

from __future__ import annotations

from streaming.shared.contract import Side
from tuner.control.throttle.objective import LawLimits
from tuner.control.throttle.quota_window.model import (
    SECONDS_KEPT,
    QuotaSamples,
    advanced,
    bound_for,
    corrected,
    first_seen,
    held_bytes_per_s,
)
from tuner.control.throttle.steering.side_inputs import SideView
from tuner.control.throttle.steering.state import SideControlState
from tuner.control.throttle.steering.target_rate import floor_of


def bound(which: Side, course: SideControlState, limits: LawLimits, *, play: float, still: bool = False) -> int:
    """Through the window where the side paces, and as it is meant where it guards.

    Args:
        play: as of ``bound_for``; 0 where nothing is known of what the window holds.
        still: a plan begins more there.
    """
    meant = course.wanted.rate_bytes_per_s
    if which is Side.FOLLOWER:
        # Below what its window holds nothing would pass until the window has emptied; the leader's side is lowered already.
        held = limits.guard_slack * held_bytes_per_s(course.window, limits.quota_samples)
        held = min(held, course.window.bounds[-1])  # That is a reason not to lower it, and none to raise it.
        return round(meant if play == 0.0 else min(max(meant, limits.rate_bytes_per_s_max), max(meant, held)))
    next_bytes = _next_bytes(course, limits) if play > 0.0 else meant
    # What is never used shows in a stretch that was all ours.
    long = course.window.until_ms - course.since_ms >= SECONDS_KEPT * 1000
    unused_ratio = limits.unused_ratio if long and play > 0.0 else 0.0
    bound = bound_for(
        course.window, next_bytes, limits.quota_samples, play=0.0 if still else play, unused_ratio=unused_ratio
    )
    floor = floor_of(course.load, limits)
    if meant < floor:
        # It has come down. A setting that only plays above it would let through more than is meant; but whatever is written may
        # stand for as long as nobody is there to write, so it has to drain.
        drains = limits.floor_over_steady_state_tight * course.load.steady_state_bytes_per_s
        floor = min(meant, max(limits.rate_bytes_per_s_min, drains, (1.0 - play) * meant))
    least = max(floor, _stood(course, limits) if play > 0.0 else 0.0)
    return round(min(max(meant, limits.rate_bytes_per_s_max), max(bound, least)))


def _stood(course: SideControlState, limits: LawLimits) -> float:
    """What stood when we came, less the play, as long as we have not seen a whole window and no less is meant; else 0.

    Kafka's mean over a move younger than that counts seconds in which it was not there, and for these a rate that is to go up
    would first be lowered.
    """
    seen_ms = course.window.until_ms - course.since_ms
    whole = seen_ms >= limits.quota_samples * 1000
    stood = course.stood_bytes_per_s
    return 0.0 if whole or course.wanted.rate_bytes_per_s < stood else (1.0 - limits.bound_play) * stood


def replayed(
    course: SideControlState, here: SideView, stands: int, now_ms: int, limits: LawLimits
) -> tuple[QuotaSamples, int]:
    """The window up to now, corrected where a newer step was measured, and up to when it is."""
    free = flow = _flow_bytes_per_s(here)
    meant = _next_bytes(course, limits) if here.which is Side.LEADER else course.wanted.rate_bytes_per_s
    held_to = course.held_to_bytes_per_s
    if here.which is Side.LEADER and held_to is not None and course.corrected_until_ms < course.since_ms:
        # What we came to held nothing, and until it was measured what we did, something else still does.
        flow, meant = min(flow, held_to), min(meant, held_to)
    window = advanced(course.window, now_ms, float(stands), flow, limits.quota_samples, meant_bytes_per_s=meant)
    sight, until_ms = here.sight, course.corrected_until_ms
    if sight is not None and sight.sampled_at_ms > until_ms:
        caught = sight.directions[here.which].caught.newest
        if caught is not None:
            passing = caught + here.in_sync_bytes_per_s
            # Where the throttle held nothing when we came, its window is a guess until a step is measured that is all since then.
            guessed = held_to is not None and until_ms < course.since_ms + sight.step_s * 1000
            if guessed:
                # What held it before holds it no more, as far as more has passed.
                flow = max(flow, min(free, passing))
            # The window has whole seconds: a step of 2.5 s is laid over two of them, at its own rate.
            passed = passing * max(1, round(sight.step_s))
            step = (sight.sampled_at_ms, sight.step_s, passed, flow, limits.quota_samples)
            line = course.wanted.rate_bytes_per_s
            window = first_seen(window, *step, meant_bytes_per_s=line) if guessed else corrected(window, *step)
            until_ms = sight.sampled_at_ms
    return window, until_ms


def _next_bytes(course: SideControlState, limits: LawLimits) -> float:
    """What the next second is meant to bring: on a long way down, a share of what those before it were meant to."""
    line = course.window.meant[-min(limits.quota_samples, SECONDS_KEPT) :]
    return max(course.wanted.rate_bytes_per_s, limits.fall_ratio * sum(line) / len(line))


def _flow_bytes_per_s(here: SideView) -> float:
    """What can pass when the bound lets everything: all that clients leave of the link.

    Of what the leaders send a follower's side knows nothing. It only guards, so it may think that its window holds too much:
    thought to hold too little, it would be lowered into silence.
    """
    if here.which is Side.FOLLOWER or here.used is None:
        return float("inf")
    return max(0.0, here.total_bytes_per_s - here.used.level_bytes_per_s) + here.in_sync_bytes_per_s
