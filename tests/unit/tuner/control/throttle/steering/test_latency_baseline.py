"""A baseline follows the p99 of a broker's clients only while the broker copies no replicas."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.shared.contract import BrokerSignal, MoveSignal, Side
from tuner.control.throttle.objective import Objective
from tuner.control.throttle.steering.latency_baseline import LatencyBaseline, quiet_from_ms, update_baseline
from tuner.control.throttle.steering.present_latency import low_latency_ms
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.latency_limit import LatencySource

MB = 1e6
QUIET = BrokerSignal(
    "c", 1, 0, 0, 6, 1.0, produce_p99_ms=10.0, client_in_bytes_per_s=5 * MB, reassignment_in_bytes_per_s=0.0,
    reassignment_out_bytes_per_s=0.0,
)  # fmt: skip


def after(*steps: tuple[float, float | None, float], every_s: float = 5.0) -> LatencyBaseline:
    """Returns the baseline after signals of this many seconds, p99 (ms) and bytes/s of catch-up each."""
    baseline, at_ms, quiet_ms = None, 0, 0
    for seconds, p99_ms, copied in steps:
        for _ in range(round(seconds / every_s)):
            at_ms += round(every_s * 1000)
            signal = replace(QUIET, sampled_at_ms=at_ms, produce_p99_ms=p99_ms, reassignment_in_bytes_per_s=copied)
            quiet_ms = quiet_from_ms(quiet_ms, signal)
            baseline = update_baseline(baseline, signal, quiet_ms)
    assert baseline is not None
    return baseline


def test_baseline_is_known_after_some_seconds_without_copies() -> None:
    assert not after((15.0, 10.0, 0.0)).is_known
    assert after((30.0, 10.0, 0.0)).p99_ms == pytest.approx(10.0)


def test_copies_and_the_minutes_after_them_change_nothing() -> None:
    assert after((300.0, 10.0, 0.0), (600.0, 80.0, 5 * MB), (140.0, 60.0, 0.0)).p99_ms == pytest.approx(10.0)
    assert after((300.0, 10.0, 0.0), (600.0, 80.0, 5 * MB), (1800.0, 12.0, 0.0)).p99_ms > 11.0


def test_copies_between_log_directories_are_copies() -> None:
    assert quiet_from_ms(0, replace(QUIET, log_dir_copied_bytes_per_s=5 * MB)) == 150_000


def test_recovering_partitions_are_copies_although_no_broker_counts_their_bytes() -> None:
    move = MoveSignal("c", 2, Side.FOLLOWER, 60_000, 60_000, 6, 1.0, 3, 0)
    assert quiet_from_ms(0, move) == 210_000
    assert quiet_from_ms(0, replace(move, moving_partitions=0)) == 0


def test_signal_without_the_bytes_of_reassignments_does_not_count() -> None:
    """After a gap a window has one sample, and no rates."""
    assert update_baseline(None, replace(QUIET, sampled_at_ms=5000, reassignment_in_bytes_per_s=None), 0).p99_ms == 0.0


def test_time_far_in_the_future_does_not_stop_the_baseline() -> None:
    wrong = replace(QUIET, sampled_at_ms=86_400_000, reassignment_out_bytes_per_s=1.0)
    right = replace(QUIET, sampled_at_ms=60_000)
    quiet_ms = quiet_from_ms(quiet_from_ms(0, wrong), right)
    baseline = update_baseline(update_baseline(None, wrong, 0), right, quiet_ms)
    assert (quiet_ms, baseline.sampled_at_ms) == (0, 60_000)


def test_one_long_pause_counts_little_and_a_new_level_within_an_hour() -> None:
    assert after((600.0, 10.0, 0.0), (5.0, 900.0, 0.0), (60.0, 10.0, 0.0)).p99_ms == pytest.approx(10.4, rel=0.01)
    assert after((3600.0, 10.0, 0.0), (3600.0, 20.0, 0.0)).p99_ms == pytest.approx(18.2, rel=0.02)


@pytest.mark.parametrize("p99_ms", [None, 0.0, -3.0])
def test_p99_that_says_nothing_is_left_out(p99_ms: float | None) -> None:
    assert after((60.0, 10.0, 0.0), (600.0, p99_ms, 0.0)).p99_ms == pytest.approx(10.0)


def test_hardly_written_broker_has_no_baseline() -> None:
    baseline = update_baseline(None, replace(QUIET, sampled_at_ms=5000, client_in_bytes_per_s=20_000.0), 0)
    assert baseline.p99_ms == 0.0


def test_signal_that_is_not_newer_changes_nothing() -> None:
    baseline = after((60.0, 10.0, 0.0))
    assert update_baseline(baseline, replace(QUIET, sampled_at_ms=60_000, produce_p99_ms=99.0), 0) is baseline
    assert update_baseline(baseline, replace(QUIET, sampled_at_ms=10, produce_p99_ms=99.0), 0) is baseline


@given(st.lists(st.tuples(st.integers(-(10**6), 10**9), st.floats(1e-3, 1e9)), max_size=50))
def test_any_signals_leave_a_baseline_within_what_was_measured(samples: list[tuple[int, float]]) -> None:
    baseline = None
    for at_ms, p99_ms in samples:
        baseline = update_baseline(baseline, replace(QUIET, sampled_at_ms=at_ms, produce_p99_ms=p99_ms), 0)
    if baseline is not None and baseline.p99_ms > 0.0:
        assert math.isfinite(baseline.p99_ms)
        measured = [p99_ms for _, p99_ms in samples]
        assert 0.999 * min(measured) <= baseline.p99_ms <= 1.001 * max(measured)


def test_objective_follows_from_the_baseline_or_from_the_move_or_is_a_number() -> None:
    auto = Objective()
    limit = auto.latency_limit(BrokerBaseline(20.0), 12.0)
    assert limit is not None
    assert (limit.p99_ms_max, limit.source, limit.baseline_ms) == (30.0, LatencySource.BASELINE, 20.0)
    limit = auto.latency_limit(None, 4.0)
    assert limit is not None
    assert (limit.p99_ms_max, limit.source) == (9.0, LatencySource.MOVE), "at least 5 ms more"
    assert auto.latency_limit(None, 0.0) is None
    limit = Objective(50.0).latency_limit(None, 0.0)
    assert limit is not None
    assert (limit.p99_ms_max, limit.source) == (50.0, LatencySource.SETTINGS)
    limit = Objective(tolerance=1.0).latency_limit(BrokerBaseline(20.0), 0.0)
    assert limit is not None
    assert limit.p99_ms_max == 40.0


@pytest.mark.parametrize(("p99_ms", "rise"), [(20.0, 0.0), (12.0, 0.0), (30.0, 1.0), (25.0, 0.5), (50.0, 3.0)])
def test_rise_is_a_share_of_what_is_permitted(p99_ms: float, rise: float) -> None:
    limit = Objective().latency_limit(BrokerBaseline(20.0), 0.0)
    assert limit is not None
    assert limit.rise_ratio(p99_ms) == pytest.approx(rise)


def test_baseline_near_a_fixed_limit_does_not_make_noise_a_rise() -> None:
    limit = Objective(50.0).latency_limit(BrokerBaseline(49.0), 0.0)
    assert limit is not None
    assert limit.rise_ratio(49.0) == pytest.approx(0.94, abs=0.01)


def test_low_p99_leaves_out_what_was_not_measured() -> None:
    assert [low_latency_ms(*pair) for pair in ((0.0, 0.0), (5.0, 0.0), (0.0, 5.0))] == [0.0, 5.0, 5.0]


def test_low_p99_stays_near_the_quiet_seconds_and_is_not_set_by_one_sample() -> None:
    low = 10.0
    for _ in range(24):
        low = low_latency_ms(80.0, low)
    assert low < 17.0, "two minutes of slow clients"
    assert low_latency_ms(0.4, 10.0) > 3.0, "a histogram of few requests"


def test_texts_name_the_limit_and_its_source() -> None:
    texts = [
        limit.text
        for limit in (
            Objective(50.0).latency_limit(None, 0.0),
            Objective().latency_limit(BrokerBaseline(8.0), 0.0),
            Objective().latency_limit(None, 8.0),
            Objective().latency_limit(BrokerBaseline(8.0, is_learned=True), 3.0),
        )
        if limit is not None
    ]
    assert texts == [
        "clients may have a p99 of 50 ms",
        "clients may have a p99 of 13 ms (8 ms without copies)",
        "clients may have a p99 of 13 ms (8 ms at best in this move)",
        "clients may have a p99 of 13 ms (8 ms without copies at this hour, according to the history)",
    ]
