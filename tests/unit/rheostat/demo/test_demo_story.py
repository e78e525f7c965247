"""The demo's processes and output: waiting for measurements, the rescue, and `--keep`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from rheostat.demo import story
from rheostat.errors import CommandError


class KeptProcesses:
    page = "http://127.0.0.1:9999/"

    def __init__(self, home: Path) -> None:
        self.log = home / "rheostat.log"
        self.calls: list[str] = []

    def start_measuring(self) -> None:
        self.calls.append("measure")
        structlog.get_logger("run").info("process started")  # As the supervisor logs; the file must be open.

    def start_tuner(self) -> None:
        self.calls.append("tuner")

    def restart_ended(self) -> None:
        self.calls.append("restart")
        raise KeyboardInterrupt

    def stop(self) -> None:
        self.calls.append("stop")


def test_keep_running_names_the_page_and_runs_until_ctrl_c(tmp_path: Path) -> None:
    processes = KeptProcesses(tmp_path)
    said: list[str] = []
    view = SimpleNamespace(print_heading=said.append, print_line=said.append)
    lab = SimpleNamespace(home=tmp_path, bootstrap_servers="127.0.0.1:9092")
    try:
        story._keep_running(cast(Any, lab), cast(Any, processes), cast(Any, view))
    finally:
        structlog.reset_defaults()
    assert processes.calls == ["measure", "tuner", "restart", "stop"]
    assert any("http://127.0.0.1:9999/" in line for line in said)
    assert "process started" in processes.log.read_text()
    # The printed command uses the plan that was written.
    back = tmp_path / "back.json"
    assert any(f"reassign start {back} --partition-movements 1" in line for line in said)
    entries = json.loads(back.read_text())["partitions"]
    assert [(e["topic"], e["partition"], e["replicas"]) for e in entries] == [("orders", n, [1, 2]) for n in range(4)]


def test_rescue_names_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    from rheostat.demo import rescue

    monkeypatch.setattr(rescue, "RESCUE_S_MAX", 0.0)
    monkeypatch.setattr(rescue, "_print_decisions", lambda *_: "")
    said: list[str] = []
    processes = SimpleNamespace(page="http://127.0.0.1:9999/", start_tuner=lambda: None, status=lambda: None)
    rescue.rescue(cast(Any, processes), cast(Any, SimpleNamespace(print_line=said.append)), cast(Any, None))
    assert "http://127.0.0.1:9999/" in said[0]


def test_tuner_that_is_not_ready_is_shown_with_its_reason() -> None:
    from rheostat.demo import rescue

    status = {"last_decisions": [], "ready": False, "ready_text": "no broker signal has arrived yet"}
    activity = rescue._print_decisions(
        status, cast(Any, None), cast(Any, SimpleNamespace(leader=1, destination=3)), set()
    )
    assert activity == "rheostat changes nothing: no broker signal has arrived yet"


def test_wait_until_measured_waits_for_every_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    from rheostat.demo import measured

    checks: list[int] = []

    class FakeSignals:
        brokers: dict[int, object]

        def __init__(self, *_: object) -> None:
            self.brokers = {}

        def rewind(self) -> None:
            self.brokers[len(checks)] = object()

    closed: list[bool] = []
    signal_consumer = SimpleNamespace(close=lambda **_: closed.append(True))
    monkeypatch.setattr(measured, "SignalReader", FakeSignals)
    monkeypatch.setattr(measured, "consumer", lambda *_: signal_consumer)
    monkeypatch.setattr(measured, "_POLL_S", 0.0)
    processes = SimpleNamespace(
        settings=SimpleNamespace(topic_names=lambda: SimpleNamespace(signals="s"), kafka=None, cluster="lab"),
        check=lambda: checks.append(1),
    )
    view = SimpleNamespace(show_activity=lambda _: None)
    measured.wait_until_measured(cast(Any, processes), cast(Any, view), 3)
    assert (len(checks), closed) == (3, [True])
    monkeypatch.setattr(measured, "MEASURED_S_MAX", -1.0)
    with pytest.raises(CommandError, match="measured 1 of 3 brokers"):
        measured.wait_until_measured(cast(Any, processes), cast(Any, view), 3)
    assert closed == [True, True]
