"""Shared parts of the stories: a lab with a topic to move, and rheostat running against it as a user starts it."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from kafka.admin import NewTopic
from lab_parts import until

from benchmarks.controllers.storm import Storm, StormTenant
from rheostat.config.settings import Settings, load_settings
from rheostat.lab.cluster import Lab
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import Node, free_ports
from rheostat.lab.tools import tool_command
from rheostat.run.supervisor import Supervisor, children_for
from streaming.shared.kafka.cluster import ClusterClient

T = TypeVar("T")


# With one record a batch, filling takes two to five times as long: it is the processor that binds then, not the disk.
_IN_LARGE_BATCHES = ("batch.size=800000", "linger.ms=5")


def make_topic(lab: Lab, name: str, replicas: dict[int, list[int]], megabytes: int) -> None:
    with lab.admin() as admin:
        admin.create_topics([NewTopic(name, num_partitions=-1, replication_factor=-1, replica_assignments=replicas)])
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, name,
        rate_bytes_per_s=None, record_bytes=100_000, total_bytes=megabytes * 1_000_000, properties=_IN_LARGE_BATCHES,
    ) as load:  # fmt: skip
        load.wait(180)


class Running:
    """rheostat's three processes under their supervisor, which ``until`` drives without a thread."""

    def __init__(self, lab: Lab, *, dry_run: bool = False, **tuner: Any) -> None:
        self.port = free_ports(1)[0]
        self.config: Path = lab.home / "rheostat.yaml"
        self.config.write_text(lab_config(lab, http={"port": self.port}, **tuner))
        self.settings: Settings = load_settings(self.config, {})
        self.log = lab.home / "logs" / "rheostat.log"
        self.supervisor = Supervisor(children_for(self.config, dry_run=dry_run), log_to=self.log)

    def status(self) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/status", timeout=2) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except OSError:
            return None

    def decided(self, *reasons: str) -> dict[str, Any] | None:
        """Returns the first decision with one of these reasons."""
        status = self.status()
        return next((d for d in status["last_decisions"] if d["reason"] in reasons), None) if status else None

    def until(self, what: str, probe: Callable[[], T | None], timeout_s: float) -> T:
        def look() -> T | None:
            self.supervisor.check()
            return probe()

        try:
            return until(look, timeout_s, what)
        except pytest.fail.Exception as error:
            tail = self.log.read_text(errors="replace").splitlines()[-15:] if self.log.exists() else []
            raise AssertionError("\n".join([str(error), *tail])) from error


@contextmanager
def running(lab: Lab, *, dry_run: bool = False, **tuner: Any) -> Iterator[Running]:
    parts = Running(lab, dry_run=dry_run, **tuner)
    try:
        yield parts
    finally:
        parts.supervisor.stop()


@contextmanager
def slowed(node: Node, share: float, period_s: float = 0.4) -> Iterator[None]:
    """Gives a broker only this share of the time: suspends and resumes it several times a second."""
    assert node.process is not None
    process = node.process
    done = threading.Event()

    def pulse() -> None:
        while not done.is_set():
            process.send_signal(signal.SIGSTOP)
            done.wait(period_s * (1 - share))
            process.send_signal(signal.SIGCONT)
            done.wait(period_s * share)

    thread = threading.Thread(target=pulse, name=f"slowed-{node.name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=5)
        process.send_signal(signal.SIGCONT)


ETL = StormTenant(
    "etl", 8, topics_per_request=2, partitions=4, replication_factor=2, topics_max=40, connections=2, honours=False
)


@contextmanager
def storm(lab: Lab, *tenants: StormTenant) -> Iterator[Storm]:
    """These tenants create and delete topics until the block ends; without any, one that far exceeds its quota."""
    blown, done = Storm(lab.bootstrap_servers.split(",")), threading.Event()
    thread = threading.Thread(target=blown.run, args=(tenants or (ETL,), 500.0, done), name="storm", daemon=True)
    thread.start()
    try:
        yield blown
    finally:
        done.set()
        thread.join(timeout=40)


def moving(client: ClusterClient) -> bool:
    return bool(client.reassignments())


def run_kafka_configs(lab: Lab, command: str) -> None:
    """Runs the command that rheostat shows, with Kafka's own tool."""
    program, *arguments = shlex.split(command)
    assert program == "kafka-configs"
    arguments = [lab.bootstrap_servers if one == "$BOOTSTRAP" else one for one in arguments]
    done = subprocess.run(
        tool_command(lab.artifacts, "kafka.admin.ConfigCommand", *arguments),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
