"""The p90 of the topic-create latency from single probe responses."""

from __future__ import annotations

import random

import pytest

from tuner.control.mutation_quota.probe_window import (
    COUNT_MIN,
    WINDOW_S,
    ProbeRequest,
    ProbeWindow,
    with_implied_requests,
)

EVERY_S = 0.2


def window(*asked: ProbeRequest) -> ProbeWindow:
    made = ProbeWindow()
    for one in asked:
        made.add(one, EVERY_S)
    return made


def steady(count: int, took_s: float = 0.01, brokers: int = 3) -> list[ProbeRequest]:
    return [ProbeRequest(n * EVERY_S, took_s, n % brokers) for n in range(count)]


def test_probe_p90_exceeds_nine_of_ten_answers() -> None:
    took_s = [n / 1000 for n in range(1, 101)]
    random.Random(1).shuffle(took_s)
    asked = [ProbeRequest(n * EVERY_S, took, 1) for n, took in enumerate(took_s)]
    assert window(*asked).p90_s(20.0) == 0.09


def test_probe_window_with_few_answers_has_no_percentile() -> None:
    assert window(*steady(COUNT_MIN - 1)).p90_s(8.0) is None
    assert window(*steady(COUNT_MIN)).p90_s(8.0) == 0.01


def test_probe_window_forgets_answers_older_than_its_span() -> None:
    made = window(*steady(100, 0.1), *[ProbeRequest(30.0 + n * EVERY_S, 0.01, 0) for n in range(100)])
    assert made.p90_s(47.0) == 0.1
    assert made.p90_s(50.0) == 0.01
    assert made.p90_s(50.0 + WINDOW_S) is None


def test_waiting_request_counts_from_its_own_start() -> None:
    missed = with_implied_requests(ProbeRequest(10.0, 1.0, 1), EVERY_S)
    assert [(one.at_s, one.took_s) for one in missed] == [
        (pytest.approx(10.0 + n * EVERY_S), pytest.approx(1.0 - n * EVERY_S)) for n in range(5)
    ]
    assert with_implied_requests(ProbeRequest(10.0, 0.19, 1), EVERY_S) == [ProbeRequest(10.0, 0.19, 1)]


def test_stall_is_measured_at_any_broker() -> None:
    """One answer of a hundred was late, but for a sixth of the time no request was answered."""
    found = window(*steady(100), ProbeRequest(20.0, 4.0, 1)).p90_s(24.0)
    assert found is not None
    assert found > 1.5


def test_slow_broker_does_not_count_as_slow_controller() -> None:
    slow = [ProbeRequest(one.at_s, 0.2 if one.broker == 2 else one.took_s, one.broker) for one in steady(100)]
    assert window(*slow).p90_s(20.0) == 0.01
    two = [ProbeRequest(one.at_s, 0.2 if one.broker else one.took_s, one.broker) for one in steady(100)]
    assert window(*two).p90_s(20.0) == 0.2


def test_one_silent_broker_is_ignored_but_a_majority_counts() -> None:
    """From the tenth second on, each asked once in half a minute."""
    asked = [one for one in steady(200) if one.broker != 2 or one.at_s < 10]
    assert window(*asked, ProbeRequest(20.0, 5.0, 2)).p90_s(40.0) == 0.01
    asked = [one for one in steady(200) if one.broker == 0 or one.at_s < 10]
    found = window(*asked, ProbeRequest(20.0, 5.0, 2), ProbeRequest(25.0, 5.0, 1)).p90_s(40.0)
    assert found is not None
    assert found > 3.0


def test_quicker_of_two_brokers_represents_the_controller() -> None:
    asked = [ProbeRequest(one.at_s, 0.2 if one.broker else one.took_s, one.broker) for one in steady(100, brokers=2)]
    assert window(*asked).p90_s(20.0) == 0.01


def test_single_broker_represents_the_controller() -> None:
    found = window(*steady(100, brokers=1), ProbeRequest(25.0, 5.0, 0)).p90_s(30.0)
    assert found is not None
    assert found > 1.0
