"""The clusters of KIP-73's test plan: they are filled, moved, and the moved bytes are measured.

A leader counts the bytes that it sends, but a follower stores whole batches and discards the incomplete last batch of a fetch.
Batches are therefore small in comparison with a partition's share of a fetch, so that counted bytes are moved bytes.
"""

from __future__ import annotations

import itertools
import re
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka.admin import NewTopic

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import free_ports
from rheostat.lab.tools import reassign_partitions
from rheostat.run.supervisor import Supervisor, children_for
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.core.throttle_limits import MB
from tuner.runtime.observe.cluster_reader import ClusterReader

TOPIC, PARTITIONS = "data", 100
QUOTA = 8 * MB
WRITTEN = 1 * MB  # A second, where clients write.
LINK = 20 * MB
WINDOW_S, SETTLED_S, STEADY_S_MIN = 12.0, 12.0, 20.0
# One fetch is the same share of a second of the quota as Kafka's own 10 MiB are of 320 MB/s. And who is throttled asks ten times a
# second: with Kafka's waits of half a second and a whole one, what it is let comes in lumps of a second, and as the quota repeats
# every twelfth second whatever its window held, two lumps in twelve seconds are a twelfth too much.
FETCHES = {
    "replica.fetch.max.bytes": "65536",
    "replica.fetch.response.max.bytes": "262144",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "100",
}
# Alone in its batch, for which it is too large; with 72 bytes around it, five make up a partition's share but for 106 bytes.
RECORD_BYTES = 13_014
_LOOK_S = 0.25

_HALF = PARTITIONS // 2


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    brokers: int
    before: tuple[tuple[int, ...], ...]  # Replicas of the first and of the second half of the partitions, leader first.
    after: tuple[tuple[int, ...], ...]
    paced: BrokerSide  # The side that everything passes through.
    in_sync: int  # How often what is written counts against it besides what the new replicas fetch of it.
    writes: bool = False

    def of(self, halves: tuple[tuple[int, ...], ...]) -> dict[int, list[int]]:
        return {p: list(halves[p // _HALF]) for p in range(PARTITIONS)}

    @property
    def leaders(self) -> dict[int, int]:
        """Partition → leader before the move."""
        return {p: replicas[0] for p, replicas in self.of(self.before).items()}

    @property
    def adding(self) -> dict[int, list[int]]:
        """Broker → partitions that it receives."""
        found: dict[int, list[int]] = {}
        for p in range(PARTITIONS):
            for broker in set(self.after[p // _HALF]) - set(self.before[p // _HALF]):
                found.setdefault(broker, []).append(p)
        return found


_TWO = Case("2 nodes", 2, ((1,), (1,)), ((1, 2), (1, 2)), (1, Side.LEADER), in_sync=0)
_SPREAD = Case("3 nodes, 1 to 2", 3, ((1, 2), (1, 3)), ((2, 3), (3, 2)), (1, Side.LEADER), in_sync=1)
_GATHERED = Case("3 nodes, 2 to 1", 3, ((1, 2), (2, 1)), ((1, 3), (2, 3)), (3, Side.FOLLOWER), in_sync=0)
CASES = [
    Case(c.name + (", writing" if writes else ""), c.brokers, c.before, c.after, c.paced, c.in_sync, writes)
    for c in (_TWO, _SPREAD, _GATHERED)
    for writes in (False, True)
]


@dataclass(frozen=True, slots=True)
class Look:
    at_s: float
    added_bytes: int  # That the new replicas hold.
    leader_bytes: int  # That there are.
    begun: int = PARTITIONS  # New replicas that hold something.


@dataclass
class MoveObservations:
    """The observations of a move, and its figures."""

    case: Case
    looks: list[Look] = field(default_factory=list)
    told: list[tuple[float, float]] = field(default_factory=list)  # When, the paced side's own byte-rate.

    def rate(self, first: Look, last: Look) -> float:
        """Returns the moved bytes/s between two observations, relative to the quota less the writes."""
        lasted_s = last.at_s - first.at_s
        written = (last.leader_bytes - first.leader_bytes) / lasted_s
        moved = (last.added_bytes - first.added_bytes) / lasted_s - written
        return moved / (QUOTA - (1 + self.case.in_sync) * written)

    def steady_from_s(self, held_since_s: float) -> float:
        """Returns one window after the override is set and every copy runs; a busy machine needs seconds for that."""
        running_s = next(look.at_s for look in self.looks if look.begun == PARTITIONS)
        return max(held_since_s, running_s) + SETTLED_S

    def steady(self, held_since_s: float) -> float:
        from_s = self.steady_from_s(held_since_s)
        first = next(look for look in self.looks if look.at_s >= from_s)
        last = self.looks[-1]
        assert last.at_s - first.at_s >= STEADY_S_MIN, "the move is too short to tell: move more"
        return self.rate(first, last)

    def highest_12_s_ratio(self) -> float:
        """Returns the highest rate over exactly 12 s.

        Kafka's quota repeats every twelve seconds, so a slightly longer stretch would count the same burst twice.
        """
        most = 0.0
        for i, first in enumerate(self.looks):
            end_s = first.at_s + WINDOW_S
            after = next((j for j in range(i + 1, len(self.looks)) if self.looks[j].at_s >= end_s), None)
            if after is not None:
                most = max(most, self.rate(first, between(self.looks[after - 1], self.looks[after], end_s)))
        return most

    def own_byte_rate_ratio(self, held_since_s: float) -> float:
        """Returns the broker's own byte rate relative to the quota, while the move was steady."""
        from_s = self.steady_from_s(held_since_s)
        rates = [rate for at_s, rate in self.told if from_s <= at_s <= self.looks[-1].at_s]
        return sum(rates) / len(rates) / QUOTA


def between(one: Look, other: Look, at_s: float) -> Look:
    """Interpolates an observation between two others."""
    share = (at_s - one.at_s) / (other.at_s - one.at_s)
    added, led = (
        round(was + share * (later - was))
        for was, later in ((one.added_bytes, other.added_bytes), (one.leader_bytes, other.leader_bytes))
    )
    return Look(at_s, added, led, one.begun)


class MeasuredMove(MoveObservations):
    """Measures a move from the brokers' log files, with the paced side's metric, until the first copy ends.

    A busy broker answers DescribeLogDirs a second late, a tenth of a window, so the files are read directly.
    """

    def __init__(self, lab: Lab, case: Case) -> None:
        super().__init__(case)
        self._lab = lab
        self._stop = threading.Event()
        self._failed: list[Exception] = []
        self._thread = threading.Thread(target=self._run, name="seen", daemon=True)

    def __enter__(self) -> MeasuredMove:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=20)
        if self._failed:
            raise self._failed[0]

    def _run(self) -> None:
        try:
            with ClusterClient(self._lab.kafka_settings(), "test-seen") as client:
                moving, began = 0, False
                for turn in itertools.count():
                    if self._stop.wait(_LOOK_S):
                        return
                    if turn % 8 == 0:
                        moving = len(client.reassignments())
                        began = began or moving == PARTITIONS
                        self.told.append((time.monotonic(), self._byte_rate()))
                    if began and moving < PARTITIONS:
                        return
                    if began:
                        look = self._look()
                        # A leader that is done, and goes: what it held is no longer there, and was not unwritten.
                        if self.looks and look.leader_bytes < self.looks[-1].leader_bytes:
                            return
                        self.looks.append(look)
        except Exception as error:  # noqa: BLE001 - raised where the block ends
            self._failed.append(error)

    def _look(self) -> Look:
        case, began_s = self.case, time.monotonic()
        added = [held(self._lab, broker, p) for broker, own in case.adding.items() for p in own]
        leaders = [held(self._lab, leader, p) for p, leader in case.leaders.items()]
        # Hundreds of files are looked at in between; on a busy machine that is a percent of a window.
        at_s = (began_s + time.monotonic()) / 2
        return Look(at_s, sum(added), sum(leaders), sum(size > 0 for size in added))

    def _byte_rate(self) -> float:
        broker, side = self.case.paced
        with urllib.request.urlopen(self._lab.nodes[broker].jmx_url, timeout=30) as answer:
            found = re.search(rf"^kafka_server_{side}replication_byte_rate (\S+)", answer.read().decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0


# -- the parts --------------------------------------------------------------------------------------------------------


@contextmanager
def filled(case: Case, size_bytes: int) -> Iterator[Lab]:
    with Lab(LabSpec(brokers=case.brokers, broker_settings=FETCHES)) as lab, ExitStack() as stack:
        with lab.admin() as admin:
            admin.create_topics([NewTopic(TOPIC, -1, -1, replica_assignments=case.of(case.before))])
        with ProducerLoad(
            lab.artifacts, lab.bootstrap_servers, TOPIC,
            rate_bytes_per_s=None, record_bytes=RECORD_BYTES, total_bytes=size_bytes,
        ) as load:  # fmt: skip
            load.wait(120)
        if case.writes:
            stack.enter_context(
                ProducerLoad(
                    lab.artifacts, lab.bootstrap_servers, TOPIC, rate_bytes_per_s=WRITTEN, record_bytes=RECORD_BYTES
                )
            )
        yield lab


@contextmanager
def parts(lab: Lab, *names: str, **tuner: Any) -> Iterator[Supervisor]:
    """Runs some of rheostat's processes; other commands can use ``rheostat.yaml`` in the lab's home."""
    config = lab.home / "rheostat.yaml"
    config.write_text(lab_config(lab, http={"port": free_ports(1)[0]}, **tuner))
    wanted = [child for child in children_for(config, dry_run=False) if child.name in names]
    supervisor = Supervisor(wanted, log_to=lab.home / "logs" / "rheostat.log")
    try:
        supervisor.check()
        yield supervisor
    except BaseException:
        sys.stdout.write((lab.home / "logs" / "rheostat.log").read_text(errors="replace")[-8_000:])
        raise
    finally:
        supervisor.stop()


def move(lab: Lab, case: Case, throttle_bytes_per_s: int) -> None:
    target = {(TOPIC, p): replicas for p, replicas in case.of(case.after).items()}
    reassign_partitions(
        lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(throttle_bytes_per_s)
    )


def held(lab: Lab, broker: int, partition: int) -> int:
    """Returns the bytes of a replica on disk; 0 without a replica."""
    folder = lab.nodes[broker].home / "data" / f"{TOPIC}-{partition}"
    return sum(file.stat().st_size for file in folder.glob("*.log"))


def standing(client: ClusterClient) -> LiveCluster:
    live = ClusterReader(client).snapshot(full=True)
    assert isinstance(live, LiveCluster), live
    return live


def no_throttles_left(client: ClusterClient) -> bool:
    live = standing(client)
    return not live.rates and not live.lists
