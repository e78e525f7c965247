"""Detects that the move onto a broker has stopped making progress.

Vocabulary:
    drain     bytes/s by which the backlog of the adding replicas falls: bytes that arrived − bytes that producers wrote meanwhile.
    expected  the drain that the throttles allow: the quota − steady-state replication. If the throttles allow no drain, or if no
              throttle is set, a small fixed rate is expected. So a move under a throttle that is too low counts as stalled.
    allowed   the bytes that the throttles let through to the adding replicas: the expected drain + bytes that producers write.
    S         lost progress, in seconds.

The detector adds up the seconds whose bytes did not arrive. For each step of Δt seconds between two signals:

    if the drain over the last 9 to 11 s is below half of the expected drain:   S ← S + Δt × (1 − arrived ÷ allowed)
    otherwise:                                                                  S ← S − Δt

S stays between 0 and ``stalled_lost_s``. The move has stalled once S reaches ``stalled_lost_s``, and progresses again once S is 0.
The condition covers most of a quota window, because the quota itself passes bytes in a burst after up to 9 s of silence.

This is a one-sided CUSUM test. A pause of a broker increases S by the length of the pause, however the signals divide it. So
``stalled_lost_s`` is the longest pause that a healthy move may have. A higher value gives fewer false reports, but later reports.

Invariant: only data changes S. For missing data see freshness.py.
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
        surplus_follower: the throttle of the follower side − its steady-state replication; None: no throttle, or unknown.
        surplus_leaders: for each leader side: (its throttle − its steady-state replication) ÷ the leader's number of destinations.
        steered: closed-loop control sets all these throttles. A small positive surplus is then intended, so a move that uses it
            progresses.
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
    """Returns the state after the steps that no earlier call has judged. ``expected_bytes_per_s`` is above 0."""
    # A signal has five steps. The previous call has usually judged four of them.
    new_steps = [step for step in steps if step.at_ms > state.judged_until_ms and step.dt_s > 0]
    for step in sorted(new_steps, key=_AT_MS):
        if step.at_ms > state.judged_until_ms:  # Two steps may report the same time.
            state = _add_step(state, step, expected_bytes_per_s, limits)
    return state


def _add_step(state: StallState, step: MoveStep, expected_bytes_per_s: float, limits: StallLimits) -> StallState:
    """Returns the state after one more step. S changes only once the steps together last ``window_s``."""
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
    """Returns whether the backlog is so small that producers have written most of it just now. It then shows no progress."""
    written_bytes_per_s = step.written_bytes / step.dt_s
    return step.remaining_bytes <= max(limits.near_end_bytes, limits.near_end_write_s * written_bytes_per_s)
