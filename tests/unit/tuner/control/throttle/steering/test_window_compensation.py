"""From setpoint to setting: the leader's follows the quota window, the follower's is lowered after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.shared.contract import Side
from tuner.control.throttle.objective import Capacity, ControlLimits
from tuner.control.throttle.quota_window.model import QuotaSamples, steady_window
from tuner.control.throttle.steering.broker_estimate import BrokerEstimate, DirectionEstimate
from tuner.control.throttle.steering.headroom import DirectionLoad
from tuner.control.throttle.steering.latest_step import StepRates
from tuner.control.throttle.steering.side_inputs import collect_side_inputs
from tuner.control.throttle.steering.state import ControlInput, SideControlState
from tuner.control.throttle.steering.target_rate import TargetRate
from tuner.control.throttle.steering.window_compensation import compensated_rate, replay_window
from tuner.core.drain_time import SideLoad
from tuner.core.throttle_limits import MB

LIMITS = ControlLimits()


def course(meant: float, stands: float, passed: float) -> SideControlState:
    return SideControlState(0, stands, TargetRate(meant), steady_window(0, stands, passed))


@pytest.mark.parametrize(
    ("setpoint", "current", "passed", "compensation_range", "expected"),
    [
        pytest.param(20, 60, 30, 0.1, 39_000_000, id="1.3 times the contents of the window"),
        pytest.param(40, 50, 50, 0.1, 50_000_000, id="no raise by a full window"),
        pytest.param(55, 50, 50, 0.1, 55_000_000, id="setpoint above a full window"),
        pytest.param(20, 60, 30, 0.0, 20_000_000, id="stale inputs keep the setpoint"),
    ],
)
def test_follower_margin_covers_the_window_contents(
    setpoint: int, current: int, passed: int, compensation_range: float, expected: int
) -> None:
    state = course(setpoint * MB, current * MB, passed * MB)
    assert compensated_rate(Side.FOLLOWER, state, LIMITS, compensation_range=compensation_range) == expected


@pytest.mark.parametrize(
    ("setpoint", "next_second"),
    [
        pytest.param(10, 10, id="large cut"),
        pytest.param(30, 30, id="small cut"),
    ],
)
def test_cut_sets_the_bound_that_passes_the_next_second(setpoint: int, next_second: int) -> None:
    """The window holds 11 seconds of 40 MB/s; the bound is its mean over 12 seconds."""
    rate = compensated_rate(Side.LEADER, course(setpoint * MB, 40 * MB, 40 * MB), LIMITS, compensation_range=0.1)
    assert rate == pytest.approx((11 * 40 + next_second) * MB / 12, abs=1.0)


def test_follower_margin_is_assumed_fully_used() -> None:
    """Five seconds at 50 MB/s, of which nothing is measured yet: it is not lowered for what has perhaps not come."""
    link = Capacity(60 * MB, 60 * MB)
    view = ControlInput(5_000, {}, {}, {}, {2: link})
    loaded = dict.fromkeys(Side, DirectionEstimate(load=DirectionLoad(30 * MB)))
    before = course(20 * MB, 50 * MB, 50 * MB)
    here = collect_side_inputs((2, Side.FOLLOWER), view, {2: BrokerEstimate(0, 5.0, loaded)})
    window, _ = replay_window(before, here, 50_000_000, view.now_ms, LIMITS)
    assert window.seconds[-5:] == pytest.approx([50 * MB] * 5)


def test_leader_rate_compensates_for_window_contents() -> None:
    """Eleven seconds of 21 MB are held where 20 were planned."""
    seen = replace(course(20 * MB, 20 * MB, 21 * MB), controlled_since_ms=-11_000)
    assert compensated_rate(Side.LEADER, seen, LIMITS, compensation_range=0.1) == pytest.approx(
        (11 * 21 + 20) * MB / 12, abs=1.0
    )


def test_leader_rate_is_not_lowered_for_an_empty_window() -> None:
    seen = replace(course(20 * MB, 20 * MB, 12 * MB), controlled_since_ms=-11_000)
    assert compensated_rate(Side.LEADER, seen, LIMITS, compensation_range=0.1) == 20 * MB


@pytest.mark.parametrize(
    ("setpoint", "expected"),
    [pytest.param(22, 22, id="capped below the minimum of 24"), pytest.param(30, 30, id="above the minimum")],
)
def test_minimum_rate_raises_no_capped_setpoint(setpoint: int, expected: int) -> None:
    """20 MB/s keep up."""
    load = SideLoad(1e9, 20 * MB)
    seen = replace(course(setpoint * MB, setpoint * MB, 18 * MB), controlled_since_ms=-11_000, load=load)
    assert compensated_rate(Side.LEADER, seen, LIMITS, compensation_range=0.1) == expected * MB


@pytest.mark.parametrize(
    ("age_ms", "expected"), [(1_000, (11 * 1 + 20) / 12), (11_000, (11 * 1 + 20) / 12), (12_000, 12.0)]
)
def test_rate_begun_below_minimum_rises_while_window_fills(age_ms: int, expected: float) -> None:
    """10 MB/s keep up, so the minimum is 12. It passes each second, without the burst of a whole window."""
    begun = replace(course(20 * MB, 1 * MB, 1 * MB), controlled_since_ms=-age_ms, load=SideLoad(1e9, 10 * MB))
    limits = replace(LIMITS, rate_bytes_per_s_min=1 * MB)
    rate = compensated_rate(Side.LEADER, begun, limits, compensation_range=0.1, recovers=True)
    assert rate == pytest.approx(expected * MB, abs=1.0)
    # A move's rate must keep up even if the tuner stops now.
    assert compensated_rate(Side.LEADER, begun, limits, compensation_range=0.1) >= 12 * MB


def test_nonbinding_initial_throttle_is_assumed_without_burst() -> None:
    """Of 50 MB/s there passed 20: so they do in the three seconds of which nothing is measured yet, and no more is meant by it."""
    sights = {1: BrokerEstimate(0, 5.0, dict.fromkeys(Side, DirectionEstimate(load=DirectionLoad(30 * MB))))}
    view = ControlInput(3_000, {}, {}, {}, {1: Capacity(125 * MB, 125 * MB)})
    came = replace(course(50 * MB, 50 * MB, 20 * MB), initial_flow_bytes_per_s=20 * MB, corrected_until_ms=-1)
    here = collect_side_inputs((1, Side.LEADER), view, sights)
    window, _ = replay_window(came, here, 50_000_000, view.now_ms, LIMITS)
    assert (window.seconds[-3:], window.setpoints[-3:]) == ((20 * MB,) * 3, (20 * MB,) * 3)
    window, _ = replay_window(replace(came, corrected_until_ms=0), here, 50_000_000, view.now_ms, LIMITS)
    assert (window.seconds[-3:], window.setpoints[-3:]) == ((95 * MB,) * 3, (50 * MB,) * 3)


def after_a_step(
    held_to: float | None, corrected_until_ms: int = 0, caught: float = 2 * MB, now_ms: int = 5_000
) -> QuotaSamples:
    """So many bytes/s passed in the five seconds since we came to a throttle of 20 MB/s under which 1 had; 25 are meant."""
    direction = DirectionEstimate(catch_up=StepRates((caught,)), load=DirectionLoad(30 * MB))
    sights = {1: BrokerEstimate(5_000, 5.0, dict.fromkeys(Side, direction))}
    view = ControlInput(now_ms, {}, {}, {}, {1: Capacity(125 * MB, 125 * MB)})
    came = course(25 * MB, 20 * MB, 1 * MB)
    came = replace(
        came, initial_flow_bytes_per_s=held_to, corrected_until_ms=corrected_until_ms,
        window=replace(came.window, setpoints=came.window.seconds),
    )  # fmt: skip
    window, _ = replay_window(
        came, collect_side_inputs((1, Side.LEADER), view, sights), 20_000_000, view.now_ms, LIMITS
    )
    return window


def test_first_step_replaces_guessed_window_only() -> None:
    assert after_a_step(held_to=1 * MB).seconds[-11:] == pytest.approx((2 * MB,) * 11)
    assert after_a_step(held_to=None).seconds[-11:-5] == (1 * MB,) * 6
    assert after_a_step(held_to=1 * MB, corrected_until_ms=5_000).seconds[-11:-5] == (1 * MB,) * 6


def test_first_step_of_new_move_counts_as_planned() -> None:
    """More than the throttle lets through at once: followers pace it, and the line up goes on from what they let pass."""
    assert after_a_step(1 * MB, -1, 30 * MB).setpoints[-6:] == pytest.approx((1 * MB, *[25 * MB] * 5))


def test_initial_bound_ends_once_more_has_passed() -> None:
    """The second after that step, of which nothing is measured yet, has brought as much as those in it."""
    window = after_a_step(1 * MB, -1, 30 * MB, now_ms=6_000)
    assert window.seconds[-6:] == pytest.approx((*[30 * MB] * 6,))
    assert window.setpoints[-7:] == pytest.approx((1 * MB, *[25 * MB] * 6))
    held = after_a_step(1 * MB, -1, 1 * MB, now_ms=6_000)
    assert held.seconds[-6:] == pytest.approx((1 * MB,) * 6), "where no more has passed, it still does"


@pytest.mark.parametrize("step_s", [2.0, 2.5, 3.5, 5.0, 7.4, 8.5])
def test_even_step_of_any_length_leaves_even_seconds(step_s: float) -> None:
    """20 MB/s stand and pass; a window has whole seconds, and a step seldom."""
    direction = DirectionEstimate(catch_up=StepRates((20 * MB,)), load=DirectionLoad(30 * MB))
    sights = {1: BrokerEstimate(5_000, step_s, dict.fromkeys(Side, direction))}
    view = ControlInput(5_000, {}, {}, {}, {1: Capacity(125 * MB, 125 * MB)})
    came = replace(course(20 * MB, 20 * MB, 20 * MB), controlled_since_ms=-60_000)
    window, _ = replay_window(
        came, collect_side_inputs((1, Side.LEADER), view, sights), 20_000_000, view.now_ms, LIMITS
    )
    assert window.seconds == pytest.approx((20 * MB,) * len(window.seconds))
