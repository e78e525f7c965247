"""Rules of the schedule: their checks, the times at which they apply, and the settings in force."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from tuner.control.throttle.objective import Mode
from tuner.core.throttle_limits import MB
from tuner.settings.schedule_periods import SettingsPeriod, SettingsSchedule, find_period, periods
from tuner.settings.tuner import TunerSettings

BERLIN = ZoneInfo("Europe/Berlin")
NIGHTS = {
    "name": "nights",
    "cron": "0 20 * * *",
    "time_zone": "Europe/Berlin",
    "duration_s": "12h",
    "rate_bytes_per_s_max": "400MB/s",
    "mode": "fast",
}
OFFICE = {
    "name": "office hours",
    "cron": "0 8 * * mon-fri",
    "time_zone": "Europe/Berlin",
    "duration_s": "10h",
    "mode": "gentle",
    "tolerance": 0.3,
}
HOUR_MS = 3_600_000


def tuner(*rules: dict[str, Any], **more: Any) -> TunerSettings:
    return TunerSettings.model_validate({"rate_bytes_per_s_max": "60MB/s", "schedule": rules, **more})


def at(text: str, zone: Any = BERLIN) -> int:
    """Returns the epoch milliseconds of a local time."""
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


def local(period: SettingsPeriod) -> tuple[str, tuple[str, ...]]:
    begins = datetime.fromtimestamp(period.from_ms / 1000, UTC).astimezone(BERLIN)
    return begins.strftime("%m-%d %H:%M %z"), period.rules


def fault(*rules: dict[str, Any], **more: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        tuner(*rules, **more)
    (error,) = caught.value.errors()
    return str(error["msg"])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"cron": "at night"}, "expected the five fields minute, hour"),
        ({"cron": "0 0 20 * * *"}, "found 6"),
        ({"cron": "0 24 * * *"}, "'0 24 * * *' is not a cron expression"),
        ({"cron": "0 0 31 2 *"}, "Bad day-of-month"),
        ({"cron": "0 0 1 1 5-1"}, "Bad day-of-week"),
        ({"cron": "1," * 120 + "1 * * * *"}, "at most 200 characters"),
        ({"time_zone": "Europe/Atlantis"}, "no time zone has the name 'Europe/Atlantis'"),
        ({"time_zone": "Europe"}, "no time zone"),
        ({"time_zone": "../../etc/passwd"}, "no time zone"),
        ({"time_zone": "UTC\0"}, "no time zone"),
        (
            {"duration_s": "30h"},
            "rule nights: duration_s (1 d 6 h) is longer than the 1 d between two starts of the rule",
        ),
        ({"duration_s": 59}, "greater than or equal to 60"),
        ({"duration_s": float("inf")}, "finite number"),
        ({"rate_bytes_per_s_max": "1MB/s"}, "rule nights: rate_bytes_per_s_max (1.00 MB/s) is below"),
        ({"rate_bytes_per_s_max": None, "mode": None}, "rule nights changes nothing"),
        ({"mode": "share"}, "rule nights: mode: share needs share_max"),
        ({"mode": "deadline"}, "rule nights: mode: deadline needs finish_at"),
        ({"name": "nights, long ones"}, "should match pattern"),
        ({"until": "08:00"}, "Extra inputs are not permitted"),
    ],
)
def test_rule_with_fault_is_refused(change: dict[str, Any], expected: str) -> None:
    assert expected in fault({**NIGHTS, **change})


def test_rules_of_one_name_are_refused() -> None:
    assert "several rules with the name nights" in fault(NIGHTS, OFFICE, NIGHTS)


def test_rule_for_objective_needs_one() -> None:
    assert "rule office hours: mode and tolerance change the objective" in fault(OFFICE, objective=False)
    assert "rule office hours: tolerance applies only with latency_ms: auto" in fault(
        OFFICE, objective={"latency_ms": 50}
    )


def test_rule_for_ceiling_needs_no_objective() -> None:
    rule = {**NIGHTS, "mode": None}
    assert find_period(tuner(rule, objective="off"), at("2026-11-30 21:00")).settings.rate_bytes_per_s_max == 400 * MB


def test_daily_rule_of_a_whole_day_is_accepted() -> None:
    whole_days = tuner({**NIGHTS, "cron": "0 0 * * *", "duration_s": "24h"})
    found = find_period(whole_days, at("2026-06-01 12:00"))
    assert found.rules == ("nights",)
    assert found.until_ms is not None
    assert found.until_ms > at("2026-10-25 00:00"), "one begins as the other ends, until a day has 25 hours"


def test_rules_apply_from_their_time_to_their_end() -> None:
    found = periods(tuner(NIGHTS, OFFICE), at("2026-11-27 12:00"), at("2026-12-01 07:00"))
    assert [local(period) for period in found] == [
        ("11-27 12:00 +0100", ("office hours",)),  # A Friday.
        ("11-27 18:00 +0100", ()),
        ("11-27 20:00 +0100", ("nights",)),
        ("11-28 08:00 +0100", ()),
        ("11-28 20:00 +0100", ("nights",)),
        ("11-29 08:00 +0100", ()),
        ("11-29 20:00 +0100", ("nights",)),
        ("11-30 08:00 +0100", ("office hours",)),
        ("11-30 18:00 +0100", ()),
        ("11-30 20:00 +0100", ("nights",)),
    ]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("2026-11-30 19:59:59.999", ()),
        ("2026-11-30 20:00:00", ("nights",)),
        ("2026-12-01 07:59:59.999", ("nights",)),
        ("2026-12-01 08:00:00", ("office hours",)),
    ],
)
def test_rule_applies_from_its_first_to_its_last_millisecond(text: str, rules: tuple[str, ...]) -> None:
    assert find_period(tuner(NIGHTS, OFFICE), at(text)).rules == rules


def test_change_to_summer_time_keeps_begin_and_duration() -> None:
    # On 2026-03-29 the clock goes from 02:00 to 03:00: the night has 12 hours, and ends at 09:00.
    found = periods(tuner(NIGHTS), at("2026-03-28 12:00"), at("2026-03-30 12:00"))
    assert [local(period) for period in found] == [
        ("03-28 12:00 +0100", ()),
        ("03-28 20:00 +0100", ("nights",)),
        ("03-29 09:00 +0200", ()),
        ("03-29 20:00 +0200", ("nights",)),
        ("03-30 08:00 +0200", ()),
    ]


def test_change_to_standard_time_keeps_begin_and_duration() -> None:
    # On 2026-10-25 the clock goes from 03:00 back to 02:00.
    found = periods(tuner(NIGHTS), at("2026-10-24 12:00"), at("2026-10-26 12:00"))
    assert [local(period) for period in found] == [
        ("10-24 12:00 +0200", ()),
        ("10-24 20:00 +0200", ("nights",)),
        ("10-25 07:00 +0100", ()),
        ("10-25 20:00 +0100", ("nights",)),
        ("10-26 08:00 +0100", ()),
    ]


def test_time_that_clock_change_skips_begins_after_it() -> None:
    rule = {**NIGHTS, "cron": "30 2 * * *", "duration_s": "1h"}
    found = periods(tuner(rule), at("2026-03-28 12:00"), at("2026-03-30 01:00"))
    assert [local(period) for period in found][1:] == [("03-29 03:00 +0200", ("nights",)), ("03-29 04:00 +0200", ())]


def test_time_that_clock_change_repeats_begins_once() -> None:
    rule = {**NIGHTS, "cron": "30 2 * * *", "duration_s": "10min"}
    found = periods(tuner(rule), at("2026-10-24 12:00"), at("2026-10-26 01:00"))
    assert [local(period) for period in found][1:] == [("10-25 02:30 +0200", ("nights",)), ("10-25 02:40 +0200", ())]
    repeated = at("2026-10-25 02:35") + HOUR_MS  # 02:35 for the second time.
    assert find_period(tuner(rule), repeated).rules == ()


def test_every_instant_has_the_same_rules_from_both_directions() -> None:
    """The periods that follow one another, and the period of a single time, agree around both clock changes."""
    settings = tuner(NIGHTS, {**OFFICE, "cron": "30 2 * * *", "duration_s": "45min"})
    for day in ("2026-03-28", "2026-10-24"):
        begins_ms = at(f"{day} 00:00")
        chain = list(periods(settings, begins_ms, begins_ms + 72 * HOUR_MS))
        for now_ms in range(begins_ms, begins_ms + 72 * HOUR_MS, 300_000):
            (expected,) = (p for p in chain if p.from_ms <= now_ms and (p.until_ms is None or now_ms < p.until_ms))
            assert find_period(settings, now_ms).rules == expected.rules, datetime.fromtimestamp(now_ms / 1000, UTC)


def test_last_of_overlapping_rules_counts_for_each_setting() -> None:
    always = {**NIGHTS, "name": "winter", "cron": "0 0 * * *", "duration_s": "24h", "mode": "gentle", "tolerance": 0.2}
    found = find_period(tuner(always, OFFICE), at("2026-12-01 12:00"))
    assert found.rules == ("winter", "office hours")
    assert found.settings.objective is not None
    assert (found.settings.rate_bytes_per_s_max, found.settings.objective.tolerance) == (400 * MB, 0.3)
    swapped = find_period(tuner(OFFICE, always), at("2026-12-01 12:00")).settings
    assert swapped.objective is not None
    assert swapped.objective.tolerance == 0.2


def test_settings_in_force_have_changes_of_rules_only() -> None:
    settings = tuner(NIGHTS, OFFICE)
    assert find_period(settings, at("2026-11-30 19:00")).settings is settings
    night = find_period(settings, at("2026-11-30 22:00")).settings
    assert night.limits().rate_bytes_per_s_max == night.law_limits().rate_bytes_per_s_max == 400 * MB
    assert night.limits().schedule_rules == "nights"
    assert night.limits().schedule_text == "ceiling 400 MB/s, mode fast, tolerance 0.5"
    day = find_period(settings, at("2026-11-30 12:00")).settings
    objective = day.control_objective()
    assert objective is not None
    assert (objective.mode, objective.tolerance, day.rate_bytes_per_s_max) == (Mode.GENTLE, 0.3, 60 * MB)
    assert day.effective_leader_ratio() == 1.0
    assert night.effective_leader_ratio() < 1.0


def test_rule_does_not_change_what_happens_to_unthrottled_moves() -> None:
    settings = tuner(OFFICE)
    assert not settings.limits().throttles_all_moves
    assert not find_period(settings, at("2026-11-30 12:00")).settings.limits().throttles_all_moves
    explicit = tuner(OFFICE, objective={"mode": "fast"})
    assert find_period(explicit, at("2026-11-30 12:00")).settings.limits().throttles_all_moves


def test_rule_of_another_mode_drops_the_deadline() -> None:
    settings = tuner({**OFFICE, "tolerance": None}, objective={"mode": "deadline", "finish_at": "2026-12-24T18:00:00Z"})
    day = find_period(settings, at("2026-11-30 12:00")).settings
    assert day.limits().finish_at_ms is None
    assert settings.limits().finish_at_ms is not None


@pytest.mark.parametrize("hour", [12, 22])
def test_highest_ceiling_is_that_of_any_time(hour: int) -> None:
    settings = tuner(NIGHTS, {**OFFICE, "rate_bytes_per_s_max": "20MB/s"})
    found = find_period(settings, at(f"2026-11-30 {hour}:00")).settings
    assert found.highest_ceiling_bytes_per_s == 400 * MB
    assert found.limits().override_bytes_per_s_max == 400 * MB
    lower = tuner({**OFFICE, "rate_bytes_per_s_max": "20MB/s"})
    assert find_period(lower, at("2026-11-30 12:00")).settings.highest_ceiling_bytes_per_s == 60 * MB


def test_schedule_follows_a_clock_that_is_set_back() -> None:
    schedule = SettingsSchedule(tuner(NIGHTS))
    night = schedule.at(at("2026-11-30 22:00"))
    assert schedule.at(at("2026-11-30 23:00")) is night, "found once"
    assert schedule.at(at("2026-12-01 08:00")).rules == ()
    assert schedule.at(at("2026-11-30 22:00")).rules == ("nights",)


def test_settings_without_schedule_have_one_period() -> None:
    (found,) = periods(tuner(), 0, 10**15)
    assert (found.rules, found.until_ms, found.next_rules) == ((), None, ())
    assert found.settings.limits().order_rate_bytes_per_s_max is None


def test_rare_rule_is_found_years_ahead() -> None:
    rule = {**NIGHTS, "cron": "0 0 29 2 *"}
    found = find_period(tuner(rule), at("2026-11-30 12:00"))
    assert found.until_ms == at("2028-02-29 00:00")
    assert found.next_rules == ("nights",)


def test_rule_each_minute_is_quick_and_ends() -> None:
    rule = {**NIGHTS, "cron": "* * * * mon", "duration_s": 60}
    found = list(periods(tuner(rule), at("2026-11-30 12:00"), at("2026-12-01 12:00")))
    assert found[-1].rules == ()
    assert {period.rules for period in found[:-1]} == {("nights",)}
    assert found[-1].from_ms == at("2026-12-01 00:00")
