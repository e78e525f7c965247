"""Starts and stops a lab: one or three controllers and N brokers, up within seconds.

Invariant: leaving the ``with`` block ends every process that was started, also after a failed start. Data is always removed. The
logs stay only if a node did not start; the error names the log.
"""

from __future__ import annotations

import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from kafka.admin import KafkaAdminClient

from rheostat.errors import SetupError
from rheostat.jvm.artifacts import Artifacts, resolve_artifacts
from rheostat.jvm.java import find_java
from rheostat.jvm.kafka_versions import check_kafka_version, node_artifacts
from rheostat.lab.node import Node, NodeAddress, free_ports, kafka_uuid
from streaming.shared.class_archive import ClassArchive
from streaming.shared.contract import NodeRole
from streaming.shared.kafka import KafkaSettings, admin_client, close_admin
from streaming.shared.kafka.cluster import ClusterClient, ClusterError

START_S_MAX = 90
HOME_PREFIX = "rheostat-lab-"
_CONTROLLER_ID_MIN = 100
_PORT_TRIES = 3
_POLL_S = 0.05
_DUMP_S_MAX = 30.0  # Longest wait for a node to write the class archive, once on each machine.


class LabError(SetupError):
    """The lab did not come up; the message names the log to read."""


@dataclass(frozen=True, slots=True)
class LabSpec:
    """The description of a lab.

    Attributes:
        settings: settings of every node.
        broker_settings: settings of every broker; they override ``settings``.
        settings_by_node: settings of single nodes; they override ``settings`` and ``broker_settings``.
        users: password by name. With users, the lab also has a SASL/PLAIN listener and an authorizer. These users have only granted
            rights; clients of the listener without SASL have all rights.
        java_options: options of every node's JVM.
        places: address of each node that does not listen on the loopback interface.
        log_dir_count: number of log directories of each broker.
        folder: parent of the lab's folder; None means the folder for temporary files.
        kafka: the version of Kafka that the nodes run, such as 3.9 or 3.9.2; None means the version of conf/jvm/ivy.xml.
        plugins: jars that the nodes load besides Kafka's.
    """

    brokers: int = 3
    controllers: int = 1
    heap_mb: int = 400
    settings: Mapping[str, str] = field(default_factory=dict)
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    settings_by_node: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict)
    java_options: tuple[str, ...] = ()
    places: Mapping[int, NodeAddress] = field(default_factory=dict)
    log_dir_count: int = 1
    folder: Path | None = None
    kafka: str | None = None
    plugins: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.brokers < 1 or self.controllers not in (1, 3):
            raise ValueError("a lab has at least one broker and either 1 or 3 controllers")


class Lab:
    """A running lab, as a context manager; ``nodes`` and ``bootstrap_servers`` exist once it is entered."""

    node_class: type[Node] = Node

    def __init__(self, spec: LabSpec = LabSpec(), *, artifacts: Artifacts | None = None) -> None:
        self.spec = spec
        self.cluster_id = kafka_uuid()
        self.nodes: dict[int, Node] = {}
        self.start_s = 0.0  # How long the start took.
        self.artifacts = artifacts or resolve_artifacts()
        # Tools and load generators keep the default version, because their options differ between versions of Kafka.
        self.node_artifacts = self.artifacts
        if spec.kafka is not None:
            self.node_artifacts = node_artifacts(self.artifacts, check_kafka_version(spec.kafka))
        self.node_artifacts = replace(self.node_artifacts, kafka_jars=(*self.node_artifacts.kafka_jars, *spec.plugins))
        java = find_java()
        self._java = java.executable
        self._class_archive = ClassArchive(self.node_artifacts.kafka_class_archive(java), with_agent=True)
        self._recording_node: Node | None = None  # The node whose JVM writes the class archive when it ends.
        self._keep_logs = False
        # The folder is created last, so that a failure in the lines above leaves no folder.
        self.home = Path(tempfile.mkdtemp(prefix=HOME_PREFIX, dir=spec.folder))

    # -- start and end ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Lab:
        try:
            self._start()
        except BaseException as error:
            self._keep_logs = isinstance(error, LabError)
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._end_recording()
        self.close()

    def close(self) -> None:
        """Ends every node and removes the data. A second Ctrl-C does not interrupt this."""
        with _no_interrupts():
            for node in self.nodes.values():
                node.kill()
            if not self._keep_logs:
                shutil.rmtree(self.home, ignore_errors=True)
            elif self.home.exists():
                for entry in self.home.iterdir():
                    if entry.name != "logs":
                        shutil.rmtree(entry, ignore_errors=True)

    def _end_recording(self) -> None:
        """Lets the recording node write the class archive, which halves the start of all later labs on this machine."""
        node = self._recording_node
        if node is not None and node.process is not None and node.alive():
            node.process.terminate()
            self._class_archive.finish(node.process, _DUMP_S_MAX)

    def _start(self) -> None:
        began_s = time.monotonic()
        for attempt in range(1, _PORT_TRIES + 1):
            self._lay_out()
            for node in self.nodes.values():
                node.prepare(self.cluster_id)
                if self.spec.kafka is not None and node.role is NodeRole.CONTROLLER:
                    node.format(self._java, self.node_artifacts, self.cluster_id)
                node.start(self._java, self.node_artifacts)
            try:
                self._await_brokers()
                break
            except LabError as error:
                # Between finding a free port and binding it, another process may have taken it.
                if attempt == _PORT_TRIES or "Address already in use" not in str(error):
                    raise
                for node in self.nodes.values():
                    node.kill()
                    shutil.rmtree(node.home, ignore_errors=True)
        self.start_s = time.monotonic() - began_s

    def _lay_out(self) -> None:
        """Creates the nodes with free ports and their settings; starts nothing."""
        spec = self.spec
        ids = [(_CONTROLLER_ID_MIN + i, NodeRole.CONTROLLER) for i in range(spec.controllers)]
        ids += [(i, NodeRole.BROKER) for i in range(1, spec.brokers + 1)]
        ports = iter(free_ports(3 * len(ids)))
        use_archive = self._class_archive.use_options()
        logs = self.home / "logs"
        logs.mkdir(exist_ok=True)
        for node_id, role in ids:
            self.nodes[node_id] = self.node_class(
                node_id,
                role,
                self.home / f"{role}-{node_id}",
                logs / f"{role}-{node_id}.log",
                port=next(ports),
                jmx_port=next(ports),
                client_port=next(ports) if spec.users else None,
                heap_mb=spec.heap_mb,
                java_options=(*spec.java_options, *use_archive),
                place=spec.places.get(node_id, NodeAddress()),
                log_dir_count=spec.log_dir_count if role is NodeRole.BROKER else 1,
            )
        if not use_archive:
            self._recording_node = self.nodes[ids[-1][0]]
            self._recording_node.java_options += self._class_archive.record_options()
        voters = ",".join(f"{n.node_id}@{n.address}" for n in self.nodes.values() if n.role is NodeRole.CONTROLLER)
        for node in self.nodes.values():
            node.settings = self._settings(node, voters)

    def _settings(self, node: Node, voters: str) -> dict[str, str]:
        spec = self.spec
        settings = {
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "offsets.topic.replication.factor": str(min(spec.brokers, 3)),
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": str(min(spec.brokers, 3)),
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
        }
        if spec.users:
            entries = " ".join(f'user_{name}="{password}"' for name, password in spec.users.items())
            settings |= {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.client.plain.sasl.jaas.config": (
                    f"org.apache.kafka.common.security.plain.PlainLoginModule required {entries};"
                ),
            }
        if node.role is NodeRole.CONTROLLER:
            settings["listeners"] = f"CONTROLLER://{node.address}"
            del settings["inter.broker.listener.name"]
        else:
            listeners = f"PLAINTEXT://{node.address}"
            if node.client_port is not None:
                listeners += f",CLIENT://{node.place.host}:{node.client_port}"
            settings |= {"listeners": listeners, "advertised.listeners": listeners} | dict(spec.broker_settings)
        return settings | dict(spec.settings) | dict(spec.settings_by_node.get(node.node_id, {}))

    def _await_brokers(self) -> None:
        """Waits until every broker is registered and unfenced, and accepts connections, which begins a little later."""
        deadline_s = time.monotonic() + START_S_MAX
        last_problem = "not all are registered"
        settings = KafkaSettings(bootstrap_servers=self.bootstrap_servers, request_timeout_s=2)
        with ClusterClient(settings, "rheostat-lab") as client:
            while True:
                for node in self.nodes.values():
                    if not node.alive():
                        raise LabError(
                            f"Lab node {node.name} ended while starting: {_error_line(node.log)} See {node.log}."
                        )
                try:
                    are_registered = len(client.brokers()) == self.spec.brokers
                    if are_registered and all(listens(address) for address in self.bootstrap_servers.split(",")):
                        return
                except ClusterError as error:
                    last_problem = str(error)
                if time.monotonic() > deadline_s:
                    logs = next(iter(self.nodes.values())).log.parent
                    raise LabError(
                        f"Not all brokers of the lab started within {START_S_MAX} s ({last_problem}). See the logs in {logs}."
                    )
                threading.Event().wait(_POLL_S)

    # -- use ----------------------------------------------------------------------------------------------------------

    def start_again(self, node_id: int, kafka: str | None = None) -> None:
        """Starts a node that has ended, with the same data and ports. Only the main thread may call it, because of ``spawn``.

        Args:
            kafka: the version of Kafka that the node runs from now on, as in a rolling upgrade; None means the version of the lab.
        """
        artifacts = self.node_artifacts
        if kafka is not None:
            artifacts = node_artifacts(self.artifacts, check_kafka_version(kafka))
            artifacts = replace(artifacts, kafka_jars=(*artifacts.kafka_jars, *self.spec.plugins))
        self.nodes[node_id].start(self._java, artifacts)

    @property
    def brokers(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.role is NodeRole.BROKER]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.address for node in self.brokers)

    @property
    def sasl_bootstrap_servers(self) -> str:
        return ",".join(f"{node.place.host}:{node.client_port}" for node in self.brokers)

    def kafka_settings(self) -> KafkaSettings:
        return KafkaSettings(bootstrap_servers=self.bootstrap_servers)

    def jmx_urls(self) -> dict[int, str]:
        return {node.node_id: node.jmx_url for node in self.nodes.values()}

    @contextmanager
    def admin(self, client_id: str = "rheostat-lab") -> Iterator[KafkaAdminClient]:
        client = admin_client(self.kafka_settings(), client_id)
        try:
            yield client
        finally:
            close_admin(client)


def listens(address: str) -> bool:
    """Returns whether a process accepts connections at ``host:port``."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except OSError:
        return False
    return True


def _error_line(log: Path) -> str:
    """Returns the line of a node's log that most likely says why the node ended."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    errors = [line for line in lines if "ERROR" in line or "Exception" in line or "Address already in use" in line]
    last_line = (errors or lines or ["(its log is empty)"])[-1]
    return repr(last_line[:300])


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Ignores the signals that end a process; only in the main thread, as Python delivers signals to no other thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous_handlers = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
