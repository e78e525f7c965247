"""The answer to "when should I start": sentences, notes, JSON and drawing; limits from the settings."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from rheostat.plan.estimate.start import throttle_limits
from rheostat.plan.estimate.start_plot import draw_start
from rheostat.plan.estimate.view import show_start
from rheostat.profiles import UsableProfiles, select_usable
from rheostat.reassign.planned_start import PlannedStart
from rheostat.start_report import StartReport, answer_start, brokers_of, copy_limits, describe_start, to_record
from rheostat.start_times import RequestedStart
from streaming.shared.contract import STEP_S, STEPS_MAX, BrokerProfile, LearnedCapacity, LoadForecast, Side
from tuner.core.side_load import PlannedPartition
from tuner.planning.copy_forecast import TOLD_CAPACITY_RATIO, CopyLimits
from tuner.settings.tuner import TunerSettings

MB = 1e6
HOUR_MS = STEP_S * 1000
NOW_MS = 1_764_000_000_000 - 1_764_000_000_000 % (24 * HOUR_MS) + 18 * HOUR_MS  # 18:00 UTC.
PARTITIONS = [PlannedPartition("orders", 0, 1, frozenset({1, 2}), 0.0, {3: 500e9})]
SETTINGS = TunerSettings(rate_bytes_per_s_max=50 * MB)
NO_LINK_SPEED: dict[int, float] = {}
NIGHT = tuple(10 * MB if 5 <= hour % 24 < 13 else 80 * MB for hour in range(STEPS_MAX))
LOAD = LoadForecast(bytes_per_s=NIGHT, error_bytes_per_s=(MB, 2 * MB, 3 * MB, 4 * MB, 5 * MB))
CAPACITY = LearnedCapacity(bytes_per_s=120 * MB, seen_at_ms=NOW_MS)
PROFILE = BrokerProfile(
    cluster="test",
    broker=1,
    made_at_ms=NOW_MS,
    start_ms=NOW_MS,
    history_s=1e6,
    client_in=LOAD,
    client_out=LOAD,
    capacity_in=CAPACITY,
    capacity_out=CAPACITY,
)
BOTH = {1: PROFILE, 3: replace(PROFILE, broker=3)}


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def limits_of(
    settings: TunerSettings, profiles: UsableProfiles, link_speeds: Mapping[int, float] | None = None
) -> CopyLimits:
    speed = (link_speeds or {}).get
    return copy_limits(settings, lambda period: period.rate_bytes_per_s_max, PARTITIONS, profiles, speed, NOW_MS)


def answer(
    profiles: dict[int, BrokerProfile] | None = None,
    settings: TunerSettings = SETTINGS,
    start_ms: int | None = None,
    *,
    asks_best: bool = True,
) -> StartReport:
    usable = select_usable(BOTH if profiles is None else profiles, brokers_of(PARTITIONS), NOW_MS)
    asked = RequestedStart(None if asks_best else start_ms)
    return answer_start(
        PARTITIONS, usable, limits_of(settings, usable), asked, NOW_MS, has_objective=settings.objective is not None
    )


def test_best_start_is_told_with_end_interval_and_bottleneck() -> None:
    lines = describe_start(answer())
    assert lines[0].startswith(
        "The best start is 2025-11-24 22:30+00:00: it takes 2 h 53 min and ends 2025-11-25 01:22+00:00"
    )
    assert lines[1] == (
        "The copies through the leader throttle of broker 1 end last. They are slowest from 2025-11-24 22:30+00:00 on: the "
        "throttle is 40.0 MB/s, the part of the capacity that clients (80.0 MB/s) leave, and steady-state replication takes "
        "0 B/s of this rate."
    )
    assert lines[2].startswith(
        "A start now takes 3 h 28 min; with the current load at all hours it would take 3 h 28 min."
    )
    assert lines[3] == (
        "Each of brokers 1, 3 has a learned capacity: the highest traffic that was measured with usual latency. It may carry "
        "more, and the move then ends earlier."
    )


def test_capacity_from_the_link_is_told() -> None:
    usable = select_usable({}, (1, 3), NOW_MS)
    limits = limits_of(SETTINGS, usable, {1: 125 * MB, 3: 125 * MB})
    report = answer_start(PARTITIONS, usable, limits, RequestedStart(NOW_MS), NOW_MS, has_objective=True)
    assert (
        "Each of brokers 1, 3 has only the speed of its link as capacity, from the metrics of its machine. Its disks may be "
        "slower, and the move then ends later."
    ) in describe_start(report)


def test_start_now_names_the_hour_and_the_clients_that_bind() -> None:
    lines = describe_start(answer(start_ms=NOW_MS, asks_best=False))
    assert lines[0].startswith(
        "The move starts 2025-11-24 18:00+00:00: it takes 3 h 28 min and ends 2025-11-24 21:28+00:00 ("
    )
    assert "the throttle is 40.0 MB/s, the part of the capacity that clients (80.0 MB/s) leave" in lines[1]
    assert "The best start within a day is 2025-11-24 22:30+00:00: it takes 2 h 53 min." in lines


def test_time_that_has_passed_meanwhile_is_now() -> None:
    assert answer(start_ms=NOW_MS - 5_000, asks_best=False).chosen.start_ms == NOW_MS


def test_without_profiles_the_present_load_stays_and_is_told() -> None:
    report = answer({})
    assert report.chosen.start_ms == NOW_MS
    assert report.chosen.duration_s == pytest.approx(500e9 / (50 * MB))
    lines = describe_start(report)
    assert "Each of brokers 1, 3 has no profile: there, the forecast assumes that the present load stays." in lines
    assert any("has no known capacity (tuner.capacity)" in line for line in lines)
    assert not any("with the current load" in line for line in lines)
    assert "(" not in lines[0], "no interval without a known error"


def test_old_profile_is_not_used_and_told() -> None:
    old = {1: replace(PROFILE, made_at_ms=NOW_MS - 5 * HOUR_MS), 3: BOTH[3]}
    report = answer(old)
    assert report.forecast_brokers == (3,)
    assert any(line.startswith("Broker 1 has a profile that is 5 h old: there, ") for line in report.notes)


def test_without_objective_clients_do_not_limit() -> None:
    report = answer(settings=TunerSettings.model_validate({"rate_bytes_per_s_max": 50 * MB, "objective": "off"}))
    assert report.chosen.duration_s == pytest.approx(500e9 / (50 * MB))
    assert report.notes == ("No latency objective is set, so clients do not limit the throttle.",)


def test_limits_have_capacity_and_mode_of_the_settings() -> None:
    usable = select_usable(BOTH, (1, 3), NOW_MS)
    capacity = {
        "in_bytes_per_s": 1e8,
        "out_bytes_per_s": 2e8,
        "brokers": {3: {"in_bytes_per_s": 5e7, "out_bytes_per_s": 6e7}},
    }
    base = {"rate_bytes_per_s_max": 5e7, "capacity": capacity}
    share = limits_of(TunerSettings.model_validate({**base, "objective": {"mode": "share", "share_max": 0.2}}), usable)
    assert share.capacities[(1, Side.LEADER)].allowed_bytes_per_s == TOLD_CAPACITY_RATIO * 2e8
    assert share.capacities[(3, Side.FOLLOWER)].bytes_per_s == 5e7
    assert (share.periods[0].share_max, share.periods[0].headroom_ratio) == (0.2, 1.0)
    gentle = limits_of(TunerSettings.model_validate({**base, "objective": {"mode": "gentle"}}), usable)
    assert (gentle.periods[0].share_max, gentle.periods[0].headroom_ratio) == (None, 0.5)


def test_schedule_changes_the_ceiling_and_the_mode() -> None:
    """Nights from 22:00 to 4:00 with 100 MB/s, and gentle in the morning."""
    night = {"name": "night", "cron": "0 22 * * *", "duration_s": "6h", "rate_bytes_per_s_max": 100 * MB}
    morning = {"name": "morning", "cron": "0 4 * * *", "duration_s": "4h", "mode": "gentle"}
    settings = TunerSettings.model_validate({"rate_bytes_per_s_max": 20 * MB, "schedule": [night, morning]})
    usable = select_usable({}, (1, 3), NOW_MS)
    limits = limits_of(settings, usable)
    policies = [limits.at(NOW_MS + hours * HOUR_MS) for hours in (0, 4, 9, 10, 14, 28)]
    assert [policy.ceiling_bytes_per_s / MB for policy in policies] == [20, 100, 100, 20, 20, 100]
    assert [policy.headroom_ratio for policy in policies] == [1.0, 1.0, 1.0, 0.5, 1.0, 1.0]
    report = answer({}, settings)
    assert report.chosen.start_ms == NOW_MS + 4 * HOUR_MS
    assert report.chosen.duration_s == pytest.approx(500e9 / (100 * MB))
    assert report.ceiling_bytes_per_s == 20 * MB


def test_estimate_throttle_stays_below_the_ceiling_of_each_period() -> None:
    """A throttle of 60 MB/s: by day the ceiling of 20 MB/s is lower, at night that of 100 MB/s is not."""
    night = {"name": "night", "cron": "0 22 * * *", "duration_s": "6h", "rate_bytes_per_s_max": 100 * MB}
    settings = TunerSettings.model_validate({"rate_bytes_per_s_max": 20 * MB, "schedule": [night]})
    usable = select_usable({}, (1, 3), NOW_MS)
    limits = throttle_limits(settings, 60 * MB, PARTITIONS, usable, NO_LINK_SPEED.get, NOW_MS)
    assert [limits.at(NOW_MS + hours * HOUR_MS).ceiling_bytes_per_s / MB for hours in (0, 4, 10)] == [20, 60, 20]
    unlimited = throttle_limits(settings, None, PARTITIONS, usable, NO_LINK_SPEED.get, NOW_MS)
    assert [unlimited.at(NOW_MS + hours * HOUR_MS).ceiling_bytes_per_s / MB for hours in (0, 4, 10)] == [20, 100, 20]
    assert limits.leader_ratio == settings.effective_leader_ratio() < 1.0


def test_schedule_that_is_cut_is_told() -> None:
    often = {"name": "often", "cron": "*/10 * * * *", "duration_s": "5m", "rate_bytes_per_s_max": 40 * MB}
    report = answer({}, TunerSettings.model_validate({"rate_bytes_per_s_max": 20 * MB, "schedule": [often]}))
    assert report.notes[0] == (
        "The schedule changes more than 1000 times within 14 d. The forecast follows it until 2025-11-28 05:20+00:00; after that "
        "the limits of its last period stay."
    )
    assert not any("The schedule changes" in note for note in answer().notes)


def test_record_has_units_and_no_infinite_numbers() -> None:
    record = to_record(answer())
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["is_best"]
    assert record["start_ms"] == record["best_start_ms"] == NOW_MS + 9 * HOUR_MS // 2
    assert record["end_low_ms"] <= record["end_ms"] <= record["end_high_ms"]
    assert (record["binding"]["broker"], record["binding"]["side"]) == (1, "leader")
    assert [c["start_ms"] for c in record["candidates"]] == [NOW_MS + 4 * n * HOUR_MS for n in range(7)]


def test_move_without_an_end_has_exit_code_1() -> None:
    busy = [replace(PARTITIONS[0], write_bytes_per_s=60 * MB)]
    usable = select_usable({}, brokers_of(busy), NOW_MS)
    report = answer_start(busy, usable, limits_of(SETTINGS, usable), RequestedStart(NOW_MS), NOW_MS, has_objective=True)
    assert (report.exit_code(), answer().exit_code()) == (1, 0)
    assert describe_start(report)[0] == "The move starts 2025-11-24 18:00+00:00: it does not end within 7 d."
    assert to_record(report)["end_ms"] is None
    assert "never ends" in shown(report)
    assert draw_start(report).startswith("<svg")


def shown(report: StartReport) -> str:
    text = StringIO()
    show_start(report, Console(file=text, width=200, no_color=True))
    return text.getvalue()


def test_table_marks_now_and_best() -> None:
    text = shown(answer())
    assert "2025-11-24 18:00+00:00 (now)" in text
    assert "2025-11-24 22:30+00:00 (best)" in text
    assert "2025-11-25 18:00+00:00" in text


def test_drawing_has_load_throttle_and_progress() -> None:
    drawing = draw_start(answer())
    for text in ("Load of clients", "Throttle", "Bytes that remain", "as now", "start now", "ceiling"):
        assert text in drawing
    assert "nan" not in drawing
    assert draw_start(answer({})).startswith("<svg"), "without a forecast the load is a gap"


def test_planned_start_tells_how_to_withdraw() -> None:
    advice = PlannedStart(NOW_MS).advice("p1")
    assert advice == (
        " The active tuner starts the plan 2025-11-24 18:00+00:00; until then, `rheostat reassign cancel p1` withdraws it."
    )
    assert PlannedStart().advice("p1") == ""
