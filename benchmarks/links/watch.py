"""Observes a run: the move second by second, and the load of the processors."""

from __future__ import annotations

import datetime
import json
import re
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import psutil

from benchmarks.links.score import Row
from rheostat.errors import CommandError

T = TypeVar("T")
_WRITES = re.compile(r"^rheostat_actuations_total\S* (\S+)", re.MULTILINE)


@dataclass(slots=True)
class Watch:
    """Values of a move, second by second."""

    at_s: list[float] = field(default_factory=list)
    out_bytes: list[int] = field(default_factory=list)
    copied_bytes: list[int] = field(default_factory=list)
    rates: list[int | None] = field(default_factory=list)

    def saw(self, now_s: float, out_bytes: int, copied_bytes: int, rate_bytes_per_s: int | None) -> None:
        self.at_s.append(now_s)
        self.out_bytes.append(out_bytes)
        self.copied_bytes.append(copied_bytes)
        self.rates.append(rate_bytes_per_s)

    def told(self, began_s: float) -> list[Row]:
        """Returns outbound MB/s and leader rate of the source, and MB/s that reach the new broker, for each second of the move."""
        looks = zip(self.at_s, self.out_bytes, self.copied_bytes, self.rates, strict=True)
        return [
            {
                "t_s": round(t - began_s, 2),
                "out_MB_per_s": round((b - a) / (t - s) / 1e6, 2),
                "copied_MB_per_s": round((d - c) / (t - s) / 1e6, 3),
                "rate_MB_per_s": None if rate is None else round(rate / 1e6, 3),
            }
            for (s, a, c, _), (t, b, d, rate) in pairwise(looks)
        ]


class Processors:
    """The load of the processors since the creation of this object, in total and by the benchmark's own processes."""

    def __init__(self) -> None:
        psutil.cpu_percent()
        self._ours_s = _ours_s()

    def shares(self, lasted_s: float) -> tuple[float, float]:
        """Returns the share of the benchmark's processes, and that of everything, including the kernel's work for the links."""
        ours_s = _ours_s() - self._ours_s
        return ours_s / lasted_s / (psutil.cpu_count() or 1), psutil.cpu_percent() / 100


def _ours_s() -> float:
    """Returns the CPU seconds of this process and its living children; those of ended ones are few."""
    total, own = 0.0, psutil.Process()
    for process in (own, *own.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


class Aside:
    """A call in another thread; ``join`` raises its error."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, name="aside", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:  # noqa: BLE001 - raised again in ``join``.
            self._error = error

    def failed(self) -> bool:
        if self._error is not None:
            raise self._error
        return False

    def join(self) -> None:
        self._thread.join(timeout=60)
        self.failed()


def awaited(what: str, probe: Callable[[], T], timeout_s: float, *, every_s: float = 0.3) -> T:
    """Returns the first result of ``probe`` that is not None.

    Raises:
        CommandError: there is none in time.
    """
    deadline = time.monotonic() + timeout_s
    while not (found := probe()):
        if time.monotonic() > deadline:
            raise CommandError(f"Not within {timeout_s:.0f} s: {what}.")
        threading.Event().wait(every_s)
    return found


def config_writes(metrics_url: str) -> int:
    """Returns the settings that a tuner has written since its start, or in a dry run would have written."""
    return round(sum_on_page(metrics_url, _WRITES))


def sum_on_page(url: str, sample: re.Pattern[str]) -> float:
    """Returns the sum of the samples on a page of metrics; the group of ``sample`` is a value."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        return sum(map(float, sample.findall(answer.read().decode())))


def fetched(url: str) -> Row | None:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            found: Row = json.loads(answer.read())
            return found
    except OSError:
        return None


def say(text: str) -> None:
    print(f"{datetime.datetime.now(datetime.UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)
