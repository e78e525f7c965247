"""The cluster of benchmarks.cluster, and one run of one policy on it.

Four brokers behind links. Clients write to partitions of 1, 2 and 3; broker 4 is new and takes over the second replicas of a
topic that broker 1 leads, so the way out of broker 1 is what the move and the clients share. Brokers fetch in pieces scaled
with the links: with Kafka's own sizes one answer would hold a slow link for a third of a second, under any throttle.

In every run all of rheostat goes (collector, Spark stream, tuner), so that what measures costs each policy the same; where it is
not rheostat's turn its tuner runs dry.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import psutil
from kafka import TopicPartition
from kafka.admin import NewTopic

from benchmarks.cluster_net import LOAD, Links
from benchmarks.cluster_sampler import EVERY_S
from benchmarks.cluster_score import (
    OURS,
    OURS_CALM,
    TOO_LOW,
    UNTHROTTLED,
    Latency,
    Policy,
    Row,
    latency,
    optimum_s,
    ratios,
    throttle_bytes_per_s,
)
from rheostat.errors import CommandError
from rheostat.lab import Lab, LabSpec, Load
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import Place, free_ports
from rheostat.lab.tools import reassign_partitions
from rheostat.process import spawn, stop
from rheostat.supervisor import Supervisor, children_for
from streaming.contract import Side
from streaming.kafka.cluster import ClusterClient
from tuner.model.cluster import LiveCluster
from tuner.model.limits import MB
from tuner.observe.live import LiveReader

T = TypeVar("T")

BROKERS, _CONTROLLER = 4, 100
SOURCE, OLD, NEW = 1, 2, 4
MOVED, CLIENTS, BURST = "moved", "clients", "burst"
PARTITIONS = 4
BEFORE, AFTER = [SOURCE, OLD], [SOURCE, NEW]

WARM_S, SETTLE_S, IDLE_S = 40.0, 10.0, 25.0
LEFT_S_MAX = 45.0
CALM, FORGOTTEN_S_MAX = 0.5, 150.0  # Of the objective; the longest wait for it.
_FILL_S_MAX = 300.0
_RECORD_BYTES = 10_000
_P99 = re.compile(
    r'^kafka_network_requestmetrics_totaltimems_p99{request="(Produce|FetchConsumer)",?} (\S+)', re.MULTILINE
)
_BATCHES = ("batch.size=65536", "linger.ms=20")  # Two cores carry everything here, and requests are what costs them.
# Brokers and clients come before what measures and turns: elsewhere these do not share processors.
_FIRST = ("nice", "-n", "-10")
# As brokers run: the lab's quick compiler is for those that live a minute.
_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=4",)
_BROKER_SETTINGS = {
    "replica.fetch.max.bytes": "65536",
    "replica.fetch.response.max.bytes": "262144",
    "log.retention.check.interval.ms": "5000",
    "log.segment.bytes": "33554432",
}
_KEPT = {"retention.bytes": str(64 * MB), "segment.bytes": str(16 * MB)}  # A partition; clients write all the time.


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything. Bytes/s are payload as producers write it, before replication."""

    link_mbit_per_s: float = 200.0
    moved_bytes: float = 1_200 * MB
    clients_bytes_per_s: float = 7 * MB
    moved_bytes_per_s: float = 0.5 * MB  # Written to the topic that moves.
    burst_bytes_per_s: float = 9 * MB  # In the middle of the move, to a partition led by its source.
    latency_ms: float = 50.0  # rheostat's objective.


@dataclass(frozen=True, slots=True)
class Step:
    """From then on, seconds after the move began, the burst is on or off."""

    at_s: float
    on: bool


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    about: str
    policies: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    # Every throttle begins at this share of what in-sync and new followers take to keep up: it never drains anything.
    of_keep_up: float | None = None
    longest: float = 6.0  # × T*; after that a run is ended as it is.


_ALL = (UNTHROTTLED, "static-25", "static-50", "static-75", "static-100", OURS, OURS_CALM)
SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("steady", "the same load throughout", _ALL),
        Scenario(
            "steps", "clients take half of the link for 30 s in the middle", _ALL, steps=(Step(20.0, True), Step(50.0, False))
        ),
        Scenario(
            "infeasible", "the operator's throttle is below what keeping up takes", (TOO_LOW, OURS, OURS_CALM),
            of_keep_up=0.8, longest=2.0,
        ),
    )
}  # fmt: skip


@dataclass(slots=True)
class Watch:
    """What is seen of a move, second by second."""

    at_s: list[float] = field(default_factory=list)
    out_bytes: list[int] = field(default_factory=list)
    rates: list[int | None] = field(default_factory=list)

    def told(self) -> list[Row]:
        """MB/s out of the source and its leader rate, by look."""
        return [
            {
                "t_s": round(t - self.at_s[0], 1),
                "out_MB_per_s": round((b - a) / (t - s) / 1e6, 2),
                "rate_MB_per_s": None if rate is None else round(rate / 1e6, 2),
            }
            for s, t, a, b, rate in zip(
                self.at_s, self.at_s[1:], self.out_bytes, self.out_bytes[1:], self.rates[1:], strict=False
            )
        ]


class Bench:
    """A cluster with one setting of the quota's window; ``run`` it as often as wanted."""

    def __init__(self, links: Links, size: Size, quota_samples: int) -> None:
        self._links = links
        self._size = size
        self._samples = quota_samples
        self._exit = ExitStack()
        self.capacity_bytes_per_s = 0.0

    def __enter__(self) -> Bench:
        try:
            self._start()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def _start(self) -> None:
        links, size = self._links, self._size
        links.limit(size.link_mbit_per_s)
        self.capacity_bytes_per_s = links.capacity_bytes_per_s(SOURCE, NEW)
        links.unlimit()
        say(f"a link carries {self.capacity_bytes_per_s / 1e6:.1f} MB/s of payload")
        places = {b: Place(links.host(b), (*_FIRST, *links.prefix(b))) for b in range(1, BROKERS + 1)}
        spec = LabSpec(
            brokers=BROKERS,
            broker_settings=_BROKER_SETTINGS | {"replication.quota.window.num": str(self._samples)},
            places={**places, _CONTROLLER: Place(links.host(None), _FIRST)},
            java_options=_JAVA_OPTIONS,
        )
        self.lab = lab = self._exit.enter_context(Lab(spec))
        self.client = self._exit.enter_context(ClusterClient(lab.kafka_settings(), "benchmark"))
        self._reader = LiveReader(self.client)
        # Leader and follower of three partitions each: 1→2, 2→3, 3→1.
        spread = {p: [p % 3 + 1, (p + 1) % 3 + 1] for p in range(6)}
        self._create(CLIENTS, spread, _KEPT)
        self._create(BURST, {0: [SOURCE, OLD]}, _KEPT)
        # Not by way of the source: what a fill does to the latency of its broker is remembered for minutes.
        self._create(MOVED, {p: [3, OLD] for p in range(PARTITIONS)}, {})
        self._fill()
        self._move_back()
        self._loaded(CLIENTS, size.clients_bytes_per_s)
        self._loaded(MOVED, size.moved_bytes_per_s)
        self._acks = lab.home / "acks"
        sampler = (sys.executable, "-m", "benchmarks.cluster_sampler", lab.bootstrap_servers, CLIENTS, str(self._acks))
        process = spawn([*self._from_outside(), *sampler], log=lab.home / "logs" / "sampler.log")
        self._exit.callback(stop, process, grace_s=0.0)
        self._configure()
        measuring = [child for child in children_for(self._config, dry_run=False) if child.name != "tune"]
        self._measuring = Supervisor(measuring, log_to=lab.home / "logs" / "rheostat.log")
        self._exit.callback(self._measuring.stop)
        self._measuring.look()
        # A session of Spark that has just begun takes both cores to compile what it will run.
        log = lab.home / "logs" / "rheostat.log"
        self._await("signals are made", lambda: "first batch" in log.read_text(errors="replace"), 120)
        self._pause(WARM_S)

    def _from_outside(self) -> tuple[str, ...]:
        return (*_FIRST, *self._links.prefix(LOAD))

    def _configure(self) -> None:
        port, lab, capacity = free_ports(1)[0], self.lab, round(self.capacity_bytes_per_s)
        self._status = f"http://127.0.0.1:{port}/status"
        self._config = Path(lab.home / "rheostat.yaml")
        self._config.write_text(
            lab_config(
                lab,
                http={"port": port},
                rate_bytes_per_s_max=capacity,
                # A fetch is smaller here by as much as the links are.
                rate_bytes_per_s_min=1 * MB,
                objective={"latency_ms": self._size.latency_ms},
                capacity={"in_bytes_per_s": capacity, "out_bytes_per_s": capacity},
            )
        )

    def _create(self, topic: str, replicas: dict[int, list[int]], configs: dict[str, str]) -> None:
        with self.lab.admin() as admin:
            admin.create_topics([NewTopic(topic, -1, -1, replica_assignments=replicas, topic_configs=configs or None)])

    def _loaded(self, topic: str, rate_bytes_per_s: float) -> Load:
        return self._exit.enter_context(self._load(topic, rate_bytes_per_s))

    def _load(self, topic: str, rate_bytes_per_s: float) -> Load:
        lab = self.lab
        return Load(
            lab.artifacts, lab.bootstrap_servers, topic,
            rate_bytes_per_s=rate_bytes_per_s, record_bytes=_RECORD_BYTES, properties=_BATCHES, prefix=self._from_outside(),
        )  # fmt: skip

    def _fill(self) -> None:
        lab = self.lab
        with Load(
            lab.artifacts, lab.bootstrap_servers, MOVED,
            rate_bytes_per_s=None, record_bytes=100_000, total_bytes=int(self._size.moved_bytes),
            properties=("batch.size=800000", "linger.ms=5"), prefix=self._from_outside(),
        ) as load:  # fmt: skip
            load.wait(_FILL_S_MAX)

    # -- one run ------------------------------------------------------------------------------------------------------

    def run(self, policy: Policy, scenario: Scenario) -> Row:
        self._move_back()
        self._links.limit(self._size.link_mbit_per_s)
        tuner = self._tuner(acts=policy.acts)
        with ExitStack() as inside:
            inside.callback(self._links.unlimit)
            inside.callback(tuner.stop)
            self._await("rheostat is ready", self._is_ready, 120)
            if policy.acts:
                self._forget()
            return self._measured(policy, scenario, inside)

    def _measured(self, policy: Policy, scenario: Scenario, inside: ExitStack) -> Row:
        size = self._size
        self._pause(SETTLE_S)
        began_s, before = time.monotonic(), self._links.passed()[SOURCE]
        self._pause(IDLE_S)
        idle_span_s = time.monotonic() - began_s
        idle_out = (self._links.passed()[SOURCE].out_bytes - before.out_bytes) / idle_span_s
        idle = self._latency(began_s, began_s + idle_span_s)
        free = self.capacity_bytes_per_s - idle_out
        in_sync = size.moved_bytes_per_s
        throttle = None
        if policy.throttle_share is not None:
            throttle = throttle_bytes_per_s(policy.throttle_share, free, in_sync)
            if scenario.of_keep_up is not None:
                throttle = round(scenario.of_keep_up * (in_sync + size.moved_bytes_per_s))
        moved = self._size_bytes(SOURCE)
        burst = size.burst_bytes_per_s
        stretches = [(0.0, free - size.moved_bytes_per_s)]
        stretches += [(s.at_s, free - size.moved_bytes_per_s - (burst if s.on else 0.0)) for s in scenario.steps]
        best_s = optimum_s(moved, stretches)
        assert best_s is not None, "the links are too narrow for this load"
        drops = self._links.dropped(SOURCE)
        psutil.cpu_percent()
        used_s = _cpu_s()
        watch = Watch()
        began_s, ended_s = self._move(throttle, scenario, scenario.longest * best_s, watch, inside)
        machine, used_s = psutil.cpu_percent() / 100, _cpu_s() - used_s
        p99_ms = self._broker_p99_ms()
        during = self._latency(began_s, ended_s)
        completed = not self.client.reassignments()
        left = self._size_bytes(SOURCE) - self._size_bytes(NEW)
        dropped = self._links.dropped(SOURCE) - drops
        keys_left = self._put_back(policy, completed)
        row = {
            "scenario": scenario.name,
            "policy": policy.name,
            "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "completed": completed,
            "move_s": round(ended_s - began_s, 1),
            "optimum_s": round(best_s, 1),
            "ratio_to_optimum": round((ended_s - began_s) / best_s, 3) if completed else None,
            "left_MB": round(left / 1e6, 1),
            "produce_latency_ratio": ratios(idle, during),
            "idle": _rounded(idle),
            "during": _rounded(during),
            "broker_p99_ms": p99_ms,  # As the source told it when the move ended.
            "throttle_bytes_per_s": throttle,
            "capacity_bytes_per_s": round(self.capacity_bytes_per_s),
            "free_bytes_per_s": round(free),
            "moved_bytes": moved,
            "cpu_share": round(used_s / (ended_s - began_s) / (psutil.cpu_count() or 1), 2),
            "machine_share": round(machine, 2),  # With whatever else runs, and what the kernel does for the links.
            "packets_dropped": dropped,
            "keys_left": keys_left,
            "seconds": watch.told(),
        }
        said = f"{row['ratio_to_optimum']} × T*" if completed else f"not done, {row['left_MB']} MB left"
        say(f"{scenario.name}, {policy.name}: {row['move_s']} s, {said}, latency × {row['produce_latency_ratio']}")
        return row

    def _move(
        self, throttle: int | None, scenario: Scenario, longest_s: float, watch: Watch, inside: ExitStack
    ) -> tuple[float, float]:
        """When the move began and ended, or when it was given up."""
        target = {(MOVED, p): AFTER for p in range(PARTITIONS)}
        options = ["--execute", *(["--throttle", str(throttle)] if throttle is not None else [])]
        tool = _Aside(lambda: reassign_partitions(self.lab.artifacts, self.lab.bootstrap_servers, target, *options))
        self._await("the move begins", lambda: bool(self.client.reassignments()) or tool.failed(), 30, every_s=0.05)
        began_s = time.monotonic()
        steps = list(scenario.steps)
        burst = ExitStack()
        inside.callback(burst.close)
        next_look_s = began_s
        while True:
            now_s = time.monotonic()
            if steps and now_s - began_s >= steps[0].at_s:
                step = steps.pop(0)
                burst.close()
                if step.on:
                    burst.enter_context(self._load(BURST, self._size.burst_bytes_per_s))
            if now_s >= next_look_s:
                next_look_s += 1.0
                self._look(watch, now_s)
            if not self.client.reassignments() or now_s - began_s > longest_s:
                tool.join()
                return began_s, now_s
            self._pause(0.1)

    def _look(self, watch: Watch, now_s: float) -> None:
        live = self._reader.look(full=False)
        rate = live.rates.get((SOURCE, Side.LEADER)) if isinstance(live, LiveCluster) else None
        watch.at_s.append(now_s)
        watch.out_bytes.append(self._links.passed()[SOURCE].out_bytes)
        watch.rates.append(rate.bytes_per_s if rate is not None else None)

    def _put_back(self, policy: Policy, completed: bool) -> int:
        """How many throttle settings stand when all is over: rheostat clears them where it acts, else the operator's tool."""
        target = {(MOVED, p): AFTER for p in range(PARTITIONS)}
        if not completed:
            with self.lab.admin() as admin:
                admin.alter_partition_reassignments({TopicPartition(MOVED, p): None for p in range(PARTITIONS)})
        if not policy.acts or not completed:
            reassign_partitions(self.lab.artifacts, self.lab.bootstrap_servers, target, "--verify")
            return self._keys_left()
        deadline = time.monotonic() + LEFT_S_MAX
        while (left := self._keys_left()) and time.monotonic() < deadline:
            self._pause(0.5)
        return left

    def _keys_left(self) -> int:
        live = self._reader.look(full=True)
        if not isinstance(live, LiveCluster):
            raise CommandError(f"The throttles cannot be read: {live.reason}")
        return len(live.rates) + len(live.lists)

    def _move_back(self) -> None:
        """As it was, over links that are not limited."""
        states = {s.partition: s for s in self.client.partitions([MOVED])}
        if any(list(state.replicas) != BEFORE for state in states.values()):
            with self.lab.admin() as admin:
                admin.alter_partition_reassignments({TopicPartition(MOVED, p): BEFORE for p in range(PARTITIONS)})
        self._await(
            "the topic is back where it was",
            lambda: (
                not self.client.reassignments()
                and all(set(s.isr) == set(BEFORE) for s in self.client.partitions([MOVED]))
            ),
            _FILL_S_MAX,
        )

    def _forget(self) -> None:
        """A broker's p99 remembers minutes: what rheostat goes by must not be what was done to clients before."""
        began_s = time.monotonic()
        while (p99_ms := self._broker_p99_ms().get("Produce", 0.0)) > CALM * self._size.latency_ms:
            if time.monotonic() - began_s > FORGOTTEN_S_MAX:
                break
            self._pause(1.0)
        say(f"after {time.monotonic() - began_s:.0f} s broker {SOURCE} says that its produce p99 is {p99_ms:.1f} ms")

    # -- parts --------------------------------------------------------------------------------------------------------

    def _tuner(self, *, acts: bool) -> Supervisor:
        children = [child for child in children_for(self._config, dry_run=not acts) if child.name == "tune"]
        supervisor = Supervisor(children, log_to=self.lab.home / "logs" / "rheostat.log")
        supervisor.look()
        return supervisor

    def _is_ready(self) -> bool:
        status = fetched(self._status)
        return bool(status and status["ready"])

    def _broker_p99_ms(self) -> dict[str, float]:
        """As the source tells it, by request. A consumer's includes its wait for records that are not there yet."""
        with urllib.request.urlopen(self.lab.nodes[SOURCE].jmx_url, timeout=5) as answer:
            return {name: round(float(ms), 1) for name, ms in _P99.findall(answer.read().decode())}

    def _size_bytes(self, broker: int) -> int:
        found = self.client.log_sizes([broker], [(MOVED, p) for p in range(PARTITIONS)])[broker]
        return sum(found.values()) if isinstance(found, dict) else 0

    def _latency(self, from_s: float, to_s: float) -> Latency:
        samples = []
        for line in self._acks.read_text().splitlines():
            at_s, latency_ms = map(float, line.split())
            if from_s <= at_s < to_s:
                samples.append(latency_ms)
        found = latency(samples)
        if found is None:
            raise CommandError(
                f"Only {len(samples)} acknowledgements in {to_s - from_s:.0f} s, of {(to_s - from_s) / EVERY_S:.0f} sent: "
                "the sampler does not come through."
            )
        return found

    def _pause(self, lasts_s: float) -> None:
        self._measuring.look()
        threading.Event().wait(lasts_s)

    def _await(self, what: str, probe: Callable[[], T], timeout_s: float, *, every_s: float = 0.3) -> T:
        deadline = time.monotonic() + timeout_s
        while not (found := probe()):
            if time.monotonic() > deadline:
                raise CommandError(f"Not within {timeout_s:.0f} s: {what}.")
            threading.Event().wait(every_s)
        return found


class _Aside:
    """A call that goes on beside us; what it raised comes out at ``join``."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, name="aside", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:  # noqa: BLE001 - handed to whoever joins.
            self._error = error

    def failed(self) -> bool:
        if self._error is not None:
            raise self._error
        return False

    def join(self) -> None:
        self._thread.join(timeout=60)
        self.failed()


def _cpu_s() -> float:
    """Of all processes that we have started and that live; what ended meanwhile is small."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def fetched(url: str) -> Row | None:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            found: Row = json.loads(answer.read())
            return found
    except OSError:
        return None


def say(text: str) -> None:
    print(f"{datetime.datetime.now(datetime.UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def _rounded(found: Latency) -> dict[str, float]:
    return {key: round(value, 2) for key, value in asdict(found).items()}
