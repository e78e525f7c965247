"""The cluster of benchmarks.recovery: three brokers behind limited links, their clients, and rheostat.

Every topic has a replica on each broker, and two topics have clients. ``stored`` holds the data that takes time to copy.
``passing`` keeps little, so its replicas are in sync again after some seconds; from then on its clients (acks=all) wait for the
returning broker, whose inbound link and fetchers carry the rest of the copy. The latency is that of ``passing``.

Collector and Spark stream run in every run, so that their load is the same for every policy.

Invariant: everything ends with the ``with`` block, in reverse order of its start.
"""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from kafka.admin import NewTopic
from kafka.protocol.admin.topics import ElectionType

from benchmarks.links.net import LOAD, Links, before_others
from benchmarks.links.size import Size
from benchmarks.links.watch import awaited, fetched, say
from rheostat.errors import CommandError
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import Node, NodeAddress, free_ports
from rheostat.run.process import spawn, stop
from rheostat.run.supervisor import Supervisor, children_for
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from tuner.core.cluster import LiveCluster
from tuner.core.throttle_limits import MB
from tuner.runtime.observe.cluster_reader import ClusterReader

BROKERS, _CONTROLLER = 3, 100
RETURNING = 3
STAYING = (1, 2)
STORED, PASSING = "stored", "passing"
PARTITIONS = 6
WARM_S = 30.0
_STOP_S_MAX, _FILL_S_MAX, _IN_SYNC_S_MAX, _SIGNALS_S_MAX = 30.0, 300.0, 120.0, 240.0
_STORED_SHARE = 0.6  # Of the clients' writes.
_P99 = re.compile(r'^kafka_network_requestmetrics_totaltimems_p99{request="Produce",?} (\S+)', re.MULTILINE)
_LINGER = "linger.ms=20"  # Two cores carry everything here, and requests are what costs them.
# Brokers and clients get a higher CPU priority than rheostat, because in production they run on other machines.
_FIRST, _SECOND = before_others(-15), before_others(-5)
_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=4",)
_PASSING_CONFIGS = {"retention.bytes": str(2 * MB), "segment.bytes": str(1024 * 1024)}


@dataclass(frozen=True, slots=True)
class Ack:
    """One acknowledged record: its send time (monotonic), and milliseconds until all in-sync replicas had it."""

    sent_s: float
    latency_ms: float


class RecoveryLab:
    """The running cluster. Use it as a context manager."""

    def __init__(self, links: Links, size: Size) -> None:
        self.links = links
        self.size = size
        self.capacity_bytes_per_s = 0.0
        self._exit = ExitStack()

    def __enter__(self) -> RecoveryLab:
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
        self.capacity_bytes_per_s = links.capacity_bytes_per_s(1, RETURNING)
        links.unlimit()
        say(f"a link carries {self.capacity_bytes_per_s / 1e6:.2f} MB/s of payload")
        self.lab = lab = self._exit.enter_context(Lab(self._spec()))
        self.client = self._exit.enter_context(ClusterClient(lab.kafka_settings(), "benchmark"))
        self._reader = ClusterReader(self.client)
        # Retention deletes as much as clients add, so that all runs copy about the same number of bytes.
        kept_bytes = round(size.moved_bytes / PARTITIONS)
        self._create(STORED, {"retention.bytes": str(kept_bytes), "segment.bytes": str(4 * MB)})
        self._create(PASSING, _PASSING_CONFIGS)
        with self._load(STORED, None, int(size.moved_bytes)) as load:
            load.wait(_FILL_S_MAX)
        for topic, share in ((PASSING, 1 - _STORED_SHARE), (STORED, _STORED_SHARE)):
            self._exit.enter_context(self._load(topic, share * size.clients_bytes_per_s, None))
        self._acks = lab.home / "acks"
        sampler = (sys.executable, "-m", "benchmarks.links.sampler", lab.bootstrap_servers, PASSING, str(self._acks))
        process = spawn([*self._from_outside(), *sampler], log=lab.home / "logs" / "sampler.log")
        self._exit.callback(stop, process, grace_s=0.0)
        self._log = lab.home / "logs" / "rheostat.log"
        self._measuring = self._rheostat(self._configured(), "collect", "stream")
        self._exit.callback(self._measuring.stop)
        self._measuring.check()
        # A session of Spark that has just begun takes both cores to compile what it will run.
        awaited("signals are made", lambda: "first batch" in self._log.read_text(errors="replace"), _SIGNALS_S_MAX)
        self.pause(WARM_S)

    def _spec(self) -> LabSpec:
        links, size = self.links, self.size
        places = {b: NodeAddress(links.host(b), (*_FIRST, *links.prefix(b))) for b in range(1, BROKERS + 1)}
        return LabSpec(
            brokers=BROKERS,
            # The benchmark elects the preferred leaders itself, after a run.
            settings={"auto.leader.rebalance.enable": "false"},
            broker_settings={
                # As with Kafka's defaults, one partition does not fill a response. So each response also has the partitions in
                # sync.
                "replica.fetch.max.bytes": str(size.fetch_bytes),
                "replica.fetch.response.max.bytes": str(size.answer_bytes),
                "log.retention.check.interval.ms": "5000",
                "log.segment.bytes": "33554432",
            },
            places={**places, _CONTROLLER: NodeAddress(links.host(None), _FIRST)},
            java_options=_JAVA_OPTIONS,
        )

    def _configured(self, **tuner: Any) -> Path:
        """Writes the settings file of rheostat, with these settings of the tuner."""
        port, capacity = free_ports(1)[0], round(self.capacity_bytes_per_s)
        self._status = f"http://127.0.0.1:{port}/status"
        config = Path(self.lab.home / "rheostat.yaml")
        config.write_text(
            lab_config(
                self.lab,
                http={"port": port},
                rate_bytes_per_s_max=capacity,
                rate_bytes_per_s_min=self.size.rate_bytes_per_s_min,
                objective={"latency_ms": self.size.latency_ms},
                capacity={"in_bytes_per_s": capacity, "out_bytes_per_s": capacity},
                **tuner,
            )
        )
        return config

    def _create(self, topic: str, configs: dict[str, str]) -> None:
        replicas = {p: [(p + n) % BROKERS + 1 for n in range(BROKERS)] for p in range(PARTITIONS)}
        with self.lab.admin() as admin:
            admin.create_topics([NewTopic(topic, -1, -1, replica_assignments=replicas, topic_configs=configs or None)])

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

    # -- what goes on -------------------------------------------------------------------------------------------------

    def tuner(self, *, acts: bool, **settings: Any) -> Supervisor:
        """Returns a started tuner; the caller stops it."""
        supervisor = self._rheostat(self._configured(**settings), "tune", dry_run=not acts)
        supervisor.check()
        return supervisor

    def _rheostat(self, config: Path, *parts: str, dry_run: bool = False) -> Supervisor:
        children = [child for child in children_for(config, dry_run=dry_run) if child.name in parts]
        for child in children:
            child.command = [*_SECOND, *child.command]
        return Supervisor(children, log_to=self._log)

    @property
    def returning(self) -> Node:
        return self.lab.nodes[RETURNING]

    def stop_and_wipe(self) -> None:
        """Shuts the broker down and empties its disk."""
        self.returning.stop(_STOP_S_MAX)
        for folder in self.returning.log_dirs:
            shutil.rmtree(folder)
        self.returning.prepare(self.lab.cluster_id)

    def recover_at_full_speed(self) -> None:
        """Waits until all replicas are in sync, and elects the preferred leaders. The links should not be limited meanwhile."""
        awaited("all replicas are in sync", lambda: not self.out_of_sync(), _IN_SYNC_S_MAX)
        with self.lab.admin() as admin:
            admin.elect_leaders(ElectionType.PREFERRED, raise_errors=False)
        awaited(
            "the preferred replicas lead",
            lambda: all(s.leader == s.replicas[0] for s in self.client.partitions([STORED, PASSING])),
            _IN_SYNC_S_MAX,
        )

    def forget(self, p99_ms_max: float, timeout_s: float) -> None:
        """Waits until the brokers' p99 metrics, which cover minutes, no longer contain the stop of a broker."""
        began_s = time.monotonic()
        while (p99_ms := self.broker_p99_ms()) > p99_ms_max and time.monotonic() - began_s < timeout_s:
            self.pause(1.0)
        say(f"after {time.monotonic() - began_s:.0f} s the brokers say that their produce p99 is {p99_ms:.1f} ms")

    def pause(self, lasts_s: float) -> None:
        self._measuring.check()
        threading.Event().wait(lasts_s)

    # -- what is seen -------------------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        status = fetched(self._status)
        return bool(status and status["ready"])

    def out_of_sync(self) -> int:
        """Returns the number of partitions with a replica out of sync."""
        return sum(len(state.isr) < len(state.replicas) for state in self.client.partitions())

    def is_alive(self) -> bool:
        return RETURNING in {endpoint.node for endpoint in self.client.brokers()}

    def copied_bytes(self) -> int:
        """Returns the bytes on the disk of the returning broker, without the cluster's metadata."""
        total = 0
        for file in self.returning.home.glob("data/*/*.log"):
            if not file.parent.name.startswith("__cluster_metadata"):
                try:
                    total += file.stat().st_size
                except FileNotFoundError:  # Retention has removed the segment meanwhile.
                    continue
        return total

    def lacking_bytes(self) -> int:
        """Returns the size of all partitions on their leaders, in bytes; a broker with an empty disk has to copy all of it."""
        states = self.client.partitions()
        sizes = self.client.log_sizes(STAYING, [(s.topic, s.partition) for s in states])
        total = 0
        for state in states:
            of_leader = sizes.get(state.leader)
            if isinstance(of_leader, dict):
                total += of_leader.get((state.topic, state.partition), 0)
        return total

    def rates(self) -> dict[tuple[int, Side], int]:
        """Returns the current throttles."""
        live = self._reader.snapshot(full=False)
        return {k: r.bytes_per_s for k, r in live.rates.items()} if isinstance(live, LiveCluster) else {}

    def keys_left(self) -> int:
        live = self._reader.snapshot(full=True)
        if not isinstance(live, LiveCluster):
            raise CommandError(f"The throttles cannot be read: {live.reason}")
        return len(live.rates) + len(live.lists)

    def broker_p99_ms(self) -> float:
        """Returns the highest produce p99 of the living brokers."""
        worst_ms = 0.0
        for broker in STAYING:
            with urllib.request.urlopen(self.lab.nodes[broker].jmx_url, timeout=5) as answer:
                worst_ms = max([worst_ms, *(float(ms) for ms in _P99.findall(answer.read().decode()))])
        return worst_ms

    def acks(self, from_s: float, to_s: float) -> list[Ack]:
        """Returns the acknowledged records that were sent in this interval."""
        acks = [
            Ack(*map(float, line.split()))
            for line in self._acks.read_text().splitlines(keepends=True)
            if line[-1] == "\n"
        ]
        return [ack for ack in acks if from_s <= ack.sent_s < to_s]

    def set_rates(self, rates: dict[int, dict[str, str | None]]) -> bool:
        """Sets or deletes settings of brokers; returns whether every broker has taken them."""
        try:
            return not any(self.client.alter_broker_configs(rates).values())
        except ClusterError:
            return False
