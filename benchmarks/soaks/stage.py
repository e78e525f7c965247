"""The cluster and the processes of a soak: two tuners, a collector, a stream and learn, each a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka.admin import NewTopic

from benchmarks.controllers.storm import Storm, StormTenant
from benchmarks.links.watch import say
from rheostat.lab.cluster import Lab
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import free_ports
from rheostat.lab.tools import reassign_partitions
from rheostat.run.process import spawn, stop
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.removal import RemovalClient
from streaming.shared.throttle_settings import RATE_KEYS

TOPIC = "orders"
PARTITIONS = 4
WRITES_BYTES_PER_S = 2_000_000
PRELOAD_BYTES = 60_000_000
# Below the 4 MB/s of steady-state replication, so that the tuner has to act.
THROTTLE_BYTES_PER_S = 3_500_000
CEILINGS = (30_000_000, 25_000_000)
MOVE_S_MAX = 240.0
STORM_S = 15.0
STOP_S_MAX = 30.0
_POLL_S = 0.5
# Old data is deleted, so that the disk does not fill in hours.
_RETENTION = {"retention.bytes": "40000000", "segment.bytes": "10000000", "retention.ms": "120000"}


@dataclass
class Stage:
    """The running cluster and processes.

    Attributes:
        processes: by name, the processes of rheostat.
        counts: how often each event has happened.
    """

    lab: Lab
    logs: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _http_ports: dict[str, int] = field(default_factory=dict)
    _turn: int = 0

    def __post_init__(self) -> None:
        self._http_ports = dict(zip(("tune-a", "tune-b"), free_ports(2), strict=True))
        self._write_settings()

    def start_all(self) -> None:
        for name in ("collect", "stream", "learn", "tune-a", "tune-b"):
            self.start(name)

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "rheostat", name.partition("-")[0], "--config", str(self._config(name))]
        self.processes[name] = spawn([*command, "--wait-for-cluster"], log=self.logs / f"{name}.log")

    def stop_all(self) -> None:
        for process in reversed(self.processes.values()):
            stop(process, grace_s=STOP_S_MAX)

    def check_alive(self) -> None:
        """Notes each process that has ended by itself, and starts it again."""
        for name, process in list(self.processes.items()):
            if process.poll() is not None:
                self.failures.append(f"{name} ended by itself with exit code {process.returncode}")
                say(self.failures[-1])
                self.start(name)

    # -- events ---------------------------------------------------------------------------------------------------------

    def prepare_topic(self) -> None:
        with self.lab.admin() as admin:
            replicas = {p: [1, 2] for p in range(PARTITIONS)}
            admin.create_topics(
                [NewTopic(TOPIC, -1, -1, replica_assignments=replicas, topic_configs=dict(_RETENTION))]
            )  # fmt: skip
        with ProducerLoad(
            self.lab.artifacts, self.lab.bootstrap_servers, TOPIC,
            rate_bytes_per_s=None, record_bytes=100_000, total_bytes=PRELOAD_BYTES, properties=("batch.size=800000", "linger.ms=5"),
        ) as load:  # fmt: skip
            load.wait(120)

    def move(self) -> None:
        """A throttled reassignment, away from broker 2 and back in turn; it must end, with nothing left."""
        target = [1, 3] if self.counts.get("move", 0) % 2 == 0 else [1, 2]
        reassign_partitions(
            self.lab.artifacts, self.lab.bootstrap_servers, {(TOPIC, p): target for p in range(PARTITIONS)},
            "--execute", "--throttle", str(THROTTLE_BYTES_PER_S),
        )  # fmt: skip
        self._expect("a move ends", lambda client: not client.reassignments(), MOVE_S_MAX)
        self._expect("the throttles of a move are removed", self._has_no_rates, 90.0)

    def storm(self) -> None:
        """A client creates and deletes topics as fast as it can."""
        tenant = StormTenant(
            "etl",
            8,
            topics_per_request=2,
            partitions=4,
            replication_factor=2,
            topics_max=20,
            connections=2,
            honours=True,
        )
        Storm(self.lab.bootstrap_servers.split(",")).run([tenant], STORM_S)
        with RemovalClient(self.lab.kafka_settings(), "soak") as client:
            left = {state.topic for state in client.partitions() if state.topic.startswith("storm-")}
            self.failures += [
                f"{topic} is not deleted: {e}" for topic, e in client.delete_topics(left).items() if e is not None
            ]

    def restart_broker(self) -> None:
        node = self.lab.brokers[self.counts.get("restart_broker", 0) % len(self.lab.brokers)]
        node.stop(grace_s=STOP_S_MAX)
        self.lab.start_again(node.node_id)
        self._expect("all replicas are in sync after a restart", self._is_in_sync, 120.0)

    def reload(self) -> None:
        """Another ceiling and log level, by SIGHUP to all processes."""
        self._write_settings()
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGHUP)

    def roll(self) -> None:
        """Restarts both tuners, one after the other, as an upgrade does."""
        for name in ("tune-b", "tune-a"):
            process = self.processes[name]
            stop(process, grace_s=STOP_S_MAX)
            if process.returncode != 0:
                self.failures.append(f"{name} ended with exit code {process.returncode} on SIGTERM")
            self.start(name)
            threading.Event().wait(10.0)  # It joins the group before the other one leaves.

    def run_event(self, name: str) -> None:
        events: dict[str, Callable[[], None]] = {
            "move": self.move, "storm": self.storm, "restart_broker": self.restart_broker, "reload": self.reload, "roll": self.roll
        }  # fmt: skip
        events[name]()
        self.counts[name] = self.counts.get(name, 0) + 1

    # -- state ----------------------------------------------------------------------------------------------------------

    def cluster_measures(self) -> dict[str, float]:
        """Returns the number of topics but those of storms, and of consumer groups; empty if the cluster does not answer."""
        try:
            with ClusterClient(self.lab.kafka_settings(), "soak") as client:
                topics = {state.topic for state in client.partitions()}
            with self.lab.admin("soak") as admin:
                groups = list(admin.list_groups())
        except Exception as error:  # noqa: BLE001 - a broker may just be restarting; the next sample has it
            say(f"not sampled: {error}")
            return {}
        return {"cluster.topics": float(sum("storm" not in t for t in topics)), "cluster.groups": float(len(groups))}

    @property
    def checkpoint(self) -> Path:
        return self.lab.home / "checkpoint"

    def _config(self, name: str) -> Path:
        return self.lab.home / f"{name}.yaml"

    def _write_settings(self) -> None:
        turn, self._turn = self._turn, self._turn + 1
        for name in ("collect", "stream", "learn", "tune-a", "tune-b"):
            port = self._http_ports.get(name, 0)
            body: dict[str, Any] = json.loads(
                lab_config(
                    self.lab, objective={"latency_ms": 200}, capacity={"in_bytes_per_s": 1e8, "out_bytes_per_s": 1e8}
                )
            )
            body["tuner"] |= {"rate_bytes_per_s_max": CEILINGS[turn % 2], "http": {"port": port}}
            body["log"] = {"level": ("info", "warning")[turn % 2]}
            body["collector"]["http"] = body["stream"]["http"] = {"port": None}
            body["learn"] = {"http": {"port": None}}
            self._config(name).write_text(json.dumps(body))

    def _expect(self, what: str, holds: Callable[[ClusterClient], bool], timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        with ClusterClient(self.lab.kafka_settings(), "soak") as client:
            while time.monotonic() < deadline_s:
                try:
                    if holds(client):
                        return
                except ClusterError:
                    pass  # A broker is restarting.
                threading.Event().wait(_POLL_S)
        self.failures.append(f"not within {timeout_s:g} s: {what}")
        say(self.failures[-1])

    def _has_no_rates(self, client: ClusterClient) -> bool:
        answers: Sequence[Any] = list(
            client.broker_configs([n.node_id for n in self.lab.brokers], RATE_KEYS.values()).values()
        )
        return all(not isinstance(answer, ClusterError) and not answer for answer in answers)

    def _is_in_sync(self, client: ClusterClient) -> bool:
        return all(len(state.isr) == len(state.replicas) for state in client.partitions())
