"""`rheostat demo --keep`: rheostat goes on beside the cluster, its page is named, and Ctrl-C leaves nothing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from rheostat.demo import story
from rheostat.errors import CommandError


class KeptParts:
    page = "http://127.0.0.1:9999/"

    def __init__(self, home: Path) -> None:
        self.log = home / "rheostat.log"
        self.did: list[str] = []

    def measure(self) -> None:
        self.did.append("measure")
        structlog.get_logger("run").info("part started")  # As the supervisor does: its log must be open.

    def act(self) -> None:
        self.did.append("act")

    def steady_state(self) -> None:
        self.did.append("keep up")
        raise KeyboardInterrupt

    def stop(self) -> None:
        self.did.append("stop")


def test_the_page_is_named_and_rheostat_runs_until_ctrl_c(tmp_path: Path) -> None:
    parts = KeptParts(tmp_path)
    said: list[str] = []
    view = SimpleNamespace(head=said.append, say=said.append)
    lab = SimpleNamespace(home=tmp_path, bootstrap_servers="127.0.0.1:9092")
    try:
        story._stay(cast(Any, lab), cast(Any, parts), cast(Any, view))
    finally:
        structlog.reset_defaults()
    assert parts.did == ["measure", "act", "keep up", "stop"]
    assert any("http://127.0.0.1:9999/" in line for line in said)
    assert "part started" in parts.log.read_text()
    # A move of one's own, with a plan that is one.
    back = tmp_path / "back.json"
    assert any(f"reassign {back} --partition-movements 1" in line for line in said)
    entries = json.loads(back.read_text())["partitions"]
    assert [(e["topic"], e["partition"], e["replicas"]) for e in entries] == [("orders", n, [1, 2]) for n in range(4)]


def test_the_page_is_named_while_the_tuner_rescues(monkeypatch: pytest.MonkeyPatch) -> None:
    from rheostat.demo import rescue

    monkeypatch.setattr(rescue, "RESCUE_S_MAX", 0.0)
    monkeypatch.setattr(rescue, "_decisions", lambda *_: "")
    said: list[str] = []
    parts = SimpleNamespace(page="http://127.0.0.1:9999/", act=lambda: None, status=lambda: None)
    rescue.rescue(cast(Any, parts), cast(Any, SimpleNamespace(say=said.append)), cast(Any, None))
    assert "http://127.0.0.1:9999/" in said[0]


def test_a_tuner_that_sees_nothing_is_not_shown_as_one_that_watches() -> None:
    from rheostat.demo import rescue

    status = {"last_decisions": [], "ready": False, "ready_text": "no broker signal has arrived yet"}
    told = rescue._decisions(status, cast(Any, None), cast(Any, SimpleNamespace(leader=1, destination=3)), set())
    assert told == "rheostat changes nothing: no broker signal has arrived yet"


def test_the_story_waits_until_every_broker_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    from rheostat.demo import measured

    looks: list[int] = []

    class Told:
        brokers: dict[int, object]

        def __init__(self, *_: object) -> None:
            self.brokers = {}

        def rewind(self, _: int) -> None:
            self.brokers[len(looks)] = object()

    closed: list[bool] = []
    reading = SimpleNamespace(close=lambda **_: closed.append(True))
    monkeypatch.setattr(measured, "SignalReader", Told)
    monkeypatch.setattr(measured, "consumer", lambda *_: reading)
    monkeypatch.setattr(measured, "_LOOK_S", 0.0)
    parts = SimpleNamespace(
        settings=SimpleNamespace(topic_names=lambda: SimpleNamespace(signals="s"), kafka=None, cluster="lab"),
        look=lambda: looks.append(1),
    )
    view = SimpleNamespace(now=lambda _: None)
    measured.wait_until_measured(cast(Any, parts), cast(Any, view), 3)
    assert (len(looks), closed) == (3, [True])
    monkeypatch.setattr(measured, "MEASURED_S_MAX", -1.0)
    with pytest.raises(CommandError, match="told of 1 of 3 brokers"):
        measured.wait_until_measured(cast(Any, parts), cast(Any, view), 3)
    assert closed == [True, True]
