"""No node outlives the process that holds its lab, however and whenever that process ends."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from lab_parts import Running, is_java, java_processes_of, running, until

# As `rheostat demo` and `rheostat lab keep` hold one: the program's own handling of signals around a Lab.
HOLDER = """
import sys, threading
from rheostat import cli
from rheostat.lab.cluster import Lab, LabSpec

def hold(*args, **kwargs):
    with Lab(LabSpec(brokers=1)) as lab:
        print("up", lab.home, flush=True)
        while True:  # Not one endless wait: a signal just before it would wake nobody.
            threading.Event().wait(0.2)

cli.app = hold
cli.main()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Running]:
    """A process that starts a lab in the test's own temporary folder."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    with running(
        sys.executable, "-c", HOLDER, log=tmp_path / "holder.log", env={"TMPDIR": str(folder)}
    ) as process:  # fmt: skip
        yield process
    assert java_processes_of(folder) == []


def nodes(holder: Running) -> list[psutil.Process]:
    return [p for p in holder.descendants() if is_java(p)]


def await_up(holder: Running) -> None:
    until(lambda: "up " in holder.said() or not holder.alive(), 90, "the lab is up")
    assert len(nodes(holder)) == 2


def test_sigkill_of_lab_holder_ends_its_nodes(holder: Running, tmp_path: Path) -> None:
    await_up(holder)

    assert holder.end(signal.SIGKILL) == -signal.SIGKILL

    until(lambda: java_processes_of(tmp_path) == [], 5, "no node is left")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_lab_stopped_while_running_leaves_nothing(holder: Running, tmp_path: Path, number: signal.Signals) -> None:
    await_up(holder)

    assert holder.end(number, 60) == 128 + number

    assert java_processes_of(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []
    assert "Traceback" not in holder.said()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
# The first Java process is the one that is asked for its version.
@pytest.mark.parametrize("count", [1, 2], ids=["looking for Java", "nodes are starting"])
def test_lab_stopped_while_starting_leaves_nothing(
    holder: Running, tmp_path: Path, number: signal.Signals, count: int
) -> None:
    until(lambda: len(nodes(holder)) >= count, 60, f"{count} Java processes run", every_s=0.005)

    assert holder.end(number, 60) == 128 + number

    assert java_processes_of(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []
    assert "Traceback" not in holder.said()


def test_second_stop_signal_leaves_no_process(holder: Running, tmp_path: Path) -> None:
    """Further signals after Ctrl-C must not interrupt the shutdown of the nodes."""
    await_up(holder)

    holder.process.send_signal(signal.SIGINT)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        if holder.alive():
            holder.process.send_signal(number)
    holder.process.wait(timeout=60)

    until(lambda: java_processes_of(tmp_path) == [], 5, "no node is left")
