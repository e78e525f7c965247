"""Observes a plan on real brokers once a second: the rates of all throttles, and the bytes that passed each of them.

The bytes are the growth of logs, read from their folders, so brokers do no work for it. The bytes that a new replica's log gains
have passed the throttles of its follower and of its leader. The bytes that the leader's log gains passed the leader's throttle too,
because its in-sync follower fetches them. A new replica counts until the first look at which its partition no longer moves.
Retention makes a log shorter; such an interval counts as no growth.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from streaming.shared.contract import Side
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.simulation.calm import (
    Calm,
    Silence,
    ThrottleSeries,
    burst_ratio_max,
    rate_variation_per_min,
    undershoot_ratio,
    writes_per_broker_min,
)
from tuner.simulation.numbers import Floats

CHECK_EVERY_S = 1.0
_JOIN_S_MAX = 30.0

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Course:
    """The leader and the new replica of one partition of the plan."""

    leader: int
    new: int


@dataclass(frozen=True, slots=True)
class Look:
    """The cluster at one time.

    Attributes:
        at_s: monotonic time.
        rates: bytes/s by throttle; a throttle without a rate is left out.
        running: partitions that move.
        new_bytes, leader_bytes: size of the log on the new replica and on the leader, by partition; 0 without a log.
    """

    at_s: float
    rates: Mapping[BrokerSide, int]
    running: frozenset[Key]
    new_bytes: Mapping[Key, int]
    leader_bytes: Mapping[Key, int]


@dataclass(slots=True)
class _Intervals:
    """The bytes that passed the throttles of one kind between two looks."""

    rates: list[Floats] = field(default_factory=list)
    passed: list[Floats] = field(default_factory=list)
    has_work: list[Floats] = field(default_factory=list)

    def add(self, rates: Floats, passed: Floats, has_work: Floats) -> None:
        self.rates.append(rates)
        self.passed.append(passed)
        self.has_work.append(has_work)

    def series(self, step_s: Floats) -> ThrottleSeries:
        passed = np.array(self.passed) / step_s[:, np.newaxis]
        return ThrottleSeries(step_s, np.array(self.rates), passed, np.array(self.has_work, dtype=np.bool_))


def calm_of_looks(
    looks: Sequence[Look], courses: Mapping[Key, Course], brokers: int, *, writes: int, move_s: float
) -> Calm:
    """Returns the measures of calm of a plan.

    Args:
        looks: in the order of their times; the first one is before the plan begins.
        courses: by partition of the plan.
        brokers: their ids are 1 to ``brokers``.
        writes: settings that rheostat wrote meanwhile.
        move_s: duration of the plan.
    """
    kinds = {side: _Intervals() for side in Side}
    silence, done = Silence(brokers), set[Key]()
    for before, now in pairwise(looks):
        passed = {side: np.zeros(brokers) for side in Side}
        for key, course in courses.items():
            if key in done:
                continue
            copied = max(0, now.new_bytes[key] - before.new_bytes[key])
            fetched = max(0, now.leader_bytes[key] - before.leader_bytes[key]) if key in before.running else 0
            passed[Side.FOLLOWER][course.new - 1] += copied
            passed[Side.LEADER][course.leader - 1] += copied + fetched
            if key not in now.running and now.new_bytes[key] > 0:
                done.add(key)
        either, both = before.running | now.running, before.running & now.running
        for side in Side:
            rates = np.array([now.rates.get((b, side), math.inf) for b in range(1, brokers + 1)])
            kinds[side].add(rates, passed[side], _sides(either, courses, side, brokers))
        waits = _sides(both, courses, Side.FOLLOWER, brokers) > 0
        silence.add(waits & (passed[Side.FOLLOWER] <= 0), now.at_s - before.at_s)
    per_min = writes_per_broker_min(writes, brokers, move_s)
    if len(looks) < 2:
        return Calm(config_writes_per_broker_min=per_min)
    step_s = np.diff([look.at_s for look in looks])
    series = [kinds[side].series(step_s) for side in Side]
    return Calm(
        rate_variation_per_min=rate_variation_per_min(*series),
        burst_ratio_max=burst_ratio_max(*series),
        undershoot_ratio=undershoot_ratio(*series),
        silence_s_max=silence.longest_s,
        config_writes_per_broker_min=per_min,
    )


def _sides(running: frozenset[Key], courses: Mapping[Key, Course], side: Side, brokers: int) -> Floats:
    """Returns by broker the number of partitions that move under its throttle."""
    counts = np.zeros(brokers)
    for key in running & courses.keys():
        counts[(courses[key].leader if side is Side.LEADER else courses[key].new) - 1] += 1
    return counts


class PlanWatch:
    """Looks once a second in a thread of its own. Use it as a context manager; the first look is before the block."""

    def __init__(
        self,
        courses: Mapping[Key, Course],
        snapshot: Callable[[], object],
        log_folders: Mapping[int, Path],
    ) -> None:
        """
        Args:
            courses: by partition of the plan.
            snapshot: reads the cluster; its connection must not be used by another thread.
            log_folders: the folder of the logs of each broker.
        """
        self._courses = courses
        self._snapshot = snapshot
        self._folders = log_folders
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plan-watch", daemon=True)
        self.looks: list[Look] = []

    def __enter__(self) -> PlanWatch:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(_JOIN_S_MAX)
        assert not self._thread.is_alive(), "a snapshot of the cluster hangs"

    def _run(self) -> None:
        due_s = time.monotonic()
        while not self._ends.wait(max(0.0, due_s - time.monotonic())):
            self._look()
            due_s = max(due_s + CHECK_EVERY_S, time.monotonic())

    def _look(self) -> None:
        at_s, live = time.monotonic(), self._snapshot()
        if not isinstance(live, LiveCluster):  # No answer: the next interval is longer.
            return
        self.looks.append(
            Look(
                at_s=at_s,
                rates={side: rate.bytes_per_s for side, rate in live.rates.items()},
                running=frozenset((move.topic, move.partition) for move in live.moves if move.adding),
                new_bytes={key: self._log_bytes(course.new, key) for key, course in self._courses.items()},
                leader_bytes={key: self._log_bytes(course.leader, key) for key, course in self._courses.items()},
            )
        )

    def _log_bytes(self, broker: int, key: Key) -> int:
        folder = self._folders[broker] / f"{key[0]}-{key[1]}"
        total = 0
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".log"):
                        total += entry.stat().st_size
        except FileNotFoundError:  # No replica here, or a segment that was deleted meanwhile.
            return total
        return total
