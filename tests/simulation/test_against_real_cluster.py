"""The plant against a real one: bursts, silences and drains measured on Kafka 4.2.0, each within 25 %.

The literal numbers are the measured ones. Where a range was measured, its middle stands here. Two ticks are tried: the fine
one, at which follower files were sampled closely enough, and the one that simulations run with.
"""

from __future__ import annotations

import pytest
from lab_worlds import (
    BOTH,
    ROUND_TRIP_S,
    F,
    L,
    Method,
    Phases,
    at_moments,
    catching,
    in_one_step,
    linear,
    phases,
    typical,
)

from streaming.contract import Side
from tuner.simulation.world import MIB, FetchSettings, StartRate, TopicLists

TOLERANCE = 0.25
TICKS_MS = pytest.mark.parametrize("tick_ms", [50, 250])
STEP = in_one_step
RAMP_11 = linear(11, 1.0)
RAMP_22 = linear(22, 0.5)
WINDOW_3 = FetchSettings(quota_samples=3, round_trip_s=ROUND_TRIP_S)
SMALL = FetchSettings(response_bytes_max=MIB, partition_bytes_max=MIB / 4, round_trip_s=ROUND_TRIP_S)


def near(measured: float) -> object:
    return pytest.approx(measured, rel=TOLERANCE)


# -- start -----------------------------------------------------------------------------------------------------------


@TICKS_MS
@pytest.mark.parametrize("sides", [BOTH, (F,)])
def test_a_start_at_5_mb_per_s_passes_two_fetches_and_then_backs_off(sides: tuple[Side, ...], tick_ms: int) -> None:
    start = phases(STEP, sides, tick_ms).start
    assert start.peak_mb() == near(8.0)
    assert start.between(0, 5).silence_s() == near(2.0)


@TICKS_MS
def test_small_fetches_start_evenly(tick_ms: int) -> None:
    start = phases(STEP, (F,), tick_ms, SMALL).start
    assert start.between(0, 1).peak_mb() == near(5.0)


@pytest.mark.parametrize("sides", [BOTH, (F,)])
def test_after_the_start_the_mean_is_the_bound(sides: tuple[Side, ...]) -> None:
    assert phases(STEP, sides, 250).start.between(12, 25).mean_mb_per_s() == near(0.9 * 5.0)


# -- one step up, one step down ----------------------------------------------------------------------------------------


@TICKS_MS
@pytest.mark.parametrize("sides", [BOTH, (F,)])
def test_a_step_up_empties_the_window_at_line_rate_and_comes_back_as_an_echo(
    sides: tuple[Side, ...], tick_ms: int
) -> None:
    up = phases(STEP, sides, tick_ms).up
    assert up.between(0, 4).peak_mb(2.0) == near(163.0)
    assert 4.5 * 20 <= up.between(0, 4).peak_mb() <= 8.0 * 20
    # Then next to nothing for the rest of the window: 0–13 MB/s were seen.
    assert up.between(3, 9).mean_mb_per_s() <= 13.0
    # 101–135 MB; in how many seconds was not recorded, here in one.
    assert up.between(9, 16).peak_mb() == near(118.0)


COARSE_IS_SHORT = pytest.mark.xfail(
    strict=True, reason="the coarse tick's median silence is 6.6 s, 26 % under the middle of the measured 8–10 s"
)


@pytest.mark.parametrize("tick_ms", [50, pytest.param(250, marks=COARSE_IS_SHORT)])
def test_a_step_down_is_followed_by_silence(tick_ms: int) -> None:
    def down(at_s: float) -> Phases:
        return phases(STEP, BOTH, tick_ms, down_at_s=at_s)

    assert typical(lambda p: p.down.between(0, 14).silence_s(), down) == near(9.0)


COARSE_IS_LUMPY = pytest.mark.xfail(
    strict=True, reason="the coarse tick's median clump is 31.5 MB, just over 125 % of the largest measured 25 MB"
)


@pytest.mark.parametrize("tick_ms", [50, pytest.param(250, marks=COARSE_IS_LUMPY)])
def test_after_the_silence_comes_a_clump(tick_ms: int) -> None:
    def down(at_s: float) -> Phases:
        return phases(STEP, BOTH, tick_ms, down_at_s=at_s)

    assert 3 * 5 * 0.75 <= typical(lambda p: p.down.between(2, 20).peak_mb(), down) <= 5 * 5 * 1.25


# -- ramps -------------------------------------------------------------------------------------------------------------


@TICKS_MS
@pytest.mark.parametrize(("method", "peak_mb"), [(RAMP_11, 36.0), (RAMP_22, 33.0)])
def test_a_ramp_up_keeps_the_peak_low(method: Method, peak_mb: float, tick_ms: int) -> None:
    up = phases(method, BOTH, tick_ms).up
    assert up.between(0, 14).peak_mb() == near(peak_mb)
    assert up.silence_s() <= 2.1 * 1.25


@TICKS_MS
def test_a_fine_ramp_down_shortens_the_silence(tick_ms: int) -> None:
    def down(at_s: float) -> Phases:
        return phases(RAMP_22, BOTH, tick_ms, down_at_s=at_s)

    assert typical(lambda p: p.down.silence_s(), down) == near(3.0)
    assert typical(lambda p: p.down.between(11, 35).peak_mb(), down) == near(16.0)
    assert typical(lambda p: p.down.mean_mb_per_s(), down) == near(0.9 * 5.0)


def test_a_coarse_ramp_down_is_as_long_silent_as_a_bad_moment_makes_it() -> None:
    """4.6 s and 24 MB were measured once; the model's typical moment is milder, its worst is that. Seen at the fine tick."""

    def down(at_s: float) -> Phases:
        return phases(RAMP_11, BOTH, 50, down_at_s=at_s)

    silences_s = at_moments(lambda p: p.down.between(0, 14).silence_s(), down)
    assert silences_s[0] <= 4.6 <= silences_s[-1] * 1.25
    assert at_moments(lambda p: p.down.between(11, 35).peak_mb(), down)[-1] == near(24.0)


# -- static settings -----------------------------------------------------------------------------------------------------


@TICKS_MS
def test_a_window_of_3_calms_the_steps(tick_ms: int) -> None:
    def run(at_s: float) -> Phases:
        return phases(STEP, (F,), tick_ms, WINDOW_3, down_at_s=at_s)

    assert typical(lambda p: p.start.peak_mb(), run) == near(7.0)
    assert typical(lambda p: p.up.between(0, 4).peak_mb(), run) == near(39.0)
    assert typical(lambda p: p.down.silence_s(), run) == near(2.4)


@TICKS_MS
def test_a_window_of_3_and_a_ramp_keep_within_the_bound(tick_ms: int) -> None:
    up = phases(RAMP_22, (F,), tick_ms, WINDOW_3).up
    assert up.between(0, 11).peak_mb() == near(18.0)


@TICKS_MS
def test_small_fetches_do_not_cure_the_step_up(tick_ms: int) -> None:
    up = phases(STEP, (F,), tick_ms, SMALL).up
    assert up.between(0, 4).peak_mb() == near(101.0)


# -- drains E1 to E6 -----------------------------------------------------------------------------------------------------

EXACT = TopicLists("t", leader="0:1,0:2")
EVERY = TopicLists("t", leader="*")
DESTINATION = TopicLists("t", follower="0:3")


def leader(mb_per_s: float) -> list[StartRate]:
    return [StartRate(1, L, round(mb_per_s * 1e6))]


def follower(mb_per_s: float) -> list[StartRate]:
    return [StartRate(3, F, round(mb_per_s * 1e6))]


@TICKS_MS
def test_e1_a_quota_above_bytes_in_but_below_w_never_ends(tick_ms: int) -> None:
    run = catching(lists=EXACT, rates=leader(4.5), tick_ms=tick_ms)
    assert run.done_s is None
    assert run.drain_mb_per_s(15, cycles=4) == near(1.6)
    assert run.lag_mb[4] == near(93.0)
    assert run.lag_mb[44] == near(159.0)
    assert run.byte_rate_mb_per_s[20:40].mean() == near(4.6)


@TICKS_MS
def test_e2_a_quota_above_w_drains(tick_ms: int) -> None:
    run = catching(lists=EXACT, rates=leader(7.0), lag_mb=157.0, tick_ms=tick_ms)
    assert run.lag_mb[4] == near(125.0)
    assert run.drain_mb_per_s(4, cycles=2) == near(-1.3)


@TICKS_MS
def test_e3_twice_w_is_done_in_seconds(tick_ms: int) -> None:
    run = catching(lists=EXACT, rates=leader(12.0), lag_mb=110.0, tick_ms=tick_ms)
    assert run.done_s == near(12.5)


@TICKS_MS
def test_e4_a_star_counts_what_does_not_move(tick_ms: int) -> None:
    run = catching(lists=EVERY, rates=leader(7.5), partitions=2, tick_ms=tick_ms)
    assert run.done_s is None
    assert run.drain_mb_per_s(4, cycles=4) == near(1.6)


@TICKS_MS
def test_e4b_the_exact_list_ends_at_the_same_quota(tick_ms: int) -> None:
    """144 MB at first, so that 119 MB remain once the window is full; the producer did between 2 and 3 MB/s."""
    run = catching(lists=EXACT, rates=leader(7.5), partitions=2, write_mb_per_s=2.5, lag_mb=144.0, tick_ms=tick_ms)
    assert run.done_s == near(41.0)


@TICKS_MS
def test_e5_the_follower_side_alone_below_w_never_ends(tick_ms: int) -> None:
    run = catching(lists=DESTINATION, rates=follower(2.0), tick_ms=tick_ms)
    assert run.done_s is None
    assert run.drain_mb_per_s(4, cycles=4) == near(1.2)


@TICKS_MS
def test_e6_the_follower_side_needs_only_w_of_the_moving(tick_ms: int) -> None:
    run = catching(lists=DESTINATION, rates=follower(5.0), lag_mb=200.0, tick_ms=tick_ms)
    assert run.drain_mb_per_s(4, cycles=4) == near(-1.5)
