"""The start of a plan: times that need no forecast, and a forecast that agrees with the estimated time."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from rheostat.errors import BadInputError
from rheostat.profiles import select_usable
from rheostat.reassign.constraints import PlanConstraints
from rheostat.reassign.planned_start import _highest_rate, _time_ratio, check_best_start, parse_planned_start
from rheostat.start_report import answer_start, brokers_of, copy_limits
from rheostat.start_times import RequestedStart
from streaming.shared.contract import BrokerProfile, LoadForecast
from tuner.core.reassignment_plan import PlanThrottle
from tuner.core.side_load import PlannedPartition, side_loads
from tuner.settings.tuner import TunerSettings

MB = 1e6
NOW_MS = 1_764_000_000_000
PARTITIONS = [PlannedPartition("t", p, 1, frozenset({1, 2}), MB, {3: 10e9, 4: 10e9}) for p in range(3)]
SETTINGS = TunerSettings(rate_bytes_per_s_max=50 * MB)


def test_start_is_parsed_only_if_given() -> None:
    assert parse_planned_start(None, unthrottled=True) is None
    assert parse_planned_start("best", unthrottled=False) == RequestedStart(None)
    asked = parse_planned_start("now", unthrottled=True)
    assert asked is not None
    assert asked.at_ms == pytest.approx(1000 * time.time(), abs=60_000)
    with pytest.raises(BadInputError, match="--at best and --unthrottled"):
        parse_planned_start("best", unthrottled=True)


NO_LINK_SPEED: dict[int, float] = {}


@pytest.mark.parametrize("leader_ratio", [0.5, 0.92, 1.0])
@pytest.mark.parametrize("expected_s", [600.0, 7_200.0])
def test_forecast_of_a_constant_load_takes_the_estimated_time(leader_ratio: float, expected_s: float) -> None:
    """One partition at a time may take much longer than the slowest side."""
    usable = select_usable({}, (), NOW_MS)
    report = answer_start(
        PARTITIONS,
        usable,
        copy_limits(
            SETTINGS, lambda _: 50 * MB, PARTITIONS, usable, NO_LINK_SPEED.get, NOW_MS, leader_ratio=leader_ratio
        ),
        RequestedStart(NOW_MS),
        NOW_MS,
        has_objective=True,
        time_ratio=_time_ratio(side_loads(PARTITIONS), 50 * MB, leader_ratio, expected_s),
    )
    assert report.chosen.duration_s == pytest.approx(expected_s, rel=1e-6)


def test_throttle_of_a_plan_follows_the_schedule() -> None:
    rule = {"name": "night", "cron": "0 22 * * *", "duration_s": "6h", "rate_bytes_per_s_max": 80 * MB}
    scheduled = TunerSettings.model_validate({"rate_bytes_per_s_max": 50 * MB, "schedule": [rule]})
    night = scheduled.model_copy(update={"rate_bytes_per_s_max": 80 * MB})
    for throttle, file, expected in (
        (None, SETTINGS, 30), (None, scheduled, 50), (None, night, 80), (60 * MB, night, 60), (60 * MB, scheduled, 50),
        (20 * MB, SETTINGS, 20),
    ):  # fmt: skip
        constraints = PlanConstraints("the tuner", 30 * MB, throttle=PlanThrottle(throttle))
        assert _highest_rate(file, constraints) == expected * MB


def best_start(settings: TunerSettings, profiles: dict[int, BrokerProfile], partitions: list[PlannedPartition]) -> str:
    """Returns why the best start is refused; empty if it is not."""
    usable = select_usable(profiles, brokers_of(partitions), NOW_MS)
    limits = copy_limits(
        settings, lambda period: period.rate_bytes_per_s_max, partitions, usable, NO_LINK_SPEED.get, NOW_MS
    )
    report = answer_start(partitions, usable, limits, RequestedStart(None), NOW_MS, has_objective=True)
    try:
        check_best_start(report)
    except BadInputError as error:
        return str(error)
    return ""


def test_best_start_without_profile_or_schedule_is_refused() -> None:
    rule = {"name": "night", "cron": "0 22 * * *", "duration_s": "6h", "rate_bytes_per_s_max": 80 * MB}
    night = TunerSettings.model_validate({"rate_bytes_per_s_max": 50 * MB, "schedule": [rule]})
    load = LoadForecast(bytes_per_s=(MB,) * 24)
    profile = BrokerProfile("test", 1, NOW_MS, NOW_MS, 1e6, client_in=load, client_out=load)
    refused = best_start(SETTINGS, {}, PARTITIONS)
    assert refused.startswith("--at best: no broker of the plan has a usable profile")
    assert "--at 22:00" in refused
    assert best_start(SETTINGS, {1: replace(profile, made_at_ms=NOW_MS - 86_400_000)}, PARTITIONS) == refused, "too old"
    assert best_start(SETTINGS, {1: profile}, PARTITIONS) == ""
    assert best_start(night, {}, PARTITIONS) == ""


def test_best_start_of_a_move_without_an_end_is_refused() -> None:
    busy = [replace(partition, write_bytes_per_s=60 * MB) for partition in PARTITIONS]
    refused = best_start(SETTINGS, {}, busy)
    assert refused.startswith("--at best: no start within the next day lets the move end within 7 d")


def test_time_ratio_without_an_estimate_is_1() -> None:
    loads = side_loads(PARTITIONS)
    assert _time_ratio(loads, 50 * MB, 1.0, None) == 1.0
    assert _time_ratio(loads, MB, 1.0, 100.0) == 1.0, "one side never ends"
