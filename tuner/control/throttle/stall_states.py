"""Judges which destinations have stalled, from the steps of their signals; ``diagnosis/stall_detector.py`` has the test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streaming.shared.contract import Side
from tuner.control.throttle.diagnosis import stall_detector
from tuner.control.throttle.state import Memory, StallState
from tuner.control.throttle.view import MovesView, all_await_remote_state
from tuner.core.throttle_limits import StallLimits


def judge_stalls(view: MovesView, memory: Memory, limits: StallLimits) -> Mapping[int, StallState]:
    """Returns the stall state of every destination of a running move."""
    states = {}
    for destination in sorted(view.destinations):
        state = memory.stalls.get(destination, StallState())
        signal = view.fresh_signal((destination, Side.FOLLOWER))
        changed_ms = view.last_change_ms(destination)
        # Progress lost under another rate says nothing about the current one: each change restarts the count.
        if changed_ms >= view.now_ms or (view.ramping and not view.ramping.isdisjoint(view.sides_of(destination))):
            states[destination] = StallState(judged_until_ms=max(state.judged_until_ms, view.now_ms))
            continue
        # If the throughput of a side is unknown, so is the expected progress, and the steps are judged in a later cycle.
        if view.first_unmeasured_side(destination) is not None:
            states[destination] = state
            continue
        expected = stall_detector.expected_drain_bytes_per_s(
            view.surplus_bytes_per_s((destination, Side.FOLLOWER)),
            view.surplus_shares_bytes_per_s(destination),
            limits,
            steered=view.is_steered(destination),
        )
        steps = [step for step in signal.steps if step.at_ms - 1000 * step.dt_s >= changed_ms] if signal else []
        # Empty replicas are not near their end, even if little of a tiered log has to be copied.
        is_empty = signal is not None and all_await_remote_state(signal)
        judged_limits = replace(limits, near_end_bytes=0.0, near_end_write_s=0.0) if is_empty else limits
        states[destination] = stall_detector.judge_steps(state, steps, expected, judged_limits) if steps else state
    return states
