"""The figures of KIP-73's test plan, for invented moves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kip73_kit import CASES, QUOTA, Case, Look, MoveObservations

from tuner.core.throttle_limits import MB

BY_NAME = {case.name: case for case in CASES}


def moved(case: Case, rates: list[float], written: float = 0.0) -> MoveObservations:
    """Observations once a second: the move's bytes/s between them, and writes that reach the copies as well."""
    added, leader = 0.0, 100.0 * MB
    looks = [Look(0.0, 0, round(leader))]
    for second, rate in enumerate(rates, start=1):
        added, leader = added + rate + written, leader + written
        looks.append(Look(float(second), round(added), round(leader)))
    return MoveObservations(case, looks)


def test_cases_match_the_kip73_test_plan() -> None:
    adding = {name: {b: len(own) for b, own in case.adding.items()} for name, case in BY_NAME.items()}
    assert adding["2 nodes"] == {2: 100}
    assert adding["3 nodes, 1 to 2"] == {2: 50, 3: 50}
    assert adding["3 nodes, 2 to 1, writing"] == {3: 100}
    assert all({len(replicas) for replicas in case.of(case.after).values()} == {2} for case in CASES)
    assert set(BY_NAME["3 nodes, 1 to 2"].leaders.values()) == {1}
    assert set(BY_NAME["3 nodes, 2 to 1"].leaders.values()) == {1, 2}


@pytest.mark.parametrize(
    ("name", "room"),
    [("2 nodes, writing", 7 * MB), ("3 nodes, 1 to 2, writing", 6 * MB), ("3 nodes, 2 to 1, writing", 7 * MB)],
)
def test_produce_traffic_is_deducted_per_pass(name: str, room: float) -> None:
    assert moved(BY_NAME[name], [room] * 40, written=1 * MB).steady(5.0) == pytest.approx(1.0)
    assert moved(BY_NAME[name], [0.5 * room] * 40, written=1 * MB).steady(5.0) == pytest.approx(0.5)


def test_highest_12_s_ratio_is_found_at_any_offset() -> None:
    even = moved(BY_NAME["2 nodes"], [QUOTA] * 40)
    assert even.highest_12_s_ratio() == pytest.approx(1.0)
    burst = moved(BY_NAME["2 nodes"], [QUOTA] * 20 + [2.2 * QUOTA] + [QUOTA] * 20)
    assert burst.highest_12_s_ratio() == pytest.approx(1.1)
    assert burst.steady(5.0) < 1.06


def test_twelve_second_pattern_counts_once_at_any_phase() -> None:
    """In every 12 s one second carries four times the quota and three carry nothing; samples fall between the seconds."""
    case = BY_NAME["2 nodes"]
    rhythm = moved(case, ([QUOTA] * 8 + [4 * QUOTA, 0.0, 0.0, 0.0]) * 4)
    seconds = [look.added_bytes for look in rhythm.looks]
    looks, at_s = [], 0.0
    while at_s <= 47.0:
        whole = int(at_s)
        added = seconds[whole] + (at_s - whole) * (seconds[whole + 1] - seconds[whole])
        looks.append(Look(at_s, round(added), 100 * MB))
        at_s += 0.27
    assert MoveObservations(case, looks).highest_12_s_ratio() == pytest.approx(1.0, abs=0.02)


def test_samples_before_override_settles_are_not_steady() -> None:
    assert moved(BY_NAME["2 nodes"], [0.1 * QUOTA] * 20 + [QUOTA] * 30).steady(8.0) == pytest.approx(1.0)


def test_samples_before_all_copies_run_are_not_steady() -> None:
    seen = moved(BY_NAME["2 nodes"], [0.1 * QUOTA] * 20 + [QUOTA] * 30)
    assert seen.steady(2.0) < 0.9
    seen.looks = [replace(look, begun=99 if look.at_s < 8.0 else 100) for look in seen.looks]
    assert seen.steady_from_s(2.0) == 20.0
    assert seen.steady(2.0) == pytest.approx(1.0)
    assert seen.steady_from_s(9.0) == 21.0


def test_move_too_short_to_measure_fails() -> None:
    with pytest.raises(AssertionError, match="too short to tell"):
        moved(BY_NAME["2 nodes"], [QUOTA] * 30).steady(5.0)


def test_broker_rate_is_mean_over_steady_interval() -> None:
    seen = moved(BY_NAME["2 nodes"], [QUOTA] * 40)
    seen.told = [(10.0, 9 * QUOTA), (20.0, 1.0 * QUOTA), (30.0, 1.1 * QUOTA), (45.0, 9 * QUOTA)]
    assert seen.own_byte_rate_ratio(5.0) == pytest.approx(1.05)
