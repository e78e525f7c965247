"""A rule of the schedule begins and ends while a tuner runs on a real cluster, without an end of its term."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lab_parts import RHEOSTAT, rheostat, running, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports

LAB = LabSpec(brokers=1)
WAIT_S_MAX = 90.0
BEGINS_IN_S_MIN = 20.0  # The tuner has read its settings again by then.


def asked(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def test_rule_changes_ceiling_and_mode_and_ends(lab: Lab, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = tmp_path / "rheostat.yaml"

    def write(*schedule: dict[str, Any]) -> None:
        config.write_text(lab_config(lab, http={"port": port}, objective="auto", schedule=[*schedule]))

    def status() -> dict[str, Any]:
        return dict(json.loads(asked(port, "/api/v1/status") or "{}"))

    def in_force() -> tuple[float, str] | None:
        found = status()
        if not (found.get("active") and found["last_cycle_at_ms"]):
            return None
        return found["rate_bytes_per_s_max"], found["objective"]["mode"]

    def answer(path: str) -> Any:
        return json.loads(until(lambda: asked(port, path), WAIT_S_MAX, f"an answer to {path}"))

    def told(name: str) -> list[float]:
        return [float(value) for value in re.findall(rf"^{name}{{[^}}]*}} (\S+)$", asked(port, "/metrics"), re.M)]

    write()
    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as run:

        def count_terms() -> int:
            return len([line for line in run.lines() if line["event"] == "active"])

        assert until(lambda: in_force() or not run.alive(), WAIT_S_MAX, "the tuner acts") == (30_000_000, "fast")
        begins = (datetime.now(UTC) + timedelta(seconds=BEGINS_IN_S_MIN + 60)).replace(second=0, microsecond=0)
        rule = {
            "name": "office hours",
            "cron": f"{begins.minute} {begins.hour} * * *",
            "duration_s": 90,  # The commands below run within it.
            "rate_bytes_per_s_max": 20_000_000,
            "mode": "gentle",
        }
        write(rule)
        run.process.send_signal(signal.SIGHUP)
        before = until(lambda: status().get("schedule"), WAIT_S_MAX, "the tuner has the schedule")
        assert (before["rules"], before["next_rules"]) == ([], ["office hours"])
        assert before["until_ms"] == round(begins.timestamp() * 1000)
        until(lambda: in_force() == (30_000_000, "fast"), WAIT_S_MAX, "the tuner acts with the schedule")
        terms = count_terms()

        until(lambda: in_force() == (20_000_000, "gentle"), WAIT_S_MAX + 60, "the rule applies")
        assert datetime.now(UTC) >= begins
        ceiling = "rheostat_throttle_rate_max_bytes_per_second"
        until(lambda: told(ceiling) == [20_000_000], WAIT_S_MAX, "the metrics page has the ceiling")
        assert answer("/api/v1/status")["schedule"]["rules"] == ["office hours"]
        now = json.loads(rheostat("status", "-c", config, "--json").stdout)
        assert now["tuner"]["rate_bytes_per_s_max"] == now["rate_bytes_per_s_max"] == 20_000_000
        assert now["schedule"]["rules"] == ["office hours"]
        assert "Schedule: rule office hours applies" in rheostat("status", "-c", config).stdout
        # An order of an operator may exceed the ceiling of the rule, but not the highest ceiling.
        override = ("override", "-c", config, "--broker", "1", "--for", "30s", "--yes")
        assert rheostat(*override, "--throttle", "25MB/s").returncode == 0
        assert "30.0 MB/s" in rheostat(*override, "--throttle", "31MB/s").stderr

        until(lambda: in_force() == (30_000_000, "fast"), WAIT_S_MAX, "the rule has ended")

        def followed() -> list[tuple[str, str]]:
            return [(line["reason"], line["event"]) for line in run.lines() if line.get("action") == "follow_schedule"]

        until(lambda: len(followed()) >= 2, WAIT_S_MAX, "the log has both decisions")
        decisions = followed()
        assert [reason for reason, _ in decisions] == ["schedule_began", "schedule_ended"]
        assert "ceiling 20.0 MB/s, mode gentle, tolerance 0.5" in decisions[0][1]
        page = answer("/api/v1/decisions?action=follow_schedule")
        assert [row["reason"] for row in page["decisions"]] == ["schedule_ended", "schedule_began"]
        assert count_terms() == terms, "the term goes on"

        def past() -> list[tuple[str, float]]:
            history = answer("/api/v1/brokers/1/history")
            return [
                (each["text"].rpartition("schedule ")[2], each["rate_bytes_per_s_max"]) for each in history["in_force"]
            ]

        until(lambda: len(past()) >= 4, WAIT_S_MAX, "the history has the ceilings of their times")
        # The tuner began, read its settings again, and followed the rule from its beginning to its end.
        assert [ceiling for _, ceiling in past()] == [30_000_000, 30_000_000, 20_000_000, 30_000_000]
        assert past()[2][0] == "office hours"
        marks = answer("/api/v1/brokers/1/history")["marks"]
        kinds = [mark["kind"] for mark in marks]
        assert [kind for kind in kinds if kind != "order"] == ["restart", "restart", "settings", "settings"]
        assert "order" in kinds
        assert run.end(signal.SIGTERM) == 0
