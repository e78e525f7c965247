from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_cases import MONDAY_MS, book_of, daily, history, learn, moving

from learning.models.learner import Learner
from learning.models.periods import HOUR_MS, PeriodBook
from streaming.shared.contract.history import BrokerHistory, HistoryPeriod
from streaming.shared.contract.learned_encoding import decode_profile, encode_profile
from streaming.shared.contract.profiles import STEPS_MAX, BrokerProfile, ChangedMeasure

WEEK_H = 168


def profiles_of(book: PeriodBook) -> dict[int, BrokerProfile]:
    return {profile.broker: profile for profile in learn(book).profiles(book.brokers)}


def test_profile_forecasts_load_latency_and_capacity() -> None:
    hours = 10 * 24
    profile = profiles_of(book_of(history(hours)))[2]
    assert (profile.cluster, profile.start_ms, profile.history_s) == ("c", MONDAY_MS + hours * HOUR_MS, hours * 3600)
    for forecast, factor in (
        (profile.client_in, 1), (profile.client_out, 2), (profile.steady_in, 1), (profile.steady_out, 1),
    ):  # fmt: skip
        assert len(forecast.bytes_per_s) == STEPS_MAX
        expected = [factor * daily(hours + step + 0.5) for step in range(24)]
        assert forecast.bytes_per_s[:24] == pytest.approx(expected, rel=0.1)
        assert all(error is not None and error < 2e6 * factor for error in forecast.error_bytes_per_s)
    assert profile.quiet_p99_ms == pytest.approx([8.0] * STEPS_MAX, rel=0.1)
    assert profile.capacity_in is not None
    assert profile.capacity_in.bytes_per_s == pytest.approx(2.4 * 28e6, rel=0.1)
    assert profile.capacity_out is not None
    assert profile.capacity_out.bytes_per_s == pytest.approx(3.4 * 28e6, rel=0.1)


def test_moves_change_neither_baseline_nor_capacity() -> None:
    def change(broker: BrokerHistory, hour: int) -> BrokerHistory:
        return moving(broker) if 60 <= hour < 90 else broker

    profile = profiles_of(book_of(history(96, change=change)))[1]
    assert max(profile.quiet_p99_ms, key=lambda ms: ms or 0.0) == pytest.approx(8.0, rel=0.15)
    assert profile.capacity_in is not None
    assert profile.capacity_in.bytes_per_s < 100e6, "200 MB/s were seen with clients waiting"


def test_period_after_a_move_is_not_quiet() -> None:
    periods = list(history(2))
    copying = replace(periods[4], brokers=(moving(periods[4].brokers[0]), periods[4].brokers[1]))
    late = replace(periods[5], brokers=tuple(replace(b, produce_p99_ms=500.0) for b in periods[5].brokers))
    book = book_of([*periods[:4], copying, late, *periods[6:]])
    assert profiles_of(book)[2].quiet_p99_ms[0] == pytest.approx(8.0, rel=0.15)


def test_open_hour_gives_a_profile_of_the_first_minutes() -> None:
    book = book_of(list(history(1))[:2])
    learner = Learner("c", MONDAY_MS // HOUR_MS)
    learner.learn(book.periods(learner.next_hour), book.brokers)
    made_at_ms = MONDAY_MS + 1_200_000
    profile = learner.profiles(book.brokers, made_at_ms)[0]
    assert (profile.start_ms, profile.made_at_ms, profile.history_s) == (MONDAY_MS, made_at_ms, 1200)
    assert profile.step_at(made_at_ms) == 0
    assert profile.client_in.bytes_per_s[0] == pytest.approx(daily(0), rel=0.1)
    assert profile.quiet_p99_ms[0] == pytest.approx(8.0, rel=0.2)


def test_restarted_learner_equals_one_that_never_stopped() -> None:
    def change(broker: BrokerHistory, hour: int) -> BrokerHistory:
        return moving(broker) if 100 <= hour < 110 else broker

    periods = list(history(15 * 24, change=change, brokers=(7, 3)))
    book, learner = PeriodBook(), Learner("c", MONDAY_MS // HOUR_MS)
    for period in periods:
        book.add(period)
        learn(book, learner)
    again = book_of(periods)
    restarted = learn(again)
    expected = [encode_profile(profile) for profile in learner.profiles(book.brokers)]
    assert [encode_profile(profile) for profile in restarted.profiles(again.brokers)] == expected
    assert restarted.recent_events() == learner.recent_events()


def test_other_latency_of_one_broker_is_a_change_and_resets_its_capacity() -> None:
    def change(broker: BrokerHistory, hour: int) -> BrokerHistory:
        if broker.broker != 2 or hour < 300:
            return broker
        return replace(broker, produce_p99_ms=40.0, in_max_p99_ms=40.0, in_bytes_per_s_max=30e6)

    book = book_of(history(330, change=change))
    learner = learn(book)
    [event] = [event for event in learner.recent_events() if not event.is_unusual]
    assert (event.measure, event.broker) == (ChangedMeasure.CLIENT_LATENCY, 2)
    assert event.before == pytest.approx(8.0, rel=0.3)
    assert event.after == pytest.approx(40.0, rel=0.3)
    profile = next(p for p in learner.profiles(book.brokers) if p.broker == 2)
    assert profile.capacity_in is not None
    assert profile.capacity_in.bytes_per_s == pytest.approx(30e6)
    assert profile.quiet_p99_ms[0] == pytest.approx(40.0, rel=0.3)


def test_changes_of_lag_and_of_a_tenant_are_events() -> None:
    def change(broker: BrokerHistory, hour: int) -> BrokerHistory:
        lag = (broker.lag_sum_messages or 0.0) * (10 if hour >= 200 and broker.broker == 1 else 1)
        return replace(broker, lag_sum_messages=lag)

    book = book_of(history(240, change=change, tenant_rate=lambda hour: 20.0 if hour >= 200 else 2.0))
    events = {event.measure: event for event in learn(book).recent_events() if not event.is_unusual}
    assert events.keys() == {ChangedMeasure.REPLICATION_LAG, ChangedMeasure.MUTATION_RATE}
    assert events[ChangedMeasure.REPLICATION_LAG].broker == 1
    assert (events[ChangedMeasure.MUTATION_RATE].user, events[ChangedMeasure.MUTATION_RATE].broker) == ("app", None)


def test_broker_without_history_and_broker_that_left() -> None:
    periods = list(history(200))
    new = replace(periods[-1].brokers[0], broker=9)
    periods[-1] = replace(periods[-1], brokers=(*periods[-1].brokers, new))
    gone = [replace(p, brokers=p.brokers[:1]) if i >= 150 else p for i, p in enumerate(periods[:-1])]
    profiles = profiles_of(book_of([*gone, periods[-1]]))
    assert profiles[9].history_s == 600
    assert profiles[9].client_in.bytes_per_s[5] is not None
    assert 2 in profiles, "it was measured in the last minutes"
    assert 2 not in profiles_of(book_of(gone)), "it was not measured for more than a week"


ABSURD = st.sampled_from([None, 0.0, -5.0, 1e-300, 1.0, 49_999.0, 1e6, 1e12, 1e24, -1e24])


@st.composite
def broker_periods(draw: st.DrawFn) -> BrokerHistory:
    fields = [name for name in BrokerHistory.__slots__ if name not in ("broker", "signals")]
    return BrokerHistory(
        broker=draw(st.sampled_from([0, 1, 2**31 - 1])), signals=1, **{name: draw(ABSURD) for name in fields}
    )


@given(st.lists(st.tuples(st.integers(0, 300), st.lists(broker_periods(), max_size=3)), min_size=1, max_size=20))
@settings(max_examples=30, deadline=None)
def test_profiles_of_an_absurd_history_are_valid(drawn: list[tuple[int, list[BrokerHistory]]]) -> None:
    book = book_of(
        HistoryPeriod(cluster="c", start_ms=MONDAY_MS + at * 600_000, brokers=tuple(brokers)) for at, brokers in drawn
    )
    for profile in learn(book).profiles(book.brokers):
        assert decode_profile(encode_profile(profile)) == profile
        series = (profile.client_in, profile.client_out, profile.steady_in, profile.steady_out)
        values = [v for s in series for v in (*s.bytes_per_s, *s.error_bytes_per_s) if v is not None]
        values += [v for v in profile.quiet_p99_ms if v is not None]
        values += [c.bytes_per_s for c in (profile.capacity_in, profile.capacity_out) if c is not None]
        assert all(math.isfinite(value) and 0.0 <= value <= 2e12 for value in values)


HOLES: list[Callable[[int], bool]] = [lambda p: p % 6 == 0, lambda p: 60 <= p < 400, lambda p: p % 144 >= 72]


@pytest.mark.parametrize("is_missing", HOLES)
def test_holes_leave_a_usable_profile(is_missing: Callable[[int], bool]) -> None:
    book = book_of(p for i, p in enumerate(history(WEEK_H)) if not is_missing(i))
    profile = profiles_of(book)[1]
    known = [value for value in profile.client_in.bytes_per_s[:24] if value is not None]
    assert len(known) == 24
    assert all(4e6 < value < 40e6 for value in known)
