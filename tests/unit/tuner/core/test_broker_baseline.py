"""The baseline of a broker: measured by this tuner, else learned; over the hours it follows the learned shape of the day."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.shared.contract import BrokerProfile, LearnedCapacity, Side
from tuner.core.broker_baseline import BrokerBaseline, baseline_now

HOUR_MS = 3_600_000
START_MS = 1_000 * HOUR_MS
SHAPE = (10.0, 10.0, 20.0, 40.0, None, 0.0)


def profile(
    made_ms: int = START_MS,
    shape: tuple[float | None, ...] = SHAPE,
    history_s: float = 86_400.0,
    start_ms: int = START_MS,
) -> BrokerProfile:
    return BrokerProfile(
        "c", 1, made_ms, start_ms, history_s, quiet_p99_ms=shape, capacity_in=LearnedCapacity(5e6, START_MS)
    )


def test_without_a_profile_the_measured_baseline_counts() -> None:
    assert baseline_now(BrokerBaseline(12.34), START_MS, None, START_MS) == BrokerBaseline(12.4)
    assert baseline_now(BrokerBaseline(43.3), START_MS, None, START_MS) == BrokerBaseline(43.5)
    assert baseline_now(BrokerBaseline(0.0768), START_MS, None, START_MS) == BrokerBaseline(0.077)
    assert baseline_now(BrokerBaseline(), 0, None, START_MS) == BrokerBaseline()


def test_new_tuner_takes_the_learned_baseline_of_the_hour() -> None:
    found = baseline_now(BrokerBaseline(), 0, profile(), START_MS + 2 * HOUR_MS + 1)
    assert (found.p99_ms, found.is_learned) == (20.0, True)
    assert found.carried_bytes_per_s(Side.FOLLOWER) == 5e6
    assert found.carried_bytes_per_s(Side.LEADER) is None


def test_measured_baseline_follows_the_shape_of_the_day() -> None:
    """The move began in a quiet hour: later its clients wait longer, and not because of the move."""
    found = baseline_now(BrokerBaseline(16.0, 4.0), START_MS, profile(), START_MS + 2 * HOUR_MS)
    assert (found.p99_ms, found.mean_ms, found.is_learned) == (32.0, 8.0, False)
    assert baseline_now(BrokerBaseline(16.0, 4.0), START_MS, profile(), START_MS + 3 * HOUR_MS).p99_ms == 48.0, (
        "at most three times as much"
    )


def test_shape_of_the_day_counts_although_the_profile_is_renewed_every_hour() -> None:
    """20 ms by day, 5 ms by night: a move that began at night has the objective of the day at noon."""
    week = tuple(20.0 if 8 <= hour % 24 < 20 else 5.0 for hour in range(192))
    midnight_ms = 24 * 700 * HOUR_MS
    for hours in range(3, 40):
        now_ms = midnight_ms + hours * HOUR_MS
        renewed = profile(now_ms, week[hours % 24 :] + week[: hours % 24], start_ms=now_ms)
        found = baseline_now(BrokerBaseline(6.0), midnight_ms + 2 * HOUR_MS, renewed, now_ms)
        assert found.p99_ms == (18.0 if 8 <= hours % 24 < 20 else 6.0), hours


def test_profile_of_minutes_of_history_is_not_used() -> None:
    assert baseline_now(BrokerBaseline(), 0, profile(history_s=600.0), START_MS) == BrokerBaseline()


def test_what_a_link_has_carried_counts_less_after_weeks() -> None:
    weeks_ms = 14 * 24 * HOUR_MS
    carried = [
        baseline_now(BrokerBaseline(), 0, profile(START_MS + age_ms), START_MS + age_ms).carried_in_bytes_per_s
        for age_ms in (0, weeks_ms, 2 * weeks_ms)
    ]
    assert carried == [5e6, 5e6, 2.5e6]


@pytest.mark.parametrize("hours", [4, 5, 6, 9_000])
def test_hour_without_a_learned_value_keeps_the_measured_one(hours: int) -> None:
    now_ms = START_MS + hours * HOUR_MS
    assert baseline_now(BrokerBaseline(16.0, 4.0), START_MS, profile(made_ms=now_ms), now_ms).p99_ms == 16.0
    assert baseline_now(BrokerBaseline(), 0, profile(made_ms=now_ms), now_ms).p99_ms is None


@pytest.mark.parametrize("made_ms", [START_MS - 4 * HOUR_MS, START_MS + HOUR_MS])
def test_profile_that_is_hours_old_or_from_the_future_is_not_used(made_ms: int) -> None:
    assert baseline_now(BrokerBaseline(), 0, profile(made_ms), START_MS) == BrokerBaseline()


numbers = st.one_of(
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e24, max_value=1e24),
    st.floats(0.0, 1e-300, allow_subnormal=True),
)


@given(st.lists(numbers, max_size=6), numbers, st.integers(-(10**9), 10**9), numbers)
def test_any_profile_gives_a_finite_positive_baseline(
    shape: list[float | None], measured_ms: float | None, offset_ms: int, capacity: float | None
) -> None:
    learned = LearnedCapacity(capacity, START_MS) if capacity is not None else None
    found = baseline_now(
        BrokerBaseline(measured_ms),
        START_MS + offset_ms,
        BrokerProfile("c", 1, START_MS, START_MS, 1e5, quiet_p99_ms=tuple(shape), capacity_in=learned),
        START_MS,
    )
    assert found.p99_ms is None or (math.isfinite(found.p99_ms) and found.p99_ms > 0.0)
    carried = found.carried_bytes_per_s(Side.FOLLOWER)
    assert carried is None or carried > 0.0
