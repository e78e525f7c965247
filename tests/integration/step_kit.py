"""What the step response is measured with: what comes through, by the destination's log files, and two hands that turn.

Ramp     plan/slew.py's line as the production Slewing drives it: what a rescue does.
Law      decide/replication_rate.py, asked once a second, with signals of what came through, some seconds late: what steering does. It
         paces the leader side through the quota's window and lets the follower's stand a little above.

Both act through the production Throttles port.
"""

from __future__ import annotations

import bisect
import itertools
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from streaming.contract import BrokerSignal, MoveSignal, Side, ThrottledBy
from tuner.actuate.slewing import Slewing
from tuner.actuate.throttles import Throttles
from tuner.decide.course import LawMemory, LawView
from tuner.decide.replication_rate import turn
from tuner.model.decision import Reason, SetRate
from tuner.model.limits import Limits
from tuner.model.objectives import Capacity, LawLimits, Mode, Objective
from tuner.plan.slew import WINDOW_S, slew
from tuner.steering import TURN_EVERY_S

RESCUE = Limits(rate_bytes_per_s_max=50e6)
LINK = Capacity(100e6, 100e6)
# The take-over of a rate that stands is another story: here it is over at once. Nor are the rates of a lab those of a floor.
LIMITS = LawLimits(rate_bytes_per_s_min=0.5e6, rate_bytes_per_s_max=50e6, start_s=1.0)
SCRAPE_S, STEPS = 5.0, 5  # The stream's window.
LATE_S = 2.0  # What the tuner hears of is so old.
ENDLESS_BYTES = 1e12


@dataclass(slots=True)
class Growth:
    """The bytes in one topic's logs on one broker, looked at every 50 ms by a thread of its own."""

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
        """The size then, on the line between two looks."""
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
    """What came through in one phase."""

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
        """From now on this rate is meant."""

    def act(self) -> float:
        """Does what is due; the time at which something will be due again."""


class Ramp:
    """The rescue's line, on both sides at once, with the follower's slack."""

    def __init__(self, throttles: Throttles, source: int, target: int, stands_bytes_per_s: int) -> None:
        self._slewing = Slewing(throttles)
        self._stands = {(source, Side.LEADER): stands_bytes_per_s, (target, Side.FOLLOWER): stands_bytes_per_s}

    def to(self, rate_bytes_per_s: int) -> None:
        for (broker, side), live in self._stands.items():
            wanted = round((RESCUE.follower_slack if side is Side.FOLLOWER else 1.0) * rate_bytes_per_s)
            change = SetRate(broker, side, live, wanted, Reason.RESCUE_NEEDS_MORE, "a step")
            self._slewing.start(change, slew(live, wanted, sides=len(self._stands)), time.monotonic())
            self._stands[(broker, side)] = wanted

    def act(self) -> float:
        failed = [ended.failure for ended in self._slewing.step(time.monotonic()) if ended.failure is not None]
        assert failed == []
        due_s = self._slewing.next_due_s()
        return due_s if due_s is not None else time.monotonic() + 0.5


class Law:
    """The law as the tuner asks it, once a second; what is meant changes with the share of the link it may have."""

    def __init__(self, throttles: Throttles, source: int, target: int, stands_bytes_per_s: int, growth: Growth) -> None:
        self._throttles = throttles
        self._growth = growth
        self._leader, self._follower = (source, Side.LEADER), (target, Side.FOLLOWER)
        self._stands = {self._leader: stands_bytes_per_s, self._follower: stands_bytes_per_s}
        self._objective = _share_of(stands_bytes_per_s)
        self._memory = LawMemory()
        self._began_s = self._next_s = time.monotonic()
        self._heard: dict[int, tuple[BrokerSignal, MoveSignal]] = {}

    def to(self, rate_bytes_per_s: int) -> None:
        self._objective = _share_of(rate_bytes_per_s)

    def act(self) -> float:
        now_s = time.monotonic()
        if now_s < self._next_s:
            return self._next_s
        self._hear(now_s)
        brokers = {signal.broker: signal for signal, _ in self._heard.values()}
        moves = {(move.broker, move.side): move for _, move in self._heard.values()}
        view = LawView(_ms(now_s), brokers, moves, self._stands, dict.fromkeys(brokers, LINK))
        self._memory, writes = turn(view, self._memory, self._objective, LIMITS)
        answers = self._throttles.write_rates(writes) if writes else {}
        assert set(answers.values()) <= {None}
        self._stands |= writes
        self._next_s = max(self._next_s + TURN_EVERY_S, time.monotonic())
        return self._next_s

    def _hear(self, now_s: float) -> None:
        """The newest scrape that has come through the stream by now."""
        scrapes = int((now_s - LATE_S - self._began_s) / SCRAPE_S)
        to_s = self._began_s + max(0, scrapes) * SCRAPE_S
        steps = min(max(1, scrapes), STEPS)
        from_s = to_s - steps * SCRAPE_S
        mean = self._growth.passed(from_s, to_s) / (to_s - from_s)
        counted = self._growth.passed(to_s - WINDOW_S, to_s) / WINDOW_S
        for broker, side in (self._leader, self._follower):
            out, into = (mean, 0.0) if side is Side.LEADER else (0.0, mean)
            self._heard[broker] = (
                BrokerSignal(
                    "lab", broker, _ms(to_s), _ms(to_s), steps + 1, 1.0,
                    leader_throttled_bytes_per_s=counted, follower_throttled_bytes_per_s=counted,
                    throttled_by=ThrottledBy.QUOTA.value,
                    network_out_bytes_per_s=out, reassignment_out_bytes_per_s=out,
                    network_in_bytes_per_s=into, reassignment_in_bytes_per_s=into,
                    produce_p99_ms=1.0,
                ),
                MoveSignal(
                    "lab", broker, side, _ms(to_s), _ms(to_s), steps + 1, 1.0, moving_partitions=1, listed_partitions=1,
                    remaining_bytes=ENDLESS_BYTES, keep_up_bytes_per_s=0.0, write_bytes_per_s=0.0,
                ),
            )  # fmt: skip


def _share_of(rate_bytes_per_s: float) -> Objective:
    return Objective(latency_ms=50.0, mode=Mode.SHARE, share_max=rate_bytes_per_s / LINK.out_bytes_per_s)


def drive(hand: Hand, phases: Iterable[tuple[int, float]]) -> list[tuple[float, float]]:
    """Turns to each rate and stays with it so long; when each phase began and ended."""
    spans = []
    for rate, lasts_s in phases:
        began_s = time.monotonic()
        hand.to(rate)
        while (left_s := began_s + lasts_s - time.monotonic()) > 0:
            due_s = hand.act()
            threading.Event().wait(min(left_s, max(0.0, due_s - time.monotonic())))
        spans.append((began_s, began_s + lasts_s))
    return spans


def _ms(at_s: float) -> int:
    return round(at_s * 1000)
