"""Converts a side's setpoint to the throttle rate that is written, given the bytes that Kafka's quota window has counted.

The leader's throttle limits a copy, so the leader's rate compensates for the window (quota_window/model.py). While the window has
more bytes than the setpoint allows, the written rate is above the setpoint. In the second in which a burst leaves the window, the
written rate is below the setpoint. There are two exceptions:

    follower        The written rate is the setpoint, which is above the leader's rate. But the rate stays above the mean of the
                    window, because nothing passes a throttle whose rate is below this mean.
    leader in plan  Moves end and begin within each window. So the rate is not compensated. It changes linearly from one setpoint to
                    the next.

Invariant: a measured step has priority over the model of the window. Compensation raises no rate above the operator's maximum. If a
setpoint is above the maximum already, after a takeover, the setpoint is written.
"""

from __future__ import annotations

from streaming.shared.contract import Side
from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.quota_window.model import (
    QuotaSamples,
    advance,
    correct,
    correct_first_use,
    rate_for_setpoint,
    window_mean_bytes_per_s,
)
from tuner.control.throttle.steering.side_inputs import SideInputs
from tuner.control.throttle.steering.state import SideControlState
from tuner.control.throttle.steering.target_rate import min_rate_bytes_per_s


def compensated_rate(
    direction: Side,
    state: SideControlState,
    limits: ControlLimits,
    *,
    compensation_range: float,
    planned: bool = False,
    recovers: bool = False,
) -> int:
    """Returns the rate to write, in bytes/s.

    Args:
        direction: leader or follower.
        state: the side's setpoint, load and window.
        limits: the constants of the law.
        compensation_range: highest relative difference between a leader's written rate and its setpoint; 0 if the contents of the
            window are not known.
        planned: a plan still has partitions to start on this side.
        recovers: only recovering replicas copy on this side.
    """
    setpoint, window_known = state.setpoint.rate_bytes_per_s, compensation_range > 0.0
    if direction is Side.FOLLOWER:
        return _follower_rate(state, limits, window_known=window_known)
    controlled_ms = state.window.until_ms - state.controlled_since_ms
    rate = rate_for_setpoint(
        state.window, setpoint, limits.quota_samples, compensation_range=0.0 if planned else compensation_range
    )
    # If the operator or a plan limits the setpoint to less than the minimum rate, the setpoint applies.
    min_rate = min(setpoint, min_rate_bytes_per_s(state.load, limits))
    begins_below = window_known and state.initial_rate_bytes_per_s < min_rate
    if recovers and begins_below and controlled_ms <= limits.quota_samples * 1000:
        # The throttle of a recovery began below its minimum rate. If the minimum rate were written at once, the bytes of a whole
        # window would pass in a burst, which would return every twelve seconds. So ``rate`` is written, which rises within one
        # window so that each second passes its share. A move of another tool gets the minimum rate at once: if the tuner stops in
        # these seconds, the written rate stays in Kafka.
        min_rate = min(min_rate, max(rate, limits.rate_bytes_per_s_min))
    lowest = max(min_rate, _takeover_min_rate(state, limits) if window_known else 0.0)
    return round(min(max(setpoint, limits.rate_bytes_per_s_max), max(rate, lowest)))


def replay_window(
    state: SideControlState, inputs: SideInputs, current_bytes_per_s: int, now_ms: int, limits: ControlLimits
) -> tuple[QuotaSamples, int]:
    """Returns the window up to now, corrected by a newly measured step, and the end of this step (epoch ms).

    Args:
        state: the side's state before.
        inputs: the side's inputs.
        current_bytes_per_s: the throttle rate that is set.
        now_ms: epoch.
        limits: the constants of the law.
    """
    max_flow = flow = _max_flow_bytes_per_s(inputs)
    next_setpoint = state.setpoint.rate_bytes_per_s
    initial_flow = state.initial_flow_bytes_per_s
    was_corrected = state.corrected_until_ms >= state.controlled_since_ms
    if inputs.direction is Side.LEADER and initial_flow is not None and not was_corrected:
        # At the takeover something other than the throttle limited the move. This is assumed until the first measured step.
        flow, next_setpoint = min(flow, initial_flow), min(next_setpoint, initial_flow)
    window = advance(
        state.window, now_ms, float(current_bytes_per_s), flow, limits.quota_samples, setpoint_bytes_per_s=next_setpoint
    )
    estimate, until_ms = inputs.estimate, state.corrected_until_ms
    if estimate is None or estimate.sampled_at_ms <= until_ms:
        return window, until_ms
    catch_up = estimate.directions[inputs.direction].catch_up.newest
    if catch_up is None:
        return window, until_ms
    passing = catch_up + inputs.in_sync_bytes_per_s
    # If the throttle did not limit the move at the takeover, the contents of the window are only assumed. The first step that lies
    # wholly after the takeover corrects them.
    first_use = initial_flow is not None and until_ms < state.controlled_since_ms + estimate.step_s * 1000
    if first_use:
        # Whatever limits the move, the measured bytes have passed.
        flow = max(flow, min(max_flow, passing))
    # The window has whole seconds: a step of 2.5 s covers two of them, at the step's own rate.
    passed = passing * max(1, round(estimate.step_s))
    step = (estimate.sampled_at_ms, estimate.step_s, passed, flow, limits.quota_samples)
    if first_use:
        window = correct_first_use(window, *step, setpoint_bytes_per_s=state.setpoint.rate_bytes_per_s)
    else:
        window = correct(window, *step)
    return window, estimate.sampled_at_ms


def _follower_rate(state: SideControlState, limits: ControlLimits, *, window_known: bool) -> int:
    """Returns the rate of a follower side: the setpoint, but not below the mean of the window."""
    setpoint = state.setpoint.rate_bytes_per_s
    if not window_known:
        return round(setpoint)
    # At a rate below the window's mean, nothing would pass until the mean has fallen. So the follower's rate falls later than the
    # leader's rate, which already limits the copy.
    lowest = limits.follower_margin_ratio * window_mean_bytes_per_s(state.window, limits.quota_samples)
    lowest = min(lowest, state.window.rates[-1])  # A full window delays a reduction, but raises no rate.
    return round(min(max(setpoint, limits.rate_bytes_per_s_max), max(setpoint, lowest)))


def _takeover_min_rate(state: SideControlState, limits: ControlLimits) -> float:
    """Returns the rate at the takeover minus the compensation range; 0 once a whole window has been observed.

    The quota window of a young move has empty seconds from before the move. Through this window more bytes pass at the same rate,
    so the compensation would lower a rate that should rise. If the setpoint is below the initial rate, the rate should fall, and
    the result is 0.
    """
    observed_ms = state.window.until_ms - state.controlled_since_ms
    window_observed = observed_ms >= limits.quota_samples * 1000
    initial = state.initial_rate_bytes_per_s
    if window_observed or state.setpoint.rate_bytes_per_s < initial:
        return 0.0
    return (1.0 - limits.window_compensation_range) * initial


def _max_flow_bytes_per_s(inputs: SideInputs) -> float:
    """Returns the highest rate that can pass without a throttle: the part of the link that clients leave.

    It is infinite on a follower side, because the rate at which the leaders send is not known there. The model then has at most too
    many bytes in the window. With too few bytes, the written rate could fall below the window's mean, and nothing would pass.
    """
    if inputs.direction is Side.FOLLOWER or inputs.other_load is None:
        return float("inf")
    return max(0.0, inputs.link_bytes_per_s - inputs.other_load.level_bytes_per_s) + inputs.in_sync_bytes_per_s
