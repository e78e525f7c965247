"""The stall detector on traces of healthy and of stalled moves under Kafka's quota."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuner_cases import NOW_MS, STALL, traced

from streaming.shared.contract import MoveStep
from tuner.control.throttle.diagnosis.stall_detector import expected_drain_bytes_per_s, judge_steps
from tuner.control.throttle.state import StallState
from tuner.core.throttle_limits import MB

FRESH_START = StallState()


def stalls_after_s(steps: list[MoveStep], expected: float, state: StallState = FRESH_START) -> float | None:
    """Seconds from the start of the trace to the first word "stalled"; None: it is never said."""
    for step in steps:
        state = judge_steps(state, [step], expected, STALL)
        if state.stalled:
            return (step.at_ms - NOW_MS) / 1000
    return None


def worst_lost_s(steps: list[MoveStep], expected: float) -> float:
    state, worst = FRESH_START, 0.0
    for step in steps:
        state = judge_steps(state, [step], expected, STALL)
        worst = max(worst, state.lost_s)
    return worst


def limit_cycle(
    mean_bytes_per_s: float,
    seconds: float,
    dt_s: float,
    phase_s: float = 0.0,
    period_s: float = 11.0,
    clump_s: float = 2.0,
) -> list[float]:
    """The quota's own rhythm: nothing for ``period_s - clump_s``, then everything; as rates of steps of ``dt_s``."""
    fine_s = 0.1
    cumulative = [0.0]
    for i in range(round(seconds / fine_s)):
        in_clump = (i * fine_s + phase_s) % period_s >= period_s - clump_s
        cumulative.append(cumulative[-1] + (mean_bytes_per_s * period_s / clump_s * fine_s if in_clump else 0.0))
    stride = round(dt_s / fine_s)
    at_steps = cumulative[::stride]
    return [(after - before) / dt_s for before, after in itertools.pairwise(at_steps)]


# -- what the throttles allow ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("follower", "leaders", "expected"),
    [
        (14 * MB, [20 * MB], 14 * MB),  # The tighter side decides …
        (14 * MB, [4 * MB], 4 * MB),  # … whichever it is.
        (14 * MB, [4 * MB, 5 * MB], 9 * MB),  # Leaders add up.
        (None, [4 * MB, 5 * MB], 9 * MB),
        (14 * MB, [4 * MB, None], 14 * MB),  # One leader without a throttle lets everything through.
        (None, [4 * MB, None], 1 * MB),
        (None, [], 1 * MB),  # No throttle at all: the least that counts as progress.
        (None, [None], 1 * MB),
        (-1.5 * MB, [20 * MB], 1 * MB),  # A hopeless throttle is still expected to progress, so that it is seen.
        (14 * MB, [-1.5 * MB], 1 * MB),
        (0.2 * MB, [], 1 * MB),
    ],
)
def test_expected_drain_is_smaller_surplus_of_both_sides(
    follower: float | None, leaders: list[float | None], expected: float
) -> None:
    assert expected_drain_bytes_per_s(follower, leaders, STALL) == expected


# -- well --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dt_s", [1.0, 2.0, 5.0, 10.0])
@pytest.mark.parametrize("phase_s", [0.0, 2.5, 5.0, 8.0, 10.0])
def test_healthy_move_in_bursts_never_stalls(dt_s: float, phase_s: float) -> None:
    """q = 20, W = 6 (3 written, one in-sync follower): the adding replica gains 17 a second, in clumps."""
    steps = traced(
        limit_cycle(17 * MB, 300, dt_s, phase_s), write_bytes_per_s=3 * MB, dt_s=dt_s, remaining_bytes=20_000 * MB
    )
    assert stalls_after_s(steps, expected=14 * MB) is None
    # One pause and the next burst nearly fit into a window, so hardly a second of each rhythm is lost.
    assert worst_lost_s(steps, expected=14 * MB) <= 10.0


@pytest.mark.parametrize("share", [0.5, 0.75, 1.0, 2.0])
def test_half_the_expected_drain_or_more_never_stalls(share: float) -> None:
    steps = traced([share * 14 * MB] * 200, remaining_bytes=20_000 * MB)
    assert stalls_after_s(steps, expected=14 * MB) is None


@pytest.mark.parametrize("dt_s", [1.0, 5.0, 10.0])
@pytest.mark.parametrize("begins_s", [100, 101, 103, 104, 106, 108])
@pytest.mark.parametrize("write_bytes_per_s", [0.0, 3 * MB, 20 * MB])
def test_pause_loses_its_own_length_at_most(dt_s: float, begins_s: int, write_bytes_per_s: float) -> None:
    """However the samples cut a pause of 12 s, and however much is written meanwhile."""
    rates = [0.0 if begins_s <= second < begins_s + 12 else 14 * MB + write_bytes_per_s for second in range(200)]
    stride = round(dt_s)
    gains = [sum(rates[i : i + stride]) / stride for i in range(0, 200, stride)]
    steps = traced(gains, dt_s=dt_s, write_bytes_per_s=write_bytes_per_s, remaining_bytes=90_000 * MB)
    assert stalls_after_s(steps, expected=14 * MB) is None
    assert worst_lost_s(steps, expected=14 * MB) <= 12.0 + 1e-6


@pytest.mark.parametrize("dt_s", [1.0])
def test_slowly_draining_move_never_stalls(dt_s: float) -> None:
    """E2 of the lab's notes: q = 7, W = 6, drains 1 MB/s, in clumps of 44 MB every 11 to 12 s."""
    steps = traced(
        limit_cycle(4 * MB, 300, dt_s, period_s=12.0, clump_s=1.0),
        write_bytes_per_s=3 * MB,
        dt_s=dt_s,
        remaining_bytes=2_000 * MB,
    )
    assert stalls_after_s(steps, expected=1 * MB) is None


# -- not well ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dt_s", "within_s"), [(1.0, 19.5), (2.5, 20.0), (5.0, 20.0), (10.0, 20.0)])
def test_move_that_stops_stalls_within_twenty_seconds(dt_s: float, within_s: float) -> None:
    steps = traced([14 * MB] * round(60 / dt_s) + [0.0] * round(60 / dt_s), dt_s=dt_s, remaining_bytes=9_000 * MB)
    at_s = stalls_after_s(steps, expected=14 * MB)
    assert at_s is not None
    assert 60.0 + STALL.stalled_lost_s <= at_s <= 60.0 + within_s


@pytest.mark.parametrize("dt_s", [1.0, 2.5, 5.0])
@pytest.mark.parametrize("phase_s", [0.0, 4.0, 9.0])
def test_throttle_below_steady_state_stalls_within_thirty_seconds(dt_s: float, phase_s: float) -> None:
    """E1: q = 4.5, W = 6. 17 MB pass every 11.5 s while 3 MB/s are written: it grows by 1.5 a second, for ever."""
    gains = limit_cycle(1.5 * MB, 60, dt_s, phase_s, period_s=11.5, clump_s=0.5)
    steps = traced(gains, write_bytes_per_s=3 * MB, dt_s=dt_s, remaining_bytes=93 * MB)
    at_s = stalls_after_s(steps, expected=1 * MB)
    assert at_s is not None
    assert at_s <= 30.0


@pytest.mark.parametrize(
    ("gained", "written", "within_s"),
    [
        (0.25 * 14 * MB, 0.0, 30.0),  # A quarter of the pace: each second loses 0.75 s.
        (0.49 * 14 * MB, 0.0, 40.0),  # Just below half.
        (0.25 * 14 * MB + 14 * MB, 14 * MB, 50.0),  # With as many writes, 0.375 s of the bytes allowed are missing.
        (0.0, 0.3 * 14 * MB, 20.0),  # Growing.
        (0.0, 10 * 14 * MB, 20.0),  # However much is written, a second counts as one.
    ],
)
def test_slow_or_growing_move_stalls_in_time(gained: float, written: float, within_s: float) -> None:
    steps = traced([gained] * 60, write_bytes_per_s=written, remaining_bytes=50_000 * MB)
    at_s = stalls_after_s(steps, expected=14 * MB)
    assert at_s is not None
    assert at_s <= within_s


def test_one_burst_recovers_at_most_its_duration() -> None:
    state = StallState(lost_s=14.5, stalled=True, stalled_since_ms=NOW_MS)
    after = judge_steps(state, traced([800 * MB], dt_s=10.0, remaining_bytes=9_000 * MB), 14 * MB, STALL)
    assert after.lost_s == pytest.approx(4.5)
    assert after.stalled


def test_nothing_is_lost_before_a_whole_window() -> None:
    second = traced([0.0] * 9, dt_s=1.0)
    state = judge_steps(FRESH_START, second[:8], 14 * MB, STALL)
    assert (state.lost_s, len(state.window), state.observed_s) == (0.0, 8, 8.0)
    state = judge_steps(state, second, 14 * MB, STALL)
    assert (state.lost_s, len(state.window), state.observed_s) == (1.0, 9, 9.0)


@pytest.mark.parametrize(("dt_s", "kept"), [(1.0, 9), (4.5, 2), (5.0, 2), (5.5, 2), (9.0, 1), (10.0, 1)])
def test_window_has_fewest_steps_that_span_it(dt_s: float, kept: int) -> None:
    """Two scrapes 5 s apart or one after 10 s are a window, also when they come a tenth early."""
    state = judge_steps(FRESH_START, traced([0.0] * 20, dt_s=dt_s), 14 * MB, STALL)
    assert len(state.window) == kept


def test_silent_step_and_following_burst_are_judged_together() -> None:
    steps = traced([0.0, 28 * MB] * 30, write_bytes_per_s=2 * MB, remaining_bytes=90_000 * MB)
    assert worst_lost_s(steps, expected=12 * MB) == 0.0


def test_burst_of_a_hopeless_throttle_wins_nothing_back() -> None:
    """A burst every 10 s brings less than was written: the burst itself loses nothing, and every silence does."""
    steps = traced([0.0, 8 * MB] * 10, write_bytes_per_s=5 * MB, remaining_bytes=90_000 * MB)
    at_s = stalls_after_s(steps, expected=1 * MB)
    assert at_s == 35.0  # The silent steps from 15 s on.


def test_write_burst_costs_at_most_its_duration() -> None:
    steps = traced([0.0], dt_s=10.0, write_bytes_per_s=1_000 * MB, remaining_bytes=9_000 * MB)
    assert judge_steps(FRESH_START, steps, 14 * MB, STALL).lost_s == pytest.approx(10.0)


def test_stall_ends_when_all_lost_time_is_recovered() -> None:
    """14.5 s lost; from half of the expected drain on, each second is won back."""
    state = StallState(lost_s=14.5, stalled=True, stalled_since_ms=NOW_MS, judged_until_ms=NOW_MS)
    steps = traced([8 * MB] * 8, remaining_bytes=9_000 * MB)
    almost = judge_steps(state, steps[:3], 14 * MB, STALL)
    assert almost.stalled
    assert almost.lost_s == pytest.approx(4.5)  # The first step alone is no window.
    assert almost.stalled_since_ms == NOW_MS
    well = judge_steps(state, steps[:4], 14 * MB, STALL)
    assert (well.stalled, well.stalled_since_ms, well.lost_s) == (False, None, 0.0)


def test_stall_time_is_that_of_the_deciding_step() -> None:
    state = judge_steps(FRESH_START, traced([0.0] * 20), 14 * MB, STALL)
    assert state.stalled_since_ms == NOW_MS + 20_000  # The first step alone is no window, and three more lose 15 s.
    assert state.lost_s == STALL.stalled_lost_s  # More is not counted.


@pytest.mark.parametrize("stood_steps", [10, 1000])
def test_recovery_time_does_not_depend_on_stall_length(stood_steps: int) -> None:
    state = judge_steps(FRESH_START, traced([0.0] * stood_steps), 14 * MB, STALL)
    at_ms = NOW_MS + stood_steps * 5000
    again = traced([14 * MB] * 20, start_ms=at_ms, remaining_bytes=4_000 * MB)
    stalled = [judge_steps(state, again[: n + 1], 14 * MB, STALL).stalled for n in range(20)]
    assert stalled.index(False) + 1 == 3


# -- the data's own troubles -------------------------------------------------------------------------------------------


def test_state_without_steps_is_unchanged() -> None:
    state = StallState(lost_s=7.0, judged_until_ms=NOW_MS, observed_s=20.0)
    assert judge_steps(state, [], 14 * MB, STALL) == state


def test_repeated_step_is_judged_once() -> None:
    steps = traced([0.0] * 4)
    once = judge_steps(FRESH_START, steps, 14 * MB, STALL)
    assert judge_steps(once, steps, 14 * MB, STALL) == once
    assert once.lost_s == pytest.approx(14.5)


def test_overlapping_windows_count_every_step_once() -> None:
    steps = traced([0.0] * 12)
    state = FRESH_START
    for newest in range(1, 13):
        state = judge_steps(state, steps[max(0, newest - 6) : newest], 14 * MB, STALL)
    assert state == judge_steps(FRESH_START, steps, 14 * MB, STALL)


@pytest.mark.parametrize("seed", range(5))
def test_order_of_steps_within_signal_does_not_matter(seed: int) -> None:
    steps = traced([0.0, 30 * MB, 0.0, 0.0, 2 * MB, 14 * MB, 0.0])
    shuffled = random.Random(seed).sample(steps, k=len(steps))
    assert judge_steps(FRESH_START, shuffled, 14 * MB, STALL) == judge_steps(FRESH_START, steps, 14 * MB, STALL)


def test_step_older_than_last_judged_is_ignored() -> None:
    steps = traced([14 * MB, 0.0])
    newer = judge_steps(FRESH_START, steps[1:], 14 * MB, STALL)
    assert judge_steps(newer, steps[:1], 14 * MB, STALL) == newer


@pytest.mark.parametrize(("dt_s", "lost_s", "observed_s"), [(45.0, 14.5, 45.0), (45.001, 0.0, 0.0), (600.0, 0.0, 0.0)])
def test_gap_between_steps_is_not_lost_time(dt_s: float, lost_s: float, observed_s: float) -> None:
    state = judge_steps(FRESH_START, traced([0.0], dt_s=dt_s), 14 * MB, STALL)
    assert (state.lost_s, state.observed_s) == (pytest.approx(lost_s), pytest.approx(observed_s))
    assert state.judged_until_ms == NOW_MS + round(dt_s * 1000)


def test_gap_keeps_earlier_lost_time() -> None:
    before = judge_steps(FRESH_START, traced([0.0] * 3), 14 * MB, STALL)
    gap = traced([0.0], dt_s=120.0, start_ms=NOW_MS + 20_000)
    after = judge_steps(before, gap, 14 * MB, STALL)
    assert (after.lost_s, after.window) == (before.lost_s, ())  # A window does not span a gap.


@pytest.mark.parametrize("dt_s", [0.0, -5.0])
def test_step_without_duration_is_ignored(dt_s: float) -> None:
    step = MoveStep(NOW_MS + 1, dt_s, 0.0, 5 * MB, 900 * MB)
    assert judge_steps(FRESH_START, [step], 14 * MB, STALL) == FRESH_START


def test_new_partitions_cause_no_lost_time() -> None:
    """A batch joins: what remains jumps, what is gained goes on."""
    steady = traced([14 * MB] * 6, remaining_bytes=400 * MB)
    joined = [
        MoveStep(s.at_ms, s.dt_s, s.gained_bytes, s.written_bytes, s.remaining_bytes + 50_000 * MB) for s in steady
    ]
    assert judge_steps(FRESH_START, joined, 14 * MB, STALL).lost_s == 0.0


@pytest.mark.parametrize(
    ("remaining", "written_per_s", "lost_s"),
    [
        (1 * MB, 0.0, 0.0),  # The last megabyte.
        (1.01 * MB, 0.0, 10.0),
        (6 * MB, 3 * MB, 0.0),  # Two seconds of writes: it is as close as it can be.
        (6.1 * MB, 3 * MB, 10.0),
        (0.0, 0.0, 0.0),
    ],
)
def test_nearly_finished_move_loses_no_time(remaining: float, written_per_s: float, lost_s: float) -> None:
    step = MoveStep(NOW_MS + 10_000, 10.0, 0.0, written_per_s * 10.0, remaining)
    assert judge_steps(FRESH_START, [step], 14 * MB, STALL).lost_s == pytest.approx(lost_s)


def test_observed_seconds_are_counted() -> None:
    assert judge_steps(FRESH_START, traced([14 * MB] * 5), 14 * MB, STALL).observed_s == pytest.approx(25.0)


@given(
    st.lists(st.floats(0, 500, allow_nan=False), max_size=40),
    st.floats(0, 100),
    st.sampled_from([1.0, 5.0, 10.0]),
    st.floats(1, 100),
)
def test_stalled_state_always_has_start_time_and_lost_time(
    gains: list[float], written: float, dt_s: float, expected: float
) -> None:
    state = FRESH_START
    for step in traced([g * MB for g in gains], write_bytes_per_s=written * MB, dt_s=dt_s, remaining_bytes=9_999 * MB):
        before, state = state, judge_steps(state, [step], expected * MB, STALL)
        assert state.lost_s >= 0.0
        assert state.stalled == (state.stalled_since_ms is not None)
        assert not state.stalled or state.lost_s > 0.0
        assert state.lost_s <= min(STALL.stalled_lost_s, before.lost_s + dt_s)
