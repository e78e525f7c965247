"""`rheostat demo --keep`: rheostat goes on beside the cluster, its page is named, and Ctrl-C leaves nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from rheostat.demo import story


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

    def keep_up(self) -> None:
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


def test_the_page_is_named_while_the_tuner_rescues(monkeypatch: pytest.MonkeyPatch) -> None:
    from rheostat.demo import rescue

    monkeypatch.setattr(rescue, "RESCUE_S_MAX", 0.0)
    monkeypatch.setattr(rescue, "_decisions", lambda *_: "")
    said: list[str] = []
    parts = SimpleNamespace(page="http://127.0.0.1:9999/", act=lambda: None)
    rescue.rescue(cast(Any, parts), cast(Any, SimpleNamespace(say=said.append)), cast(Any, None))
    assert "http://127.0.0.1:9999/" in said[0]
