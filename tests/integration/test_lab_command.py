"""The commands `rheostat lab up` and `rheostat lab down`."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from lab_parts import java_processes_of, rheostat, running, until

from rheostat.config.settings import load_settings
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A state folder and a temporary folder for this test; a lab left by a failed test is stopped."""
    (tmp_path / "tmp").mkdir()
    env = {"RHEOSTAT_STATE_DIR": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "tmp")}
    yield env
    for file in (tmp_path / "state" / "labs").glob("*.json"):
        rheostat("lab", "down", "--name", file.stem, env=env)
    assert java_processes_of(tmp_path) == []


def test_lab_commands_start_use_and_stop_a_lab(env: dict[str, str], tmp_path: Path) -> None:
    up = rheostat("lab", "up", "--brokers", "1", env=env, timeout_s=120)
    assert (up.returncode, up.stderr) == (0, "")
    servers = re.search(r"bootstrap_servers (\S+)", up.stdout)
    config = re.search(r"--config (\S+)\)", up.stdout)
    assert servers is not None
    assert config is not None
    with ClusterClient(KafkaSettings(bootstrap_servers=servers[1]), "test") as client:
        assert [e.node for e in client.brokers()] == [1]
    settings = load_settings(Path(config[1]), {})
    assert settings.kafka.bootstrap_servers == servers[1]
    assert sorted(settings.collector.endpoints) == [1, 100]

    second = rheostat("lab", "up", "--brokers", "1", env=env)
    assert second.returncode == 2
    assert second.stderr.strip().splitlines() == [
        "Lab 'lab' is up already: run `rheostat lab down --name lab`, or give another --name."
    ]
    assert len(java_processes_of(tmp_path)) == 2

    # What it says about looking around works.
    status = rheostat("status", "--config", config[1], "--json", env=env)
    assert status.returncode == 0, status.stderr
    assert [b["broker"] for b in json.loads(status.stdout)["brokers"]] == [1]

    down = rheostat("lab", "down", env=env)
    assert (down.returncode, down.stdout.strip()) == (0, "Lab 'lab' is down.")
    assert java_processes_of(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []

    again = rheostat("lab", "down", env=env)
    assert (again.returncode, again.stdout.strip()) == (0, "No lab 'lab' is up.")


def test_killed_keeper_does_not_block_a_new_lab(env: dict[str, str], tmp_path: Path) -> None:
    assert rheostat("lab", "up", "--brokers", "1", "--name", "a", env=env, timeout_s=120).returncode == 0
    keeper = psutil.Process(json.loads((tmp_path / "state" / "labs" / "a.json").read_text())["pid"])

    os.kill(keeper.pid, signal.SIGKILL)
    until(lambda: java_processes_of(tmp_path) == [], 10, "its nodes went with it")
    until(lambda: not keeper.is_running() or keeper.status() == psutil.STATUS_ZOMBIE, 10, "it is gone itself")

    again = rheostat("lab", "up", "--brokers", "1", "--name", "a", env=env, timeout_s=120)
    assert again.returncode == 0, again.stderr
    assert rheostat("lab", "down", "--name", "a", env=env).stdout.strip() == "Lab 'a' is down."


def test_keeper_killed_during_start_leaves_nothing(env: dict[str, str], tmp_path: Path) -> None:
    up = [sys.executable, "-m", "rheostat", "lab", "up", "--brokers", "1"]
    starting = tmp_path / "state" / "labs" / "lab.starting"
    with running(*up, log=tmp_path / "up.log", env=env) as first:

        def keeper() -> int | None:
            return int(json.loads(starting.read_text())["pid"]) if starting.exists() else None

        pid = until(keeper, 60, "a keeper tells of itself", every_s=0.01)
        os.kill(pid, signal.SIGSTOP)  # Else its lab may be up before the second command has looked.
        second = rheostat("lab", "up", "--brokers", "1", env=env)
        assert (second.returncode, second.stderr.strip()) == (
            2,
            "Lab 'lab' is starting already: run `rheostat lab down --name lab`, or give another --name.",
        )
        os.kill(pid, signal.SIGKILL)
        until(lambda: not first.alive(), 30, "it says so")
        assert "The lab ended at once" in first.said()

    until(lambda: java_processes_of(tmp_path) == [], 10, "its nodes went with it")
    assert not starting.exists()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_interrupted_lab_up_leaves_no_lab(env: dict[str, str], tmp_path: Path) -> None:
    with running(
        sys.executable, "-m", "rheostat", "lab", "up", "--brokers", "1", log=tmp_path / "up.log", env=env
    ) as up:  # fmt: skip
        until(lambda: java_processes_of(tmp_path), 60, "a node is starting", every_s=0.01)
        assert up.end(signal.SIGTERM) == 128 + signal.SIGTERM
        until(lambda: up.left() == [], 10, "its processes have ended")

    assert java_processes_of(tmp_path) == []
    assert [str(left) for left in (tmp_path / "tmp").rglob("*")] == [], (tmp_path / "state/labs/lab.log").read_text()
    assert rheostat("lab", "down", env=env).stdout.strip() == "No lab 'lab' is up."


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--controllers", "2"), "1 or 3 controllers"),
        (("--brokers", "0"), "greater than or equal to 1"),
        (("--brokers", "many"), "valid integer"),
    ],
)
def test_impossible_lab_options_are_refused(env: dict[str, str], arguments: tuple[str, ...], expected: str) -> None:
    refused = rheostat("lab", "up", *arguments, env=env)

    assert refused.returncode == 2
    assert expected in refused.stderr
    assert "Traceback" not in refused.stderr
