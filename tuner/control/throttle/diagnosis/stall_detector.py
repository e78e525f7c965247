"""Detects that the move onto a broker has stopped making progress.

Every second the move should drain a certain number of bytes. A second with less than half of that number is lost; a second with
more wins time back. At 15 lost seconds the move has stalled. The quota's own rhythm (9 s of silence, then a burst) never adds up to
a stall, because the sum of lost time counts and not a single reading. A slow decline does add up.

This is a one-sided CUSUM over time: S ← max(0, S + Δt · (κ − drain ÷ expected)), with κ = ``share_expected`` and h =
``stalled_lost_s``. The move has stalled from S ≥ h on, and is progressing again at S = 0. Δt spans 8.5 s or more, so that the
silence and the burst of the quota's 11 s mostly fall into one Δt.

Invariant: only data changes S. For missing data see freshness.py.

Vocabulary:
    drain     bytes/s by which the adding replicas come closer: bytes gained less bytes written meanwhile.
    expected  the drain that the throttles allow: the quota less steady-state replication. It is a small fixed rate if the throttles
              allow nothing, or if there are none: so a move under a throttle that is too low counts as stalled.
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
    """Returns the state after one more step. Steps shorter than ``step_s_min`` are joined until they are long enough to judge."""
    if step.dt_s > limits.step_s_max:
        # A gap in the data: the progress within it is unknown.
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
        return replace(
            state,
            judged_until_ms=step.at_ms,
            observed_s=observed_s,
            pending_s=pending_s,
            pending_gained_bytes=gained_bytes,
            pending_written_bytes=written_bytes,
        )
    share = _progress_share(pending_s, gained_bytes, written_bytes, step.remaining_bytes, expected_bytes_per_s, limits)
    lost_s = min(limits.lost_s_max, max(0.0, state.lost_s + pending_s * (limits.share_expected - share)))
    if lost_s >= limits.stalled_lost_s and not stalled:
        stalled, since_ms = True, step.at_ms
    elif lost_s == 0.0:
        stalled, since_ms = False, None
    return StallState(lost_s, stalled, since_ms, judged_until_ms=step.at_ms, observed_s=observed_s)


def _progress_share(
    pending_s: float,
    gained_bytes: float,
    written_bytes: float,
    remaining_bytes: float,
    expected_bytes_per_s: float,
    limits: StallLimits,
) -> float:
    """Returns drain ÷ expected drain over the joined steps; 1 near the end of the move."""
    write_bytes_per_s = written_bytes / pending_s
    if remaining_bytes <= max(limits.near_end_bytes, limits.near_end_write_s * write_bytes_per_s):
        return 1.0
    drain_bytes_per_s = gained_bytes / pending_s - write_bytes_per_s
    return min(limits.share_max, max(limits.share_min, drain_bytes_per_s / expected_bytes_per_s))
