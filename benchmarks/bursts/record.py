"""Records rate changes on real brokers: ``python -m benchmarks.bursts.record [--runs N] [--into FOLDER] [--only NAME]``.

Four pairs of brokers have their own quotas, so they do not share a limit. Each pair makes one run after another, each with a fresh
copy of the same topic, and starts when its quota window is empty again. The peak depends on the phase of the quota window, so each
run makes its two changes at another phase.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from benchmarks.bursts.methods import (
    END_S,
    LOW,
    MB,
    MOMENTS,
    QUOTA_S,
    Feedback,
    Method,
    changes,
    in_one_step,
    linear,
)
from benchmarks.bursts.recordings import FOLDER, TICK_S, Run, write
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS

PARTITIONS = 4
PRELOAD_BYTES = round(1_300 * MB)  # A run takes 5 × 37 + 20 × 36 + 5 × 35 MB, and what a burst brings before its time.
WAIT_S_MAX = 60.0
FORGOTTEN_S = QUOTA_S + 3.0
L, F = Side.LEADER, Side.FOLLOWER
BOTH = (L, F)

WINDOW_3 = {"replication.quota.window.num": "3"}
SMALL = {"replica.fetch.max.bytes": str(256 * 1024), "replica.fetch.response.max.bytes": str(1024 * 1024)}


@dataclass(frozen=True, slots=True)
class Story:
    name: str
    method: Method | Feedback
    sides: tuple[Side, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    leader: int
    follower: int
    settings: Mapping[str, str]
    stories: tuple[Story, ...]

    @property
    def topic(self) -> str:
        return f"pair-{self.leader}"


RAMP_11, RAMP_22 = linear(11, 1.0), linear(22, 0.5)
PAIRS = (
    Pair(
        1,
        2,
        {},
        (Story("step", in_one_step, BOTH), Story("ramp_22", RAMP_22, BOTH), Story("feedback_1", Feedback(1.0), BOTH)),
    ),
    Pair(3, 4, {}, (Story("ramp_11_follower", RAMP_11, (F,)), Story("feedback_05", Feedback(0.5), BOTH))),
    Pair(5, 6, WINDOW_3, (Story("window_3_step", in_one_step, (F,)), Story("window_3_ramp_22", RAMP_22, (F,)))),
    Pair(
        7,
        8,
        WINDOW_3 | SMALL,
        (Story("small_window_3_step", in_one_step, (F,)), Story("small_window_3_ramp_22", RAMP_22, (F,))),
    ),
)


class Follower:
    """Sizes of the topic's logs on the follower, read every tenth of a second."""

    def __init__(self, home: Path, topic: str) -> None:
        self._folders = [home / f"{topic}-{p}" for p in range(PARTITIONS)]
        self.looks: list[tuple[float, int]] = []

    def there(self) -> bool:
        return any(folder.exists() for folder in self._folders)

    def look(self) -> int:
        size = sum(log.stat().st_size for folder in self._folders for log in folder.glob("*.log"))
        self.looks.append((time.monotonic(), size))
        return size

    def passed(self, from_s: float) -> int:
        """Returns the bytes that have arrived since ``from_s``."""
        return self.looks[-1][1] - next((size for at_s, size in reversed(self.looks) if at_s <= from_s), 0)

    def grown_kb(self, from_s: float) -> tuple[int, ...]:
        """Returns the growth per tick from ``from_s`` on."""
        ats, sizes = zip(*self.looks, strict=True)
        ticks = int((ats[-1] - from_s) / TICK_S)
        edges = [_at(from_s + i * TICK_S, ats, sizes) for i in range(ticks + 1)]
        return tuple(round(after / 1e3) - round(before / 1e3) for before, after in pairwise(edges))


def _at(at_s: float, ats: tuple[float, ...], sizes: tuple[int, ...]) -> float:
    """Returns the last size that was read before ``at_s``."""
    low, high = 0, len(ats)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if ats[middle] <= at_s else (low, middle)
    return float(sizes[low - 1]) if low else 0.0


class Recorder:
    def __init__(self, lab: Lab, pair: Pair, client: ClusterClient, admin: KafkaAdminClient) -> None:
        self._lab, self._pair, self._client, self._admin = lab, pair, client, admin
        self._partitions = [TopicPartition(pair.topic, p) for p in range(PARTITIONS)]

    def fill(self) -> None:
        pair = self._pair
        replicas = {p: [pair.leader] for p in range(PARTITIONS)}
        self._admin.create_topics([NewTopic(pair.topic, replica_assignments=replicas)])
        with ProducerLoad(
            self._lab.artifacts,
            self._lab.bootstrap_servers,
            pair.topic,
            rate_bytes_per_s=None,
            record_bytes=100_000,
            total_bytes=PRELOAD_BYTES,
            properties=("batch.size=100000", "linger.ms=5"),
        ) as load:
            load.wait(180)

    def run(self, story: Story, moments: tuple[float, float]) -> Run:
        pair = self._pair
        follower = Follower(self._lab.nodes[pair.follower].home / "data", pair.topic)
        to_write = _Hand(story, moments, lambda rate: self._set(story, rate))
        to_write.start()
        lists = {
            LIST_KEYS[L]: ",".join(f"{p}:{pair.leader}" for p in range(PARTITIONS)),
            LIST_KEYS[F]: ",".join(f"{p}:{pair.follower}" for p in range(PARTITIONS)),
        }
        listed = {LIST_KEYS[side]: lists[LIST_KEYS[side]] for side in story.sides}
        _raise_failed(self._client.alter_topic_configs({pair.topic: listed}))
        self._admin.alter_partition_reassignments(
            {partition: [pair.leader, pair.follower] for partition in self._partitions}
        )
        _until(lambda: follower.look() > 0, "the follower begins to copy", 0.02)
        began_s = next(at_s for at_s, size in follower.looks if size > 0)
        ends_s = began_s + changes(moments)[-1][0] + END_S
        while (now_s := time.monotonic()) < ends_s:
            follower.look()
            to_write.act(now_s - began_s, follower.passed(now_s - QUOTA_S))
            threading.Event().wait(max(0.0, 0.05 - (time.monotonic() - now_s)))
        if pair.topic not in {state.topic for state in self._client.reassignments()}:
            raise RuntimeError(
                f"{story.name}: the copy ended before its run did; fill more than {PRELOAD_BYTES:,} bytes"
            )
        self._undo(follower)
        return Run(moments, follower.grown_kb(began_s - TICK_S / 2))

    def _set(self, story: Story, rate: float) -> None:
        brokers = {L: self._pair.leader, F: self._pair.follower}
        _raise_failed(
            self._client.alter_broker_configs({brokers[s]: {RATE_KEYS[s]: str(round(rate))} for s in story.sides})
        )

    def _undo(self, follower: Follower) -> None:
        pair = self._pair
        self._admin.alter_partition_reassignments(dict.fromkeys(self._partitions))
        gone: dict[str, str | None] = dict.fromkeys(RATE_KEYS.values())
        _raise_failed(self._client.alter_broker_configs({pair.leader: gone, pair.follower: gone}))
        _raise_failed(self._client.alter_topic_configs({pair.topic: dict.fromkeys(LIST_KEYS.values())}))
        _until(lambda: not follower.there(), "the follower's copy is deleted", 0.2)
        threading.Event().wait(FORGOTTEN_S)


class _Hand:
    """Writes the rates of a method at their times."""

    def __init__(self, story: Story, moments: tuple[float, float], write_rate: Callable[[float], None]) -> None:
        self._method = story.method
        self._write = write_rate
        self._changes = changes(moments)
        self._due = (
            [] if isinstance(story.method, Feedback) else [w for change in self._changes for w in story.method(*change)]
        )
        if isinstance(story.method, Feedback):
            steps = round(story.method.lasts_s / story.method.every_s)
            self._asks = [
                (at_s, i * story.method.every_s, to) for at_s, _, to in self._changes for i in range(steps + 1)
            ]

    def start(self) -> None:
        """Sets the rates with which the copy begins."""
        if isinstance(self._method, Feedback):
            self._write(LOW / QUOTA_S)
            self._asks.pop(0)
        else:
            self._write(self._due.pop(0)[1])

    def act(self, at_s: float, got_bytes: int) -> None:
        """Writes the rates that are due.

        Args:
            at_s: seconds since the follower's first byte.
            got_bytes: bytes that passed in the last 11 s.
        """
        if isinstance(self._method, Feedback):
            while self._asks and self._asks[0][0] + self._asks[0][1] <= at_s:
                _, since_s, target = self._asks.pop(0)
                for rate in self._method.writes(target, since_s, got_bytes):
                    self._write(rate)
            return
        while self._due and self._due[0][0] <= at_s:
            self._write(self._due.pop(0)[1])


def _until(met: Callable[[], bool], what: str, every_s: float) -> None:
    gives_up_s = time.monotonic() + WAIT_S_MAX
    while not met():
        if time.monotonic() > gives_up_s:
            raise TimeoutError(f"Waited {WAIT_S_MAX:.0f} s for this and it did not come: {what}.")
        threading.Event().wait(every_s)


def _raise_failed(answers: Mapping[object, object]) -> None:
    for failure in answers.values():
        if isinstance(failure, BaseException):
            raise failure


def record(lab: Lab, pair: Pair, runs: int, folder: Path) -> None:
    with ClusterClient(lab.kafka_settings(), f"record-{pair.topic}") as client, lab.admin() as admin:
        recorder = Recorder(lab, pair, client, admin)
        recorder.fill()
        recorded: dict[str, list[Run]] = {story.name: [] for story in pair.stories}
        for i in range(runs):
            for story in pair.stories:
                recorded[story.name].append(recorder.run(story, MOMENTS[i * len(MOMENTS) // runs]))
                write(story.name, recorded[story.name], folder)
                print(f"{story.name}: run {i + 1} of {runs}", flush=True)


def _only(name: str) -> Iterator[Pair]:
    """Yields the pair that makes this recording, without its other recordings."""
    for pair in PAIRS:
        if stories := tuple(story for story in pair.stories if story.name == name):
            yield replace(pair, stories=stories)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.bursts.record", description=__doc__)
    parser.add_argument("--runs", type=int, default=8, help=f"of each, at most {len(MOMENTS)} (8)")
    parser.add_argument("--into", type=Path, default=FOLDER, help="the folder to write to (tests/traces/bursts)")
    parser.add_argument(
        "--only", choices=[story.name for pair in PAIRS for story in pair.stories], help="record one way"
    )
    given = parser.parse_args(arguments)
    if not 1 <= given.runs <= len(MOMENTS):
        parser.error(f"--runs {given.runs}: expected 1 to {len(MOMENTS)}")
    pairs = PAIRS if given.only is None else tuple(_only(given.only))
    by_node = {broker: dict(pair.settings) for pair in pairs for broker in (pair.leader, pair.follower)}
    settings = {"file.delete.delay.ms": "500", "log.segment.delete.delay.ms": "500"}
    spec = LabSpec(brokers=max(by_node), settings=settings, settings_by_node=by_node)
    with Lab(spec) as lab, ThreadPoolExecutor(len(pairs)) as pool:
        for ended in [pool.submit(record, lab, pair, given.runs, given.into) for pair in pairs]:
            ended.result()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
