"""Shared helpers for tests with real processes: waiting with a deadline, and processes that end with their test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from rheostat.lab.cluster import Lab, LabSpec
from streaming.collector.jmx import ScrapeError, read_samples
from streaming.shared.contract import Metric
from streaming.shared.kafka import KafkaSettings, producer

T = TypeVar("T")
MakeLab = Callable[[LabSpec], Lab]

RHEOSTAT = (sys.executable, "-m", "rheostat")
STOP_S_MAX = 30.0
WAIT_S_MIN = 30.0  # A step that is short on an idle machine may take this long on a busy one.


def until(
    probe: Callable[[], T],
    timeout_s: float,
    what: str | Callable[[], str],
    *,
    every_s: float = 0.1,
    is_bound: bool = False,
) -> T:
    """Waits for the first true result of ``probe`` and returns it; fails after the timeout and names ``what``.

    Args:
        timeout_s: the longest wait, but at least ``WAIT_S_MIN``.
        is_bound: the test proves that the result comes within ``timeout_s``, so the wait is not longer.
    """
    longest_s = timeout_s if is_bound else max(timeout_s, WAIT_S_MIN)
    deadline = time.monotonic() + longest_s
    while not (found := probe()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {longest_s:.0f} s: {what if isinstance(what, str) else what()}")
        threading.Event().wait(every_s)
    return found


def within(bound_s: float, call: Callable[[], T], tries: int = 5) -> T:
    """Returns the first result of ``call`` that took less than ``bound_s``; fails if each of ``tries`` calls took longer.

    So a moment in which other processes have the processors fails no test.
    """
    took_s: list[float] = []
    for _ in range(tries):
        began_s = time.monotonic()
        found = call()
        took_s.append(time.monotonic() - began_s)
        if took_s[-1] < bound_s:
            return found
    pytest.fail(f"took {', '.join(f'{each:.2f}' for each in took_s)} s; {bound_s} s are allowed")


def wait_for_metadata(lab: Lab) -> None:
    """Waits until each running broker has applied all changes that the controller made before this call.

    A broker answers with its own copy of the metadata, which is some milliseconds behind the controller's, and a client may ask
    another broker each time. The controller writes a record every half second. A broker that has applied a record from after this
    call has applied all earlier ones.
    """
    called_ms = time.time() * 1000
    behind = {node.node_id for node in lab.brokers if node.alive()}

    def all_follow() -> bool:
        for broker in list(behind):
            asked_ms = time.time() * 1000
            try:
                samples = read_samples(lab.nodes[broker].jmx_url, 10.0)
            except ScrapeError:
                continue
            if any(s.name == Metric.BROKER_METADATA_LAG and asked_ms - s.value > called_ms for s in samples):
                behind.discard(broker)
        return not behind

    until(all_follow, 60, lambda: f"the brokers {sorted(behind)} apply the newest metadata")


def rheostat(
    *arguments: str | Path, env: Mapping[str, str] | None = None, timeout_s: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Runs one command of the program to its end."""
    return subprocess.run(
        [*RHEOSTAT, *map(str, arguments)],
        capture_output=True, text=True, timeout=timeout_s, check=False, env={**os.environ, **(env or {})},
    )  # fmt: skip


class HeaderKeyNotUtf8(str):
    """A header key that brokers accept and kafka-python cannot decode; Kafka's own producers never send it."""

    def encode(self, *_: str) -> bytes:
        return b"\xff\xfe"


def write_records_with_bad_headers(settings: KafkaSettings, topics: Iterable[str]) -> None:
    """Writes two records with such headers to each topic: one in a batch of its own, one among others."""
    bad = [(HeaderKeyNotUtf8("bad"), b"x")]
    sender = producer(settings, "test-headers", linger_ms=0, compression_type=None)
    try:
        for topic in topics:
            sender.send(topic, key=b"unknown", value=b"alone", headers=bad, partition=0).get(timeout=20)
            for headers in ([], bad, []):
                sender.send(topic, key=b"unknown", value=b"among others", headers=headers, partition=0)
        sender.flush(timeout=20)
    finally:
        sender.close(timeout=5)


class Running:
    """A process under test, with its output in a file; its descendants are known by their process ids."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.pid = process.pid
        self._log = log
        self._known: dict[int, psutil.Process] = {}

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def lines(self) -> list[dict[str, Any]]:
        """Returns its log lines in JSON, without other output, and without a line that it is still writing."""
        lines = self.said().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    def descendants(self) -> list[psutil.Process]:
        try:
            found = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            found = []
        self._known |= {p.pid: p for p in found}
        return found

    def left(self) -> list[psutil.Process]:
        """Returns known descendants that are still alive, also after they got another parent."""
        return [p for p in self._known.values() if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self, number: signal.Signals, timeout_s: float = STOP_S_MAX) -> int:
        self.descendants()
        if self.alive():
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"did not end within {timeout_s:.0f} s of {number.name}:\n{self.said()[-3000:]}")


@contextmanager
def running(*command: str | Path, log: Path, env: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Starts ``command``; at the end all of its processes are killed by id. A failure contains the output."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*map(str, command)], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True, env={**os.environ, **(env or {})},
        )  # fmt: skip
    run = Running(process, log)
    try:
        yield run
    except BaseException as error:
        error.add_note(f"{' '.join(map(str, command[-3:]))} said:\n{run.said()[-4000:]}")
        raise
    finally:
        run.descendants()
        if run.alive():
            process.kill()
        process.wait(timeout=10)
        for one in run.left():
            one.kill()


def is_java(process: psutil.Process) -> bool:
    try:
        return process.name() == "java"
    except psutil.NoSuchProcess:
        return False


def java_processes_of(home: Path | str) -> list[int]:
    """Returns the Java processes that name ``home`` in their command line: the nodes of one lab."""
    found = []
    for process in psutil.process_iter(["pid", "name", "cmdline", "status"]):
        info = process.info
        named = any(str(home) in part for part in info["cmdline"] or ())
        if info["name"] == "java" and named and info["status"] != psutil.STATUS_ZOMBIE:
            found.append(int(info["pid"]))
    return found
