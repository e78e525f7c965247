"""The simulator against measurements on Kafka 4.2.0: bursts, silences and drains, each within 25 %.

The literal numbers are measured; for a range its middle is used. Two ticks are tested: a fine one and the usual one.

The first changes of rate were measured once each, at an unknown moment of the quota's cycle. That moment matters: a step from 20
to 5 MB/s causes a silence of 3 to 12 s. The simulator therefore runs at a dozen moments and the typical value is compared, or
the range if the measured moment was an extreme one. Later changes were recorded at eight moments, and the same moments are
simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from lab_worlds import (
    BOTH,
    RECORDED_LINE_BYTES_PER_S,
    RECORDED_ROUND_TRIP_S,
    ROUND_TRIP_S,
    F,
    L,
    at_moments,
    catching,
    kept_ratio,
    phases,
)

from benchmarks.bursts import recordings
from benchmarks.bursts.methods import MB, Feedback, Method, Phases, each, in_one_step, linear, typical
from streaming.shared.contract import Side
from tuner.simulation.world import MIB, FetchSettings, InitialRate, TopicLists

pytestmark = pytest.mark.slow

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
def test_start_at_5_mb_passes_two_fetches_then_stops(sides: tuple[Side, ...], tick_ms: int) -> None:
    start = phases(STEP, sides, tick_ms).start
    assert start.peak_mb() == near(8.0)
    assert start.between(0, 5).silence_s() == near(2.0)


@TICKS_MS
def test_small_fetches_start_evenly(tick_ms: int) -> None:
    start = phases(STEP, (F,), tick_ms, SMALL).start
    assert start.between(0, 1).peak_mb() == near(5.0)


@pytest.mark.parametrize("sides", [BOTH, (F,)])
def test_mean_rate_after_start_is_the_bound(sides: tuple[Side, ...]) -> None:
    assert phases(STEP, sides, 250).start.between(12, 25).mean_mb_per_s() == near(0.9 * 5.0)


# -- one step up, one step down ----------------------------------------------------------------------------------------


@TICKS_MS
@pytest.mark.parametrize("sides", [BOTH, (F,)])
def test_step_up_empties_window_at_line_rate_and_echoes(sides: tuple[Side, ...], tick_ms: int) -> None:
    up = phases(STEP, sides, tick_ms).up
    assert up.between(0, 4).peak_mb(2.0) == near(163.0)
    assert 4.5 * 20 <= up.between(0, 4).peak_mb() <= 8.0 * 20
    # Then next to nothing for the rest of the window: 0–13 MB/s were seen.
    assert up.between(3, 9).mean_mb_per_s() <= 13.0
    # 101–135 MB; in how many seconds was not recorded, here in one.
    assert up.between(9, 16).peak_mb() == near(118.0)


def then_even(at_s: float, live: float, to: float) -> list[tuple[float, float]]:
    """A ramp up to 12 MB/s, which fills the window evenly, then one step down to 3 MB/s."""
    if to > live > 0:
        return RAMP_22(at_s, live, 12 * MB)
    return [(at_s, to if live == 0 else 3 * MB)]


@TICKS_MS
def test_step_down_from_even_window_causes_silence_and_burst(tick_ms: int) -> None:
    """Measured: 8 s of silence, then 3 to 5 times the new rate within a second, then more than 4 s of silence."""
    runs = at_moments(then_even, BOTH, tick_ms)
    assert typical(lambda p: p.down.between(0, 14).silence_s(), runs) == near(8.0)
    assert typical(lambda p: p.down.between(2, 20).peak_mb(), runs) == near(4 * 3.0)
    assert typical(lambda p: p.down.between(11, 35).silence_s(), runs) >= 4.0 * (1 - TOLERANCE)


@TICKS_MS
def test_silence_after_burst_depends_on_moment_of_step(tick_ms: int) -> None:
    """One measurement from 20 to 5 MB/s had 10 s of silence."""
    silences_s = each(lambda p: p.down.between(0, 14).silence_s(), at_moments(STEP, BOTH, tick_ms))
    assert silences_s[0] <= 10.0 <= silences_s[-1]
    assert silences_s[-1] <= 12.0 * (1 + TOLERANCE)


# -- ramps -------------------------------------------------------------------------------------------------------------


@TICKS_MS
@pytest.mark.parametrize(("method", "peak_mb"), [(RAMP_11, 36.0), (RAMP_22, 33.0)])
def test_ramp_up_keeps_the_peak_low(method: Method, peak_mb: float, tick_ms: int) -> None:
    runs = at_moments(method, BOTH, tick_ms)
    assert typical(lambda p: p.up.between(0, 14).peak_mb(), runs) == near(peak_mb)
    assert each(lambda p: p.up.silence_s(), runs)[-1] <= 2.1 * 1.25


@TICKS_MS
def test_fine_ramp_down_shortens_the_silence(tick_ms: int) -> None:
    runs = at_moments(RAMP_22, BOTH, tick_ms)
    assert typical(lambda p: p.down.silence_s(), runs) == near(3.0)
    assert typical(lambda p: p.down.between(11, 35).peak_mb(), runs) == near(16.0)
    assert typical(lambda p: p.down.mean_mb_per_s(), runs) == near(0.9 * 5.0)


@TICKS_MS
def test_coarse_ramp_down_is_silent_for_longer(tick_ms: int) -> None:
    """One measurement had 4.6 s of silence and a burst of 24 MB."""
    runs = at_moments(RAMP_11, BOTH, tick_ms)
    assert typical(lambda p: p.down.silence_s(), runs) == near(4.6)
    assert each(lambda p: p.down.between(11, 35).peak_mb(), runs)[-1] == near(24.0)


# -- static settings -----------------------------------------------------------------------------------------------------


@TICKS_MS
def test_window_of_3_reduces_peaks_and_silence(tick_ms: int) -> None:
    runs = at_moments(STEP, (F,), tick_ms, WINDOW_3)
    assert typical(lambda p: p.start.peak_mb(), runs) == near(7.0)
    assert typical(lambda p: p.up.between(0, 4).peak_mb(), runs) == near(39.0)
    assert typical(lambda p: p.down.silence_s(), runs) == near(2.4)


@TICKS_MS
def test_window_of_3_lowers_the_mean_rate(tick_ms: int) -> None:
    """Measured: 0.7 to 0.87 of the bound."""
    runs = at_moments(STEP, (F,), tick_ms, WINDOW_3)
    assert typical(lambda p: p.start.between(12, 25).mean_mb_per_s() / 5.0, runs) == near(0.79)
    assert typical(lambda p: p.up.between(12, 25).mean_mb_per_s() / 20.0, runs) == near(0.79)


@TICKS_MS
def test_window_of_3_with_ramp_stays_near_bound(tick_ms: int) -> None:
    runs = at_moments(RAMP_22, (F,), tick_ms, WINDOW_3)
    assert typical(lambda p: p.up.between(0, 11).peak_mb(), runs) == near(18.0)


@TICKS_MS
def test_small_fetches_still_burst_after_step_up(tick_ms: int) -> None:
    up = phases(STEP, (F,), tick_ms, SMALL).up
    assert up.between(0, 4).peak_mb() == near(101.0)


# -- the rest of what was measured, at the tick that simulations run with ---------------------------------------------------


Read = Callable[[Phases], float]


def start_peak_mb(p: Phases) -> float:
    return p.start.peak_mb()


def start_silence_s(p: Phases) -> float:
    return p.start.silence_s()


def paced_peak_mb(p: Phases) -> float:
    return p.up.between(0, 13).peak_mb()


def released_peak_mb(p: Phases) -> float:
    return p.up.between(13, 25).peak_mb()


def up_peak_mb(p: Phases) -> float:
    return p.up.between(0, 14).peak_mb()


def up_silence_s(p: Phases) -> float:
    return p.up.silence_s()


def echo_mb(p: Phases) -> float:
    return p.up.between(9, 16).peak_mb()


def down_silence_s(p: Phases) -> float:
    return p.down.silence_s()


def later_peak_mb(p: Phases) -> float:
    return p.down.between(11, 35).peak_mb()


def later_step_peak_mb(p: Phases) -> float:
    return p.down.between(2, 35).peak_mb()


FEEDBACK_1 = Feedback(1.0)
FEEDBACK_05 = Feedback(0.5)
SMALL_WINDOW_3 = FetchSettings(
    response_bytes_max=MIB, partition_bytes_max=MIB / 4, quota_samples=3, round_trip_s=ROUND_TRIP_S
)


@pytest.mark.parametrize(
    ("method", "sides", "fetch", "read", "measured"),
    [
        (RAMP_11, BOTH, None, start_peak_mb, 12.0),
        (RAMP_11, BOTH, None, start_silence_s, 3.0),
        (STEP, (F,), SMALL, echo_mb, 82.0),
    ],
)
def test_simulation_matches_other_single_measurements(
    method: Method, sides: tuple[Side, ...], fetch: FetchSettings, read: Callable[[Phases], float], measured: float
) -> None:
    assert typical(read, at_moments(method, sides, 250, fetch)) == near(measured)


# -- recorded at moments of all kinds: benchmarks/bursts/record.py ---------------------------------------------------------

START = (start_peak_mb, start_silence_s)
RECORDED: Mapping[str, tuple[Method | Feedback, tuple[Side, ...], FetchSettings | None, tuple[Read, ...]]] = {
    "ramp_22": (RAMP_22, BOTH, None, (*START, up_peak_mb, up_silence_s, down_silence_s, later_peak_mb)),
    "ramp_11_follower": (RAMP_11, (F,), None, (*START, up_peak_mb, up_silence_s, down_silence_s, later_peak_mb)),
    "feedback_05": (
        FEEDBACK_05, BOTH, None,
        (*START, paced_peak_mb, released_peak_mb, up_silence_s, down_silence_s, later_peak_mb),
    ),
    "feedback_1": (
        FEEDBACK_1, BOTH, None,
        (*START, paced_peak_mb, released_peak_mb, up_silence_s, down_silence_s, later_peak_mb),
    ),
    "window_3_step": (STEP, (F,), WINDOW_3, (*START, up_peak_mb, up_silence_s, down_silence_s, later_step_peak_mb)),
    "window_3_ramp_22": (RAMP_22, (F,), WINDOW_3, (*START, up_peak_mb, up_silence_s, down_silence_s, later_peak_mb)),
    "small_window_3_step": (
        STEP, (F,), SMALL_WINDOW_3, (*START, up_peak_mb, up_silence_s, down_silence_s, later_step_peak_mb),
    ),
    "small_window_3_ramp_22": (
        RAMP_22, (F,), SMALL_WINDOW_3, (*START, up_peak_mb, up_silence_s, down_silence_s, later_peak_mb),
    ),
}  # fmt: skip


# Of these the plant is asked at the fine tick alone, as most are counts of one response or one backoff.
BACKOFFS = "of how many backoffs of 1 s in a row the longest silence is made, 4 MB more or less in a window decide"
RESPONSES = "one response of 4 MB more or less"
OFF: Mapping[tuple[str, Read], str] = {
    ("feedback_05", up_silence_s): f"2.5 s for 1.9: {BACKOFFS}",
    ("feedback_1", up_silence_s): f"3.5 s for 2.0: {BACKOFFS}",
    ("feedback_1", paced_peak_mb): "35 MB for 22: 38 to 50 at five of eight moments; on brokers at none, 16 to 28",
    ("window_3_step", up_silence_s): f"1.0 s for 1.7: {BACKOFFS}",
    ("window_3_step", down_silence_s): f"2.0 s for 2.7: {BACKOFFS}",
    ("window_3_step", later_step_peak_mb): f"8 MB for 11: {RESPONSES}",
    ("window_3_ramp_22", start_peak_mb): f"4 MB for 6, half of the runs had 4 and half 8: {RESPONSES}",
    ("window_3_ramp_22", up_silence_s): f"1.0 s for 1.5: {BACKOFFS}",
    ("small_window_3_step", start_silence_s): f"2.0 s for 1.2: {BACKOFFS}",
}


def recorded_cases() -> list[object]:
    pairs = [(name, read) for name, (*_, reads) in RECORDED.items() for read in reads]
    assert set(OFF) <= set(pairs)
    return [
        pytest.param(*pair, marks=pytest.mark.xfail(strict=True, reason=OFF[pair]) if pair in OFF else ())
        for pair in pairs
    ]


@pytest.mark.parametrize(("name", "read"), recorded_cases())
def test_simulated_runs_match_typical_recorded_values(name: str, read: Read) -> None:
    """The simulation steps at the recorded moments; "_mb" values are scaled by what the follower's disk kept."""
    method, sides, small, _ = RECORDED[name]
    fetch = replace(small or FetchSettings(), round_trip_s=RECORDED_ROUND_TRIP_S)
    runs = recordings.read(name)
    simulated = [phases(method, sides, 50, fetch, run.moments, RECORDED_LINE_BYTES_PER_S) for run in runs]
    kept = kept_ratio(fetch) if read.__name__.endswith("_mb") else 1.0
    assert kept * typical(read, simulated) == near(typical(read, [run.phases() for run in runs]))


# -- drains E1 to E6 -----------------------------------------------------------------------------------------------------

EXACT = TopicLists("t", leader="0:1,0:2")
EVERY = TopicLists("t", leader="*")
DESTINATION = TopicLists("t", follower="0:3")


def leader(mb_per_s: float) -> list[InitialRate]:
    return [InitialRate(1, L, round(mb_per_s * 1e6))]


def follower(mb_per_s: float) -> list[InitialRate]:
    return [InitialRate(3, F, round(mb_per_s * 1e6))]


@TICKS_MS
def test_e1_quota_between_bytes_in_and_w_never_ends(tick_ms: int) -> None:
    run = catching(lists=EXACT, rates=leader(4.5), tick_ms=tick_ms)
    assert run.done_s is None
    assert run.drain_mb_per_s(15, cycles=4) == near(1.6)
    assert run.lag_mb[4] == near(93.0)
    assert run.lag_mb[44] == near(159.0)
    assert run.byte_rate_mb_per_s[20:40].mean() == near(4.6)


@TICKS_MS
def test_e2_quota_above_w_drains(tick_ms: int) -> None:
    run = catching(lists=EXACT, rates=leader(7.0), lag_mb=157.0, tick_ms=tick_ms)
    assert run.lag_mb[4] == near(125.0)
    assert run.drain_mb_per_s(4, cycles=2) == near(-1.3)


@TICKS_MS
def test_e3_quota_of_twice_w_ends_in_seconds(tick_ms: int) -> None:
    run = catching(lists=EXACT, rates=leader(12.0), lag_mb=110.0, tick_ms=tick_ms)
    assert run.done_s == near(12.5)


@TICKS_MS
def test_e4_wildcard_counts_replicas_that_do_not_move(tick_ms: int) -> None:
    run = catching(lists=EVERY, rates=leader(7.5), partitions=2, tick_ms=tick_ms)
    assert run.done_s is None
    assert run.drain_mb_per_s(4, cycles=4) == near(1.6)


@TICKS_MS
def test_e4b_exact_list_ends_at_the_same_quota(tick_ms: int) -> None:
    """The lag starts at 144 MB, so that 119 MB remain once the window is full; measured writes were 2 to 3 MB/s."""
    run = catching(lists=EXACT, rates=leader(7.5), partitions=2, write_mb_per_s=2.5, lag_mb=144.0, tick_ms=tick_ms)
    assert run.done_s == near(41.0)


@TICKS_MS
def test_e5_follower_quota_below_w_never_ends(tick_ms: int) -> None:
    run = catching(lists=DESTINATION, rates=follower(2.0), tick_ms=tick_ms)
    assert run.done_s is None
    assert run.drain_mb_per_s(4, cycles=4) == near(1.2)


@TICKS_MS
def test_e6_follower_quota_needs_only_w_of_moving_replicas(tick_ms: int) -> None:
    run = catching(lists=DESTINATION, rates=follower(5.0), lag_mb=200.0, tick_ms=tick_ms)
    assert run.drain_mb_per_s(4, cycles=4) == near(-1.5)
