"""The cluster of benchmarks.cluster: four brokers behind limited links, their clients, and rheostat.

Clients write to partitions on 1, 2 and 3. Broker 4 is new and takes over the second replicas of a topic that broker 1 leads, so the
move and the clients share the outbound link of broker 1. The fetch sizes are scaled with the links: with Kafka's defaults one
response would occupy a slow link for a second, under any throttle.

Collector and Spark stream run in every run, so that their load is the same for every policy.

Invariant: everything ends with the ``with`` block, in reverse order of its start.
"""

from __future__ import annotations

import re
import sys
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from kafka import TopicPartition
from kafka.admin import NewTopic

from benchmarks.links.net import LOAD, Links, before_others
from benchmarks.links.sampler import EVERY_S
from benchmarks.links.score import Latency, latency
from benchmarks.links.size import Size
from benchmarks.links.watch import awaited, config_writes, fetched, say
from rheostat.errors import CommandError
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import NodeAddress, free_ports
from rheostat.run.process import spawn, stop
from rheostat.run.supervisor import Supervisor, children_for
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.cluster import LiveCluster
from tuner.core.throttle_limits import MB
from tuner.runtime.observe.cluster_reader import ClusterReader

BROKERS, _CONTROLLER = 4, 100
SOURCE, OLD, NEW = 1, 2, 4
MOVED, CLIENTS, BURST = "moved", "clients", "burst"
PARTITIONS = 4
BEFORE, AFTER = [SOURCE, OLD], [SOURCE, NEW]

WARM_S = 40.0
CALM_RATIO = 0.5  # p99 ÷ objective, below which a run begins.
FORGET_WAIT_S_MAX = 150.0  # The longest wait for it.
_FILL_S_MAX = 300.0
_P99 = re.compile(
    r'^kafka_network_requestmetrics_totaltimems_p99{request="(Produce|FetchConsumer)",?} (\S+)', re.MULTILINE
)
_LINGER = "linger.ms=20"  # Two cores carry everything here, and requests are what costs them.
# Brokers and clients come before what measures and turns, and that before whatever else the machine does: elsewhere these do
# not share processors.
_FIRST, _SECOND = before_others(-15), before_others(-5)
# As brokers run: the lab's quick compiler is for those that live a minute.
_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=4",)
_KEPT = {"retention.bytes": str(32 * MB), "segment.bytes": str(8 * MB)}  # A partition; clients write all the time.


class BenchLab:
    """A cluster with one setting of the quota window. Use it as a context manager."""

    def __init__(self, links: Links, size: Size, quota_samples: int, warm_s: float = WARM_S) -> None:
        self.links = links
        self.size = size
        self.capacity_bytes_per_s = 0.0
        self._samples = quota_samples
        self._warm_s = warm_s
        self._exit = ExitStack()

    def __enter__(self) -> BenchLab:
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
        links, size = self.links, self.size
        links.limit(size.link_mbit_per_s)
        self.capacity_bytes_per_s = links.capacity_bytes_per_s(SOURCE, NEW)
        links.unlimit()
        say(f"a link carries {self.capacity_bytes_per_s / 1e6:.2f} MB/s of payload")
        self.lab = lab = self._exit.enter_context(Lab(self._spec()))
        self.client = self._exit.enter_context(ClusterClient(lab.kafka_settings(), "benchmark"))
        self._reader = ClusterReader(self.client)
        # Leader and follower of three partitions each: 1→2, 2→3, 3→1.
        spread = {p: [p % 3 + 1, (p + 1) % 3 + 1] for p in range(6)}
        self._create(CLIENTS, spread, _KEPT)
        self._create(BURST, {0: [SOURCE, OLD]}, _KEPT)
        # Not by way of the source: what a fill does to the latency of its broker is remembered for minutes.
        self._create(MOVED, {p: [3, OLD] for p in range(PARTITIONS)}, {})
        with self._load(MOVED, None, int(size.moved_bytes)) as load:
            load.wait(_FILL_S_MAX)
        self.move_back()
        self._exit.enter_context(self.load(CLIENTS, size.clients_bytes_per_s))
        self._exit.enter_context(self.load(MOVED, size.moved_bytes_per_s))
        self._acks = lab.home / "acks"
        sampler = (sys.executable, "-m", "benchmarks.links.sampler", lab.bootstrap_servers, CLIENTS, str(self._acks))
        process = spawn([*self._from_outside(), *sampler], log=lab.home / "logs" / "sampler.log")
        self._exit.callback(stop, process, grace_s=0.0)
        self._configure()
        self._log = lab.home / "logs" / "rheostat.log"
        self._measuring = self._rheostat("collect", "stream")
        self._exit.callback(self._measuring.stop)
        self._measuring.check()
        # A session of Spark that has just begun takes both cores to compile what it will run.
        awaited("signals are made", lambda: "first batch" in self._log.read_text(errors="replace"), 120)
        self.pause(self._warm_s)

    def _spec(self) -> LabSpec:
        links, size = self.links, self.size
        places = {b: NodeAddress(links.host(b), (*_FIRST, *links.prefix(b))) for b in range(1, BROKERS + 1)}
        return LabSpec(
            brokers=BROKERS,
            broker_settings={
                "replica.fetch.max.bytes": str(size.fetch_bytes),
                "replica.fetch.response.max.bytes": str(size.answer_bytes),
                "replication.quota.window.num": str(self._samples),
                "log.retention.check.interval.ms": "5000",
                "log.segment.bytes": "33554432",
            },
            places={**places, _CONTROLLER: NodeAddress(links.host(None), _FIRST)},
            java_options=_JAVA_OPTIONS,
        )

    def _configure(self) -> None:
        port, lab, capacity = free_ports(1)[0], self.lab, round(self.capacity_bytes_per_s)
        self._status, self._metrics = (f"http://127.0.0.1:{port}/{page}" for page in ("status", "metrics"))
        told = {
            "objective": {"latency_ms": self.size.latency_ms},
            "capacity": {"in_bytes_per_s": capacity, "out_bytes_per_s": capacity},
        }
        self._configs = {is_auto: Path(lab.home / f"rheostat{'-auto' * is_auto}.yaml") for is_auto in (False, True)}
        for is_auto, path in self._configs.items():
            path.write_text(
                lab_config(
                    lab,
                    http={"port": port},
                    rate_bytes_per_s_max=capacity,
                    rate_bytes_per_s_min=self.size.rate_bytes_per_s_min,
                    **({"objective": "auto"} if is_auto else told),
                )
            )

    def _create(self, topic: str, replicas: dict[int, list[int]], configs: dict[str, str]) -> None:
        with self.lab.admin() as admin:
            admin.create_topics([NewTopic(topic, -1, -1, replica_assignments=replicas, topic_configs=configs or None)])

    # -- what goes on -------------------------------------------------------------------------------------------------

    def load(self, topic: str, rate_bytes_per_s: float) -> ProducerLoad:
        return self._load(topic, rate_bytes_per_s, None)

    def _load(self, topic: str, rate_bytes_per_s: float | None, total_bytes: int | None) -> ProducerLoad:
        lab, size = self.lab, self.size
        return ProducerLoad(
            lab.artifacts,
            lab.bootstrap_servers,
            topic,
            rate_bytes_per_s=rate_bytes_per_s,
            record_bytes=size.record_bytes,
            total_bytes=total_bytes,
            properties=(f"batch.size={size.fetch_bytes}", _LINGER),
            prefix=self._from_outside(),
        )

    def _from_outside(self) -> tuple[str, ...]:
        return (*_FIRST, *self.links.prefix(LOAD))

    def tuner(self, *, acts: bool, is_auto: bool) -> Supervisor:
        """Returns a started tuner; the caller stops it. With ``is_auto`` it learns its objective and the capacity."""
        supervisor = self._rheostat("tune", dry_run=not acts, is_auto=is_auto)
        supervisor.check()
        return supervisor

    def _rheostat(self, *parts: str, dry_run: bool = False, is_auto: bool = False) -> Supervisor:
        config = self._configs[is_auto]
        children = [child for child in children_for(config, dry_run=dry_run) if child.name in parts]
        for child in children:
            child.command = [*_SECOND, *child.command]
        return Supervisor(children, log_to=self._log)

    def move_back(self) -> None:
        """Restores the original replicas. The links should not be limited meanwhile."""
        states = {s.partition: s for s in self.client.partitions([MOVED])}
        if any(list(state.replicas) != BEFORE for state in states.values()):
            with self.lab.admin() as admin:
                admin.alter_partition_reassignments({TopicPartition(MOVED, p): BEFORE for p in range(PARTITIONS)})
        awaited(
            "the topic is back where it was",
            lambda: (
                not self.client.reassignments()
                and all(set(s.isr) == set(BEFORE) for s in self.client.partitions([MOVED]))
            ),
            _FILL_S_MAX,
        )

    def forget(self) -> None:
        """Waits until the brokers' p99 metrics, which cover minutes, no longer contain the previous run."""
        began_s = time.monotonic()
        while (p99_ms := self.broker_p99_ms().get("Produce", 0.0)) > CALM_RATIO * self.size.latency_ms:
            if time.monotonic() - began_s > FORGET_WAIT_S_MAX:
                break
            self.pause(1.0)
        say(f"after {time.monotonic() - began_s:.0f} s broker {SOURCE} says that its produce p99 is {p99_ms:.1f} ms")

    def pause(self, lasts_s: float) -> None:
        self._measuring.check()
        threading.Event().wait(lasts_s)

    # -- what is seen -------------------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        status = fetched(self._status)
        return bool(status and status["ready"])

    def leader_rate(self) -> int | None:
        """Returns the current throttle of the source."""
        live = self._reader.snapshot(full=False)
        rate = live.rates.get((SOURCE, Side.LEADER)) if isinstance(live, LiveCluster) else None
        return rate.bytes_per_s if rate is not None else None

    def config_writes(self) -> int:
        return config_writes(self._metrics)

    def keys_left(self) -> int:
        live = self._reader.snapshot(full=True)
        if not isinstance(live, LiveCluster):
            raise CommandError(f"The throttles cannot be read: {live.reason}")
        return len(live.rates) + len(live.lists)

    def broker_p99_ms(self) -> dict[str, float]:
        """Returns the source's p99 by request. That of fetches includes a consumer's wait for new records."""
        with urllib.request.urlopen(self.lab.nodes[SOURCE].jmx_url, timeout=5) as answer:
            return {name: round(float(ms), 1) for name, ms in _P99.findall(answer.read().decode())}

    def size_bytes(self, broker: int) -> int:
        """Returns the size of the moving topic on this broker."""
        found = self.client.log_sizes([broker], [(MOVED, p) for p in range(PARTITIONS)])[broker]
        return sum(found.values()) if isinstance(found, dict) else 0

    def latency(self, from_s: float, to_s: float) -> Latency:
        """Returns the acknowledgement latency in this interval.

        Raises:
            CommandError: there are too few acknowledgements.
        """
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
