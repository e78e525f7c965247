"""A watched plan on a terminal: what lives there, what stays, and Ctrl-C."""

from __future__ import annotations

import io
import os
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from rheostat.console.interrupt import DeferredCtrlC
from rheostat.console.rich_console import Terminal
from rheostat.reassign import interrupted as asking
from rheostat.reassign.embedded_service import EmbeddedService
from rheostat.reassign.interrupted import EXIT_INTERRUPTED, interrupted
from rheostat.reassign.progress import PlanProgress, picture
from rheostat.reassign.view import PlanView, alive
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import (
    CurrentAssignment,
    Plan,
    PlanEnding,
    PlanHead,
    PlanPartition,
    PlanState,
    ReassignmentSnapshot,
    RequestedStep,
)

LOOK = ReassignmentSnapshot(
    frozenset({1, 2, 3, 4}),
    {
        ("t", 0): CurrentAssignment(3, (3, 4), (3, 4)),
        ("t", 1): CurrentAssignment(1, (3, 4, 1, 2), (1, 2), (3, 4), (1, 2)),
    },
    log_bytes={1: {("t", 1): 1_000_000_000}, 3: {("t", 1): 500_000_000}, 4: {("t", 1): 0}},
)
PARTS = {("t", n): PlanPartition((3, 4), (1, 2), 1e9) for n in range(2)}
ASKED = {("t", 1): RequestedStep((3, 4), (1, 2))}


def shown(limits: BatchLimits | None = None, **state: Any) -> PlanProgress:
    head = PlanHead("p1", "kim@desk", 0, 5, 1, limits=limits or BatchLimits(partition_movements_max=1))
    return picture(Plan(head, PARTS, ASKED, PlanState(acknowledged_at_ms=5, **state)), LOOK, 100_000)


def drawn(what: PlanProgress, columns: int) -> list[str]:
    console = Console(file=io.StringIO(), width=columns, record=True)
    console.print(alive(what, 50e6))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_the_picture_has_bytes_partitions_time_batch_limits_and_why() -> None:
    lines = drawn(
        shown(concurrency=tuple(f"broker {b} leader: 5 at a time: as every plan begins" for b in range(6))), 100
    )
    assert lines[0].startswith("━━")
    assert lines[0].endswith("  62%  2.50 GB of 4.00 GB, 50.0 MB/s, about 54 s left")
    assert lines[1:4] == [
        "  1 of 2 partitions, 1 under way: t-1 (3,4,1,2) → (3,4)",
        "  at most 1 partition movement at a time",
        "  broker 0 leader: 5 at a time: as every plan begins",
    ]
    assert lines[7:] == ["  and 2 more sides of brokers", ""], (
        "the cursor waits on an empty line, where ^C is in nobody's way"
    )


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_no_line_is_broken_however_narrow_the_terminal(columns: int) -> None:
    wide, narrow = (
        drawn(shown(concurrency=("broker 1 leader: 5",)), 200),
        drawn(shown(concurrency=("broker 1 leader: 5",)), columns),
    )
    assert len(narrow) == len(wide)
    assert max(map(len, narrow)) <= columns


def terminal() -> Console:
    return Terminal(file=io.StringIO(), force_terminal=True, width=60, _environ={"TERM": "xterm"})


def said_on(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_lines_that_stay_are_broken_between_words() -> None:
    console = terminal()
    with PlanView(console) as view:
        view.say("the tuner here has not begun yet; its log: /home/kim/.local/state/rheostat/reassign.log")
    assert "/home/kim/.local/state/rheostat/reassign.log" in said_on(console).replace("\x1b", "")


def test_of_a_plan_that_has_ended_no_picture_of_nothing_is_left() -> None:
    console = terminal()
    with PlanView(console) as view:
        view.show(shown(), None)
        ended = shown(ending=PlanEnding.DONE)
        view.show(replace(ended, plan=replace(ended.plan, partitions={})), None)
    assert "0 of 0" not in said_on(console)
    file = io.StringIO()
    with PlanView(Console(file=file, width=200)) as view:
        view.show(replace(ended, plan=replace(ended.plan, partitions={})), None)
    assert file.getvalue() == ""


def test_a_terminal_that_can_move_no_cursor_gets_lines() -> None:
    file = io.StringIO()
    with PlanView(Console(file=file, force_terminal=True, width=200, _environ={"TERM": "dumb"})) as view:
        view.show(shown(), None)
    assert file.getvalue().startswith("1 of 2 partitions, ")


def test_the_first_ctrl_c_is_kept_and_the_second_is_not() -> None:
    before = signal.getsignal(signal.SIGINT)
    with DeferredCtrlC() as ctrl_c:
        ctrl_c.check()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            ctrl_c.check()
        ctrl_c.check()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("key", "here", "code", "word"),
    [
        ("l", True, EXIT_INTERRUPTED, None), ("", True, EXIT_INTERRUPTED, None), ("x", False, EXIT_INTERRUPTED, None),
        ("p", True, None, "pause"), ("c", True, None, "cancel"), ("P", False, 0, "pause"), ("c", False, 0, "cancel"),
    ],
)  # fmt: skip
def test_what_is_answered_is_said_and_with_the_service_here_waited_for(
    monkeypatch: pytest.MonkeyPatch, key: str, here: bool, code: int | None, word: str | None
) -> None:
    said: list[str] = []
    plan = shown().plan
    monkeypatch.setattr("sys.stdin", Tty(f"{key}\n"))
    monkeypatch.setattr("sys.stderr", Tty())
    monkeypatch.setattr(asking, "plan_store", SimpleNamespace(read=lambda _: SimpleNamespace(of=lambda _: plan)))
    for name in ("pause", "cancel"):
        monkeypatch.setattr(
            asking, name, lambda *_, n=name: said.append(n) or SimpleNamespace(text=n, acknowledged=True)
        )
    assert interrupted(SimpleNamespace(), "p1", here=here) == code  # type: ignore[arg-type]  # the settings are only handed on
    assert said == ([word] if word else [])


def test_the_service_here_ends_once_its_throttles_are_taken_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("rheostat.reassign.embedded_service.state_dir", lambda: tmp_path)
    monkeypatch.setattr("rheostat.reassign.embedded_service._LOOK_EVERY_S", 0.2)
    service = EmbeddedService(tmp_path / "rheostat.yaml", None)
    stands, ticks = [True, True, False], []
    assert service.settle(lambda: stands.pop(0), lambda: ticks.append(1))
    assert (stands, len(ticks)) == ([], 2)
    monkeypatch.setattr("rheostat.reassign.embedded_service.LEFT_S_MAX", 0.3)
    assert not service.settle(lambda: True, lambda: None), "it is not waited for without an end"
    assert EmbeddedService(None, 1).settle(lambda: True, lambda: None), "another tuner sees to it"
