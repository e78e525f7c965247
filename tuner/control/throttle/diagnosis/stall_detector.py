"""Detects that the move onto a broker has stopped making progress.

Every second the throttles let a certain number of bytes through. The detector counts the seconds whose bytes did not arrive:

    if the drain over the last 9 to 11 s is below half of the expected drain:   S ← S + Δt × (1 − arrived ÷ allowed)
    otherwise:                                                                  S ← S − Δt

The move has stalled from S = ``stalled_lost_s`` on, which is also the highest S, and is progressing again at S = 0. The condition
spans most of a quota window, so that the quota's own rhythm (9 s of silence, then a burst) loses nothing.

This is a one-sided CUSUM over time. A pause of a broker loses its own length, however the samples cut it. So ``stalled_lost_s`` is
the longest pause that a healthy move may have, and it alone trades early reports for false ones. A move that only drains too slowly
loses the missing share of each second.

Invariant: only data changes S. For missing data see freshness.py.

Vocabulary:
    drain     bytes/s by which the adding replicas come closer: bytes gained less bytes written meanwhile.
    expected  the drain that the throttles allow: the quota less steady-state replication. It is a small fixed rate if the throttles
              allow nothing, or if there are none: so a move under a throttle that is too low counts as stalled.
    allowed   the bytes that the throttles let through to the adding replicas: the expected drain, and what is written meanwhile.
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
    """Returns the drain that the throttles of a destination allow.

    Args:
        surplus_follower: the throttle of the follower side less its steady-state replication; None: no throttle, or unknown.
        surplus_leaders: this difference of each leader side, divided by the number of the leader's destinations.
        steered: closed-loop control sets all these throttles. Then even a small positive surplus is deliberate, and a move that
            uses it is progressing.
    """
    allowed: list[float] = []
    if surplus_follower is not None:
        allowed.append(surplus_follower)
    known_surpluses = [surplus for surplus in surplus_leaders if surplus is not None]
    # A single unthrottled leader lets everything through.
    if known_surpluses and len(known_surpluses) == len(surplus_leaders):
        allowed.append(sum(known_surpluses))
    if not allowed:
        return limits.progress_bytes_per_s_min
    if steered and min(allowed) > 0.0:
        return min(allowed)
    return max(limits.progress_bytes_per_s_min, min(allowed))


def judge_steps(
    state: StallState, steps: Sequence[MoveStep], expected_bytes_per_s: float, limits: StallLimits
) -> StallState:
    """Returns the state after the steps that are newer than the last judged one. ``expected_bytes_per_s`` is above 0."""
    # A signal has five steps, of which four were usually judged with the previous signal.
    new_steps = [step for step in steps if step.at_ms > state.judged_until_ms and step.dt_s > 0]
    for step in sorted(new_steps, key=_AT_MS):
        if step.at_ms > state.judged_until_ms:  # Two steps may report the same time.
            state = _add_step(state, step, expected_bytes_per_s, limits)
    return state


def _add_step(state: StallState, step: MoveStep, expected_bytes_per_s: float, limits: StallLimits) -> StallState:
    """Returns the state after one more step. Nothing is judged before the steps span a window."""
    if step.dt_s > limits.step_s_max:
        # A gap in the data: the progress within it is unknown.
        return replace(state, judged_until_ms=step.at_ms, window=())
    expected_bytes = expected_bytes_per_s * step.dt_s
    allowed_bytes = expected_bytes + step.written_bytes
    arrived_bytes = allowed_bytes if _is_near_end(step, limits) else step.gained_bytes
    window = [*state.window, (step.dt_s, arrived_bytes - step.written_bytes, expected_bytes)]
    window_s = sum(dt_s for dt_s, _, _ in window)
    while window_s - window[0][0] >= limits.window_s:
        window_s -= window.pop(0)[0]
    lost_s, stalled, since_ms = state.lost_s, state.stalled, state.stalled_since_ms
    if window_s >= limits.window_s:
        drained_bytes, window_bytes = sum(drained for _, drained, _ in window), sum(bytes_ for _, _, bytes_ in window)
        if drained_bytes < limits.share_expected * window_bytes:
            lost_s += step.dt_s * max(0.0, 1.0 - arrived_bytes / allowed_bytes)
        else:
            lost_s -= step.dt_s
        lost_s = min(limits.stalled_lost_s, max(0.0, lost_s))
        if lost_s >= limits.stalled_lost_s and not stalled:
            stalled, since_ms = True, step.at_ms
        elif lost_s == 0.0:
            stalled, since_ms = False, None
    return StallState(lost_s, stalled, since_ms, step.at_ms, state.observed_s + step.dt_s, tuple(window))


def _is_near_end(step: MoveStep, limits: StallLimits) -> bool:
    """Returns whether so little remains that it was mostly written just now, and says nothing about progress."""
    written_bytes_per_s = step.written_bytes / step.dt_s
    return step.remaining_bytes <= max(limits.near_end_bytes, limits.near_end_write_s * written_bytes_per_s)
