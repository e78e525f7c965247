"""`rheostat config schedule`, and the schedule in the settings file and in `rheostat status`."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from command_rig import Command
from rich.console import Console
from test_settings import GOOD, fault

from rheostat.config.schedule import schedule_preview, settings_now, show_preview
from rheostat.config.settings import parse_settings
from tuner.api.sentences import schedule_lines
from tuner.api.views import schedule_json
from tuner.core.throttle_limits import MB
from tuner.settings.schedule_periods import find_period

RULES = """\
  schedule:
    - name: nights
      cron: 0 20 * * *
      time_zone: Europe/Berlin
      duration_s: 12h
      rate_bytes_per_s_max: 400MB/s
    - name: office hours
      cron: 0 8 * * mon-fri
      time_zone: Europe/Berlin
      duration_s: 10h
      mode: gentle
      tolerance: 0.3
"""
MONDAY_MS = 1_796_036_400_000  # 2026-11-30 12:00 in Berlin.
DAY_MS = 86_400_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rheostat.yaml"
    path.write_text(GOOD + RULES)
    return path


def test_preview_has_a_row_for_each_period() -> None:
    tuner = parse_settings(GOOD + RULES, "f.yaml", {}).tuner
    preview = schedule_preview(tuner, MONDAY_MS, MONDAY_MS + DAY_MS)
    assert preview["time_zone"] == "Europe/Berlin"
    assert preview["highest_ceiling_bytes_per_s"] == 400 * MB
    assert [
        (period["rules"], period["rate_bytes_per_s_max"], period["mode"], period["tolerance"])
        for period in preview["periods"]
    ] == [
        (["office hours"], 50 * MB, "gentle", 0.3),
        ([], 50 * MB, "fast", 0.5),
        (["nights"], 400 * MB, "fast", 0.5),
        (["office hours"], 50 * MB, "gentle", 0.3),
    ]
    shown = StringIO()
    show_preview(preview, Console(file=shown, width=120))
    text = shown.getvalue()
    assert "Mon 2026-11-30 20:00 CET" in text
    assert "400 MB/s" in text


def test_preview_of_rules_in_several_zones_is_in_utc() -> None:
    text = RULES.replace("time_zone: Europe/Berlin", "time_zone: America/New_York", 1)
    tuner = parse_settings(GOOD + text, "f.yaml", {}).tuner
    assert schedule_preview(tuner, MONDAY_MS, MONDAY_MS + DAY_MS)["time_zone"] == "UTC"


def test_command_prints_table_or_json(file: Path) -> None:
    command = Command("config schedule")
    assert len(command.record("--config", str(file), "--next", "3d")["periods"]) >= 7
    assert "nights" in command.said("--config", str(file))
    file.write_text(GOOD)
    (period,) = command.record("--config", str(file))["periods"]
    assert (period["rules"], period["until_ms"]) == ([], None)


def test_fault_of_a_rule_names_line_and_key() -> None:
    text = fault(GOOD + RULES.replace("0 20 * * *", "0 25 * * *"))
    assert "f.yaml:10" in text
    assert "tuner.schedule" in text
    assert "cron" in text
    assert "did you mean duration_s" in fault(GOOD + RULES.replace("duration_s", "duration", 1))


def test_status_names_rules_and_next_change() -> None:
    tuner = parse_settings(GOOD + RULES, "f.yaml", {}).tuner
    schedule = schedule_json(find_period(tuner, MONDAY_MS))
    assert schedule_lines(schedule) == [
        "Schedule: rule office hours applies, with ceiling 50.0 MB/s, mode gentle, tolerance 0.3, until 2026-11-30 17:00:00 UTC; "
        "then no rule applies."
    ]
    evening = schedule_json(find_period(tuner, MONDAY_MS + 7 * 3_600_000))
    assert schedule_lines(evening) == [
        "Schedule: no rule applies, with ceiling 50.0 MB/s, mode fast, tolerance 0.5, until 2026-11-30 19:00:00 UTC; then rule "
        "nights applies."
    ]
    assert schedule_lines(None) == []


def test_settings_in_force_are_those_of_the_period() -> None:
    settings = parse_settings(GOOD + RULES, "f.yaml", {})
    assert settings_now(settings, MONDAY_MS + 9 * 3_600_000).tuner.rate_bytes_per_s_max == 400 * MB
    plain = parse_settings(GOOD, "f.yaml", {})
    assert settings_now(plain) is plain
