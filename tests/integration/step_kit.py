"""Measures step responses: the throughput from the destination's log files, and the two methods that change the rate.

ramp     the line of control/throttle/quota_window/ramp.py, driven by the production Slewing, as in a rescue.
steered  benchmarks/bursts/law.py: closed-loop control, also used by the simulated twin of this test.

Both write through the production Throttles port.
"""

from __future__ import annotations

import bisect
import itertools
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks.bursts.law import Law
from streaming.shared.contract import Side
from tuner.control.throttle.decision import Reason, SetRate
from tuner.control.throttle.quota_window.ramp import plan_ramp
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import ThrottleLimits
from tuner.runtime.throttle.actuator import Throttles
from tuner.runtime.throttle.ramp_executor import RampExecutor

RESCUE = ThrottleLimits(rate_bytes_per_s_max=50e6)


@dataclass(slots=True)
class Growth:
    """The size of one topic's logs on one broker, read every 50 ms in a thread."""

    folders: Sequence[Path]
    at_s: list[float] = field(default_factory=list)
    size_bytes: list[int] = field(default_factory=list)
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Growth:
        self._thread = threading.Thread(target=self._watch, name="growth", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            size = sum(log.stat().st_size for folder in self.folders for log in folder.glob("*.log"))
            self.at_s.append(time.monotonic())
            self.size_bytes.append(size)

    def at(self, at_s: float) -> float:
        """Returns the size at ``at_s``, interpolated between two readings."""
        i = bisect.bisect_left(self.at_s, at_s)
        if i == 0 or i == len(self.at_s):
            return float(self.size_bytes[min(i, len(self.at_s) - 1)]) if self.at_s else 0.0
        (t0, t1), (b0, b1) = self.at_s[i - 1 : i + 1], self.size_bytes[i - 1 : i + 1]
        return b0 + (b1 - b0) * (at_s - t0) / (t1 - t0)

    def passed(self, from_s: float, to_s: float) -> float:
        return self.at(to_s) - self.at(from_s)

    def response(self, from_s: float, to_s: float) -> Response:
        looks = [(t, b) for t, b in zip(self.at_s, self.size_bytes, strict=True) if from_s <= t <= to_s]
        seconds = [self.passed(t, t + 1.0) for t, _ in looks if t + 1.0 <= to_s]
        grown = [from_s, *(t for (_, before), (t, after) in itertools.pairwise(looks) if after > before), to_s]
        by_second = [self.passed(from_s + i, from_s + i + 1) for i in range(int(to_s - from_s))]
        return Response(
            peak_bytes=max(seconds),
            silence_s=max(after - before for before, after in itertools.pairwise(grown)),
            mean_bytes_per_s=self.passed(from_s, to_s) / (to_s - from_s),
            seconds=tuple(by_second),
        )


@dataclass(frozen=True, slots=True)
class Response:
    """The throughput during one phase."""

    peak_bytes: float  # Of the fullest second, wherever it begins.
    silence_s: float  # The longest time without a byte.
    mean_bytes_per_s: float
    seconds: tuple[float, ...]  # Bytes by whole seconds of the phase.

    def told(self, name: str, rate_bytes_per_s: float) -> str:
        by_second = " ".join(f"{second / 1e6:.0f}" for second in self.seconds)
        return (
            f"{name:22} peak {self.peak_bytes / rate_bytes_per_s:4.1f} × target, silence {self.silence_s:4.1f} s, "
            f"mean {self.mean_bytes_per_s / rate_bytes_per_s:4.2f} × target; MB by the second: {by_second}"
        )


class Hand(Protocol):
    def to(self, rate_bytes_per_s: int) -> None:
        """Starts a change to this rate."""

    def act(self) -> float:
        """Executes due writes; returns the time of the next one."""


class Ramp:
    """The ramp of a rescue, on both sides at once, with the follower's slack."""

    def __init__(self, throttles: Throttles, source: int, target: int, stands_bytes_per_s: int) -> None:
        self._ramps = RampExecutor(throttles)
        self._stands = {(source, Side.LEADER): stands_bytes_per_s, (target, Side.FOLLOWER): stands_bytes_per_s}

    def to(self, rate_bytes_per_s: int) -> None:
        for (broker, side), live in self._stands.items():
            wanted = round((RESCUE.follower_slack if side is Side.FOLLOWER else 1.0) * rate_bytes_per_s)
            change = SetRate(broker, side, live, wanted, Reason.RESCUE_NEEDS_MORE, "a step")
            self._ramps.start(change, plan_ramp(live, wanted, sides=len(self._stands)), time.monotonic())
            self._stands[(broker, side)] = wanted

    def act(self) -> float:
        failed = [ended.failure for ended in self._ramps.step(time.monotonic()) if ended.failure is not None]
        assert failed == []
        due_s = self._ramps.next_due_s()
        return due_s if due_s is not None else time.monotonic() + 0.5


def steered(throttles: Throttles, growth: Growth, source: int, target: int, stands_bytes_per_s: int) -> Law:
    def write(rates: Mapping[BrokerSide, int]) -> None:
        answers = throttles.write_rates(rates)
        assert set(answers.values()) <= {None}

    return Law(write, growth.passed, time.monotonic, source, target, stands_bytes_per_s)


def drive(hand: Hand, phases: Iterable[tuple[int, float]]) -> list[tuple[float, float]]:
    """Changes to each rate and holds it for its time; returns begin and end of each phase."""
    spans = []
    for rate, lasts_s in phases:
        began_s = time.monotonic()
        hand.to(rate)
        while (left_s := began_s + lasts_s - time.monotonic()) > 0:
            due_s = hand.act()
            threading.Event().wait(min(left_s, max(0.0, due_s - time.monotonic())))
        spans.append((began_s, began_s + lasts_s))
    return spans
