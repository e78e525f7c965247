"""Runs one Kafka node of the lab: writes its files, and starts and ends its JVM."""

from __future__ import annotations

import base64
import random
import signal
import socket
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count as count_from
from itertools import islice
from pathlib import Path

from rheostat.config.resources import conf_file
from rheostat.errors import CommandError, SetupError
from rheostat.jvm.artifacts import Artifacts
from rheostat.run.process import spawn, stop
from streaming.shared.contract import NodeRole

HOST = "127.0.0.1"
# These ports are below the range of outgoing connections on Linux, which could take a port before the node listens on it.
_PORTS = range(10_000, 32_768)
_port_numbers = count_from(random.SystemRandom().randrange(len(_PORTS)))

# A lab may share two cores with Spark, so its JVMs use the cheapest options: the quick compiler and the serial garbage collector.
_JVM_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k", "-Djava.net.preferIPv4Stack=true")


FORMAT_S_MAX = 60.0


def free_ports(count: int) -> list[int]:
    """Returns free ports. In the life of this process, each port is returned only once.

    Each process begins at a random port, so that two processes rarely choose the same port before one of them uses it.
    """
    ports = (_PORTS[number % len(_PORTS)] for number in islice(_port_numbers, len(_PORTS)))
    free = list(islice(filter(_is_free, ports), count))
    if len(free) < count:
        raise SetupError(
            f"Only {len(free)} of {count} ports are free on {HOST} (from {_PORTS[0]} to {_PORTS[-1]}): end processes that use them."
        )
    return free


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def kafka_uuid() -> str:
    """Returns a random id in Kafka's format (url-safe base64, no padding, never starting with a dash)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _log_options(purpose: str) -> tuple[str, str]:
    """Returns the options that name the files of log4j 2 and of log4j 1, which Kafka 3.9 uses."""
    return (
        f"-Dlog4j2.configurationFile={conf_file('jvm', f'log4j2-{purpose}.xml')}",
        f"-Dlog4j.configuration=file:{conf_file('jvm', 'log4j-lab.properties')}",
    )


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """The address that a node listens on, and the prefix of its command."""

    host: str = HOST
    # For example ("ip", "netns", "exec", "name"). The prefix must replace its own process by the command (exec), not start a child.
    prefix: tuple[str, ...] = ()


@dataclass(slots=True)
class Node:
    node_id: int
    role: NodeRole
    home: Path
    log: Path
    port: int
    jmx_port: int
    client_port: int | None = None  # The port of a second listener with SASL, if the lab has users.
    heap_mb: int = 400
    settings: Mapping[str, str] = field(default_factory=dict)
    java_options: tuple[str, ...] = ()
    place: NodeAddress = NodeAddress()
    log_dir_count: int = 1
    process: subprocess.Popen[bytes] | None = None

    @property
    def log_dirs(self) -> list[Path]:
        """The folders of the partitions' logs."""
        return [self.home / ("data" if number == 0 else f"data-{number}") for number in range(self.log_dir_count)]

    @property
    def name(self) -> str:
        return f"{self.role}-{self.node_id}"

    @property
    def address(self) -> str:
        return f"{self.place.host}:{self.port}"

    @property
    def jmx_url(self) -> str:
        return f"http://{self.place.host}:{self.jmx_port}/metrics"

    def prepare(self, cluster_id: str) -> None:
        """Writes the files that ``kafka-storage format`` would write; the tool needs 1.5 s per node to start its JVM."""
        for folder in self.log_dirs:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "meta.properties").write_text(
                f"version=1\ncluster.id={cluster_id}\nnode.id={self.node_id}\ndirectory.id={kafka_uuid()}\n"
            )
        log_dirs = ",".join(map(str, self.log_dirs))
        node_settings = {"node.id": str(self.node_id), "process.roles": str(self.role), "log.dirs": log_dirs}
        lines = "".join(f"{key}={value}\n" for key, value in {**node_settings, **self.settings}.items())
        (self.home / "server.properties").write_text(lines)

    def format(self, java: Path, artifacts: Artifacts, cluster_id: str) -> None:
        """Formats the log directories with Kafka's own tool, so that the cluster has the features of this version's new clusters.

        Raises:
            CommandError: the tool failed.
        """
        for folder in self.log_dirs:
            (folder / "meta.properties").unlink()
        file = str(self.home / "server.properties")
        command = [
            str(java),
            *_JVM_OPTIONS,
            *_log_options("tools"),
            "-cp",
            artifacts.kafka_class_path,
            "kafka.tools.StorageTool",
        ]
        done = subprocess.run(
            [*command, "format", "-t", cluster_id, "-c", file],
            capture_output=True,
            text=True,
            timeout=FORMAT_S_MAX,
            check=False,
        )
        if done.returncode != 0:
            raise CommandError(
                f"kafka-storage format of {self.name} failed: {(done.stderr or done.stdout).strip()[-400:]}"
            )

    def command(self, java: Path, artifacts: Artifacts) -> list[str]:
        """Returns the command that runs the node."""
        rules = conf_file("collectors", "jmx-exporter.yaml")
        return [
            *self.place.prefix,
            str(java),
            f"-Xmx{self.heap_mb}m",
            f"-Xms{min(self.heap_mb, 128)}m",
            *_JVM_OPTIONS,
            *self.java_options,
            *_log_options("lab"),
            f"-javaagent:{artifacts.jmx_agent}={self.place.host}:{self.jmx_port}:{rules}",
            "-cp",
            artifacts.kafka_class_path,
            "kafka.Kafka",
            str(self.home / "server.properties"),
        ]

    def start(self, java: Path, artifacts: Artifacts) -> None:
        # A signal between the start and the assignment would leave a process that nothing ends.
        blocked = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        try:
            self.process = spawn(self.command(java, artifacts), log=self.log)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """Kills the node: its data is not needed any more, and a controlled shutdown would wait for other nodes."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=10)

    def stop(self, grace_s: float) -> None:
        """Shuts the node down in a controlled way, for tests that stop one broker of a running cluster."""
        if self.process is not None:
            stop(self.process, grace_s=grace_s)
