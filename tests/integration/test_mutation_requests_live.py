"""Which node of a real cluster counts a creation, a deletion and an addition, with isolated and with combined controllers.

A broker forwards each of these requests to the active controller. The rules of conf/collectors/jmx-exporter.yaml read the counts.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from kafka.protocol.parser import KafkaProtocol
from lab_parts import until

from rheostat.lab.cluster import Lab, LabSpec, listens
from rheostat.lab.node import HOST, Node, free_ports
from streaming.collector.exposition import parse
from streaming.shared.contract import Metric, NodeRole
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient, ClusterError

CONTROLLER = 100
START_S_MAX = 90
Counts = dict[str, float]  # "CreateTopics,version=7" → requests.


class CombinedLab(Lab):
    """A lab whose controller is a broker too."""

    broker_port = 0

    def _settings(self, node: Node, voters: str) -> dict[str, str]:
        settings = super()._settings(node, voters)
        if node.role is NodeRole.CONTROLLER:
            self.broker_port = free_ports(1)[0]
            address = f"PLAINTEXT://{HOST}:{self.broker_port}"
            settings |= {
                "process.roles": "broker,controller",
                "inter.broker.listener.name": "PLAINTEXT",
                "listeners": f"CONTROLLER://{node.address},{address}",
                "advertised.listeners": address,
            }
        return settings

    def _await_brokers(self) -> None:
        settings = KafkaSettings(bootstrap_servers=self.bootstrap_servers, request_timeout_s=2)
        addresses = [*self.bootstrap_servers.split(","), f"{HOST}:{self.broker_port}"]
        with ClusterClient(settings, "test") as client:

            def are_all_there() -> bool:
                try:
                    # A broker accepts connections a little after it is registered.
                    return len(client.brokers()) == len(addresses) and all(map(listens, addresses))
                except ClusterError:
                    return False

            until(are_all_there, START_S_MAX, "all brokers are registered and accept connections")


def creation(name: str, version: int) -> Any:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[]
    )
    return versioned(CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False), version)


def deletion(name: str, version: int) -> Any:
    if version < 6:
        return versioned(DeleteTopicsRequest(topics=[], topic_names=[name], timeout_ms=30_000), version)
    topic = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=None)
    return versioned(DeleteTopicsRequest(topics=[topic], topic_names=[], timeout_ms=30_000), version)


def addition(name: str, count: int, version: int) -> Any:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
    return versioned(CreatePartitionsRequest(topics=[topic], timeout_ms=30_000, validate_only=False), version)


def versioned(request: Any, version: int) -> Any:
    request.API_VERSION = version
    return request


async def send(server: str, requests: list[Any]) -> None:
    """Sends the requests one after the other, each in its own version, and waits for each answer."""
    host, _, port = server.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    words = KafkaProtocol(client_id="test")
    try:
        for request in requests:
            words.send_request(request)
            writer.write(words.send_bytes())
            answers: list[Any] = []
            while not answers:
                answers = list(words.receive_bytes(await asyncio.wait_for(reader.read(65_536), 30)))
    finally:
        writer.close()


def counts(lab: Lab, node: int) -> tuple[Counts, Counts]:
    """Requests by kind and version, and answered requests by kind."""
    with urllib.request.urlopen(lab.jmx_urls()[node], timeout=60) as answer:
        samples = parse(answer.read().decode()).samples
    versions = {
        s.labels.removeprefix("request="): s.value for s in samples if s.name == Metric.REQUESTS_BY_VERSION and s.value
    }
    kinds = ("CreateTopics", "DeleteTopics", "CreatePartitions")
    totals = {s.labels: s.value for s in samples if s.name == Metric.TOTAL_TIME_COUNT}
    return versions, {kind: totals[f"request={kind}"] for kind in kinds}


@pytest.fixture(params=[Lab, CombinedLab], ids=["isolated", "combined"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with request.param(LabSpec(brokers=2)) as lab:
        yield lab


def test_active_controller_counts_forwarded_requests_in_their_own_version(cluster: Lab) -> None:
    first, second = cluster.bootstrap_servers.split(",")
    at_first = [creation(f"a{n}", 7) for n in range(5)] + [deletion(f"a{n}", 4) for n in range(3)] + [deletion("a3", 6)]
    at_second = [creation(f"b{n}", 5) for n in range(4)] + [addition("b0", 4, 2), addition("b0", 6, 3)]
    asyncio.run(send(first, at_first))
    asyncio.run(send(second, at_second))
    through_active: list[Any] = []
    if isinstance(cluster, CombinedLab):
        through_active = [creation(f"c{n}", 7) for n in range(6)]
        asyncio.run(send(f"{HOST}:{cluster.broker_port}", through_active))

    combined = len(through_active)
    kinds = ("CreateTopics", "DeleteTopics", "CreatePartitions")
    # What the active node forwards to itself, it counts once as a broker and once as the controller.
    versions = {
        "CreateTopics,version=7": 5 + 2 * combined,
        "CreateTopics,version=5": 4,
        "DeleteTopics,version=4": 3,
        "DeleteTopics,version=6": 1,
        "CreatePartitions,version=2": 1,
        "CreatePartitions,version=3": 1,
    }
    # The broker that was asked counts each request too.
    totals = {
        node: dict(zip(kinds, numbers, strict=True))
        for node, numbers in {CONTROLLER: (9 + 2 * combined, 4, 2), 1: (5, 4, 0), 2: (4, 0, 2)}.items()
    }

    def found() -> tuple[Counts, dict[int, Counts]]:
        return counts(cluster, CONTROLLER)[0], {node: counts(cluster, node)[1] for node in cluster.nodes}

    # A node counts a request after it has sent the answer.
    until(lambda: found() == (versions, totals), 30, lambda: f"the nodes count each request once: {found()}")
