"""Has the move onto this broker stopped making progress?

Intuition: a bath that should fill. Each second it should gain a certain amount; a second in which it gains less than half
of that is a second lost, one in which it gains more wins time back. When 15 seconds are lost, it has stalled. Because it
is lost time that is counted and not single readings, the quota's own rhythm (nothing for 9 s, then a clump) never adds up
to a stall, while a slow leak does.

This is a one-sided CUSUM over time: S ← max(0, S + Δt · (κ − drain ÷ expected)), stalled from h on, well again at S = 0.
Δt is not one step but a stretch of 8.5 s or more, so that silence and clump of the quota's 11 s mostly meet in one.

Invariant: only data moves S. Without new steps nothing changes: silence is for freshness.py to judge.

Vocabulary:
    drain     bytes/s by which the adding replicas came closer: what they gained less what was written meanwhile.
    expected  the drain that the throttles allow: the quota less what keeping up takes. Where they allow none, or there
              are none, a small fixed rate: even an impossible throttle is expected to make progress, so that its
              failure is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from streaming.shared.contract import MoveStep
from tuner.control.throttle.state import StallState
from tuner.core.throttle_limits import StallLimits

_AT_MS = attrgetter("at_ms")


def expected_drain_bytes_per_s(
    surplus_follower: float | None,
    surplus_leaders: Sequence[float | None],
    limits: StallLimits,
    *,
    steered: bool = False,
) -> float:
    """What the throttles allow this destination to drain.

    Args:
        steered: the law means all of them to be as they are: what it leaves, however little, is what it has weighed against
            clients, and a move that takes that is well. Where it leaves nothing, a small rate is expected all the same.
        surplus_follower: throttle less keep-up of its follower side; None where not throttled or not known.
        surplus_leaders: the same of each leader it fetches from, already divided among that leader's destinations.
    """
    allowed: list[float] = []
    if surplus_follower is not None:
        allowed.append(surplus_follower)
    known = [surplus for surplus in surplus_leaders if surplus is not None]
    if known and len(known) == len(surplus_leaders):  # One unthrottled leader is enough to let everything through.
        allowed.append(sum(known))
    if steered and allowed and min(allowed) > 0.0:
        return min(allowed)
    return max([limits.progress_bytes_per_s_min, *([min(allowed)] if allowed else [])])


def judge_steps(
    state: StallState, steps: Sequence[MoveStep], expected_bytes_per_s: float, limits: StallLimits
) -> StallState:
    """The state after the steps that are newer than those judged before. ``expected_bytes_per_s`` is above 0."""
    # A window has five steps, and four of them were judged with the one before.
    new = [step for step in steps if step.at_ms > state.judged_until_ms and step.dt_s > 0]
    for step in sorted(new, key=_AT_MS) if len(new) > 1 else new:
        if step.at_ms > state.judged_until_ms:
            state = _take(state, step, expected_bytes_per_s, limits)
    return state


def _take(state: StallState, step: MoveStep, expected_bytes_per_s: float, limits: StallLimits) -> StallState:
    if step.dt_s > limits.step_s_max:
        # A gap: we do not know what happened in it.
        return replace(
            state,
            judged_until_ms=step.at_ms,
            pending_s=0.0,
            pending_gained_bytes=0.0,
            pending_written_bytes=0.0,
        )
    observed_s, pending_s = state.observed_s + step.dt_s, state.pending_s + step.dt_s
    gained_bytes = state.pending_gained_bytes + step.gained_bytes
    written_bytes = state.pending_written_bytes + step.written_bytes
    stalled, since_ms = state.stalled, state.stalled_since_ms
    if pending_s < limits.step_s_min:
        return StallState(
            state.lost_s, stalled, since_ms, step.at_ms, observed_s, pending_s, gained_bytes, written_bytes
        )
    share = _share(pending_s, gained_bytes, written_bytes, step.remaining_bytes, expected_bytes_per_s, limits)
    lost_s = min(limits.lost_s_max, max(0.0, state.lost_s + pending_s * (limits.share_expected - share)))
    if lost_s >= limits.stalled_lost_s and not stalled:
        stalled, since_ms = True, step.at_ms
    elif lost_s == 0.0:
        stalled, since_ms = False, None
    return StallState(lost_s, stalled, since_ms, step.at_ms, observed_s)


def _share(
    pending_s: float,
    gained_bytes: float,
    written_bytes: float,
    remaining_bytes: float,
    expected_bytes_per_s: float,
    limits: StallLimits,
) -> float:
    """What share of the expected drain the pending stretch brought."""
    write_bytes_per_s = written_bytes / pending_s
    if remaining_bytes <= max(limits.near_end_bytes, limits.near_end_write_s * write_bytes_per_s):
        return 1.0
    drain_bytes_per_s = gained_bytes / pending_s - write_bytes_per_s
    return min(limits.share_max, max(limits.share_min, drain_bytes_per_s / expected_bytes_per_s))
