"""The live display of a watched plan, lines that stay, and Ctrl-C."""

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
from rheostat.reassign import interrupted
from rheostat.reassign.embedded_service import EmbeddedService
from rheostat.reassign.interrupted import EXIT_INTERRUPTED, handle_interrupt
from rheostat.reassign.progress import PlanProgress, measure_progress
from rheostat.reassign.view import PlanView, render_progress
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

SNAPSHOT = ReassignmentSnapshot(
    frozenset({1, 2, 3, 4}),
    {
        ("t", 0): CurrentAssignment(3, (3, 4), (3, 4)),
        ("t", 1): CurrentAssignment(1, (3, 4, 1, 2), (1, 2), (3, 4), (1, 2)),
    },
    log_bytes={1: {("t", 1): 1_000_000_000}, 3: {("t", 1): 500_000_000}, 4: {("t", 1): 0}},
)
PARTITIONS = {("t", n): PlanPartition((3, 4), (1, 2), 1e9) for n in range(2)}
REQUESTED = {("t", 1): RequestedStep((3, 4), (1, 2))}
ONE_SIDE = ("broker 1 leader: 5",)


def make_progress(**state: Any) -> PlanProgress:
    head = PlanHead("p1", "kim@desk", 0, 5, 1, limits=BatchLimits(partition_movements_max=1))
    return measure_progress(
        Plan(head, PARTITIONS, REQUESTED, PlanState(acknowledged_at_ms=5, **state)), SNAPSHOT, 100_000
    )


def ended_progress() -> PlanProgress:
    ended = make_progress(ending=PlanEnding.DONE)
    return replace(ended, plan=replace(ended.plan, partitions={}))


def render_lines(progress: PlanProgress, columns: int) -> list[str]:
    console = Console(file=io.StringIO(), width=columns, record=True)
    console.print(render_progress(progress, 50e6))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_render_progress_shows_bytes_partitions_time_batch_limits_and_slots() -> None:
    slots = tuple(f"broker {b} leader: 5 at a time: as every plan begins" for b in range(6))
    lines = render_lines(make_progress(concurrency=slots), 100)
    assert lines[0].startswith("━━")
    assert lines[0].endswith("  62%  2.50 GB of 4.00 GB, 50.0 MB/s, about 54 s left")
    assert lines[1:4] == [
        "  1 of 2 partitions, 1 moving: t-1 (3,4,1,2) → (3,4)",
        "  at most 1 partition movement at a time",
        "  broker 0 leader: 5 at a time: as every plan begins",
    ]
    assert lines[7:] == ["  and 2 more sides of brokers", ""], "the cursor waits on an empty line"


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_render_progress_on_narrow_terminal_breaks_no_line(columns: int) -> None:
    progress = make_progress(concurrency=ONE_SIDE)
    lines = render_lines(progress, columns)
    assert len(lines) == len(render_lines(progress, 200))
    assert max(map(len, lines)) <= columns


def make_terminal() -> Console:
    return Terminal(file=io.StringIO(), force_terminal=True, width=60, _environ={"TERM": "xterm"})


def output_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_print_line_on_terminal_breaks_between_words() -> None:
    console = make_terminal()
    with PlanView(console) as view:
        view.print_line("the tuner here has not begun yet; its log: /home/kim/.local/state/rheostat/reassign.log")
    assert "/home/kim/.local/state/rheostat/reassign.log" in output_of(console).replace("\x1b", "")


def test_view_of_ended_plan_leaves_no_empty_display() -> None:
    console = make_terminal()
    with PlanView(console) as view:
        view.show(make_progress(), None)
        view.show(ended_progress(), None)
    assert "0 of 0" not in output_of(console)
    file = io.StringIO()
    with PlanView(Console(file=file, width=200)) as view:
        view.show(ended_progress(), None)
    assert file.getvalue() == ""


def test_view_on_dumb_terminal_prints_lines() -> None:
    file = io.StringIO()
    with PlanView(Console(file=file, force_terminal=True, width=200, _environ={"TERM": "dumb"})) as view:
        view.show(make_progress(), None)
    assert file.getvalue().startswith("1 of 2 partitions, ")


def test_deferred_ctrl_c_keeps_the_first_and_raises_the_second() -> None:
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
    ("key", "standalone", "code", "order"),
    [
        ("l", True, EXIT_INTERRUPTED, None), ("", True, EXIT_INTERRUPTED, None), ("x", False, EXIT_INTERRUPTED, None),
        ("p", True, None, "pause"), ("c", True, None, "cancel"), ("P", False, 0, "pause"), ("c", False, 0, "cancel"),
    ],
)  # fmt: skip
def test_handle_interrupt_submits_the_chosen_order(
    monkeypatch: pytest.MonkeyPatch, key: str, standalone: bool, code: int | None, order: str | None
) -> None:
    orders: list[str] = []
    plan = make_progress().plan
    store = SimpleNamespace(read_plans=lambda _: SimpleNamespace(find=lambda _: plan))
    monkeypatch.setattr("sys.stdin", Tty(f"{key}\n"))
    monkeypatch.setattr("sys.stderr", Tty())
    monkeypatch.setattr(interrupted, "plan_store", store)
    for name in ("pause", "cancel"):
        monkeypatch.setattr(
            interrupted, name, lambda *_, n=name: orders.append(n) or SimpleNamespace(text=n, acknowledged=True)
        )
    assert EXIT_INTERRUPTED == 130
    assert handle_interrupt(SimpleNamespace(), "p1", standalone=standalone) == code  # type: ignore[arg-type]  # the settings are only handed on
    assert orders == ([order] if order else [])


def test_wait_for_cleanup_ends_when_throttles_are_removed_or_late(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("rheostat.reassign.embedded_service.state_dir", lambda: tmp_path)
    monkeypatch.setattr("rheostat.reassign.embedded_service._POLL_S", 0.2)
    service = EmbeddedService(tmp_path / "rheostat.yaml", other_tuners=None)
    answers, ticks = [True, True, False], []
    assert service.wait_for_cleanup(lambda: answers.pop(0), lambda: ticks.append(1))
    assert (answers, len(ticks)) == ([], 2)
    monkeypatch.setattr("rheostat.reassign.embedded_service.CLEANUP_S_MAX", 0.3)
    assert not service.wait_for_cleanup(lambda: True, lambda: None), "the wait has a bound"
    assert EmbeddedService(None, other_tuners=1).wait_for_cleanup(lambda: True, lambda: None), (
        "another tuner removes them"
    )
