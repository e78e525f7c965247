"""`rheostat fetchers`, `limits` and `move` on real brokers: what they count and foretell is what the cluster has and does."""

from __future__ import annotations

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import NewTopic
from lab_parts import rheostat, until

from rheostat.lab import Lab, LabSpec, Load
from rheostat.lab.tools import reassign_partitions
from streaming.kafka.cluster import ClusterClient
from streaming.kafka.racks import broker_racks
from tuner.model.fetchers import client_id, fetcher_id

FETCHERS = 3
RACKS = {1: "a", 2: "b", 3: "c", 4: "c"}
LAB = LabSpec(
    brokers=4,
    broker_settings={"num.replica.fetchers": str(FETCHERS)},
    settings_by_node={broker: {"broker.rack": rack} for broker, rack in RACKS.items()},
)
# On three brokers in turn, as before KRaft: partitions that share leader and follower are three apart, as threads are.
IN_TURN = {p: [1 + p % 3, 1 + (p + 1) % 3] for p in range(12)}
PLACED_BY_KAFKA = {"clicks.eu-west_1": 7, "a": 5, "a-topic-with-a-rather-long-name.that_goes_on.and-on": 4}
_SERIES = re.compile(
    r'kafka_server_fetcherlagmetrics_consumerlag\{clientid="([^"]+)",partition="(\d+)",topic="([^"]+)",?\}'
)


@pytest.fixture(scope="module")
def client(lab: Lab) -> Iterator[ClusterClient]:
    with lab.admin() as admin:
        admin.create_topics(
            [
                NewTopic("in-turn", replica_assignments=IN_TURN),
                *(NewTopic(name, count, 3) for name, count in PLACED_BY_KAFKA.items()),
            ]
        )
    with ClusterClient(lab.kafka_settings(), "test") as made:
        until(lambda: all(s.leader > 0 for s in made.partitions()), 20, "all partitions have leaders")
        yield made


def told(*arguments: str | Path, code: int = 0) -> dict[str, Any]:
    done = rheostat(*arguments, "--json")
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# -- fetchers --------------------------------------------------------------------------------------------------------------


def threads_of(lab: Lab) -> set[tuple[int, str, int, str]]:
    """Follower, topic, partition and the thread that copies it, as each broker's own metrics have it."""
    found = set()
    for node in lab.brokers:
        with urllib.request.urlopen(node.jmx_url, timeout=10) as answer:
            for thread, partition, topic in _SERIES.findall(answer.read().decode()):
                found.add((node.node_id, topic, int(partition), thread))
    return found


def test_predicted_cells_are_those_of_the_running_brokers(
    lab: Lab, client: ClusterClient, lab_config_file: Path
) -> None:
    expected = sum(len(s.replicas) - 1 for s in client.partitions())
    assert expected == 12 + 2 * 16
    running = until(lambda: len(t := threads_of(lab)) >= expected and t, 30, "every replica has its series", every_s=1)

    assert running == {
        (follower, s.topic, s.partition, client_id(fetcher_id(s.topic, s.partition, FETCHERS), s.leader))
        for s in client.partitions()
        for follower in s.replicas
        if follower != s.leader
    }

    found = told("fetchers", "-c", lab_config_file, "--by", "partitions", code=1)
    predicted = {(cell["follower"], cell["client_id"]): cell["partitions"] for cell in found["cells"]}
    assert predicted == Counter((follower, thread) for follower, _, _, thread in running)
    assert found["num_replica_fetchers"] == dict.fromkeys("1234", FETCHERS)
    # Each pair of in-turn has its four partitions on one thread of three.
    (worst, *_) = found["collisions"]
    assert (worst["topic"], worst["idle_threads"], worst["partitions"], worst["threads"]) == ("in-turn", 6, 4, 1)


def test_by_writes_the_thread_of_the_busy_topic_is_the_busiest(
    lab: Lab, client: ClusterClient, lab_config_file: Path, tmp_path: Path
) -> None:
    with Load(lab.artifacts, lab.bootstrap_servers, "in-turn", rate_bytes_per_s=300_000, record_bytes=1000) as load:
        before = client.log_sizes([1], [("in-turn", 0)])
        until(lambda: client.log_sizes([1], [("in-turn", 0)]) != before, 20, "the load writes")
        picture = tmp_path / "map.svg"
        done = rheostat("fetchers", "-c", lab_config_file, "--watch-s", "5", "--plot", picture)
        load.check()
    assert done.returncode == 1, done.stderr
    assert "num.replica.fetchers is 3; the busiest thread, ReplicaFetcherThread-" in done.stdout
    assert "in-turn" in done.stdout
    assert picture.read_text().startswith("<svg")


# -- limits ----------------------------------------------------------------------------------------------------------------


def hosted(client: ClusterClient) -> dict[int, int]:
    return dict(Counter(b for s in client.partitions() if not s.topic.startswith("__") for b in s.replicas))


def test_limits_agree_with_the_cluster(lab: Lab, client: ClusterClient, lab_config_file: Path) -> None:
    assert broker_racks(lab.kafka_settings(), "test") == RACKS
    found = told("limits", "-c", lab_config_file)
    assert {row["broker"]: row["partitions"] for row in found["brokers"]} == hosted(client)
    assert [row["rack"] for row in found["brokers"]] == list(RACKS.values())
    assert found["cluster"]["partitions"] == 12 * 2 + 16 * 3
    assert (found["limits_are_set"], found["max.broker.partitions"]) == (False, 4000)
    assert (
        told("limits", "-c", lab_config_file, "--max-broker-partitions", "10", code=1)["brokers"][0]["fill"] == "over"
    )


def test_a_topic_is_placed_within_the_limits_or_refused_and_kafka_takes_the_placement(
    lab: Lab, client: ClusterClient, lab_config_file: Path
) -> None:
    counts = hosted(client)
    room = {1: 6, 2: 4, 3: 2, 4: 0}
    limits = [f"--broker-limit={b}={counts[b] + more}" for b, more in room.items()]
    ask = ("limits", "place", "-c", lab_config_file, "--topic", "placed", "--replication", "2", *limits)
    plan = told(*ask, "--partitions", "6")["plan"]
    placed = {entry["partition"]: entry["replicas"] for entry in plan["partitions"]}
    assert Counter(b for replicas in placed.values() for b in replicas) == Counter(room)
    refused = rheostat(*ask, "--partitions", "7")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(
        "POLICY_VIOLATION: 7 partitions of topic placed with replication factor 2 need room"
    )

    with lab.admin() as admin:
        admin.create_topics([NewTopic("placed", replica_assignments=placed)])
    until(lambda: len(client.partitions(["placed"])) == 6, 20, "the topic is there")
    assert {s.partition: list(s.replicas) for s in client.partitions(["placed"])} == placed
    until(lambda: hosted(client) == {b: counts[b] + more for b, more in room.items()}, 20, "every broker knows of it")
    more = told("limits", "place", "-c", lab_config_file, "--topic", "placed", "--partitions", "8")["plan"]
    assert [entry["partition"] for entry in more["partitions"]] == [6, 7]


# -- move ------------------------------------------------------------------------------------------------------------------


def replicas_of(client: ClusterClient) -> dict[tuple[str, int], tuple[int, ...]]:
    return {(s.topic, s.partition): tuple(s.replicas) for s in client.partitions()}


def test_a_drained_broker_keeps_nothing_and_racks_stay_apart(
    lab: Lab, client: ClusterClient, lab_config_file: Path, tmp_path: Path
) -> None:
    before = replicas_of(client)
    file = tmp_path / "plan.json"
    found = told(
        "move", "-c", lab_config_file, "--drain-broker", "4", "--write-rate", "0", "--rate", "50MB/s", "-o", file
    )
    assert json.loads(file.read_text()) == found["plan"]
    target = {(e["topic"], e["partition"]): tuple(e["replicas"]) for e in found["plan"]["partitions"]}
    assert target.keys() == {key for key, replicas in before.items() if 4 in replicas}
    for key, replicas in target.items():
        assert len(replicas) == len(before[key])
        assert len(set(replicas) & set(before[key])) == len(before[key]) - 1, "one replica is copied and no more"
        assert len({RACKS[b] for b in replicas}) >= len({RACKS[b] for b in before[key]})
    assert found["times"]["counted"] is None or found["times"]["counted"]["verdict"] == "ends"

    reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute")
    until(lambda: not client.reassignments(), 60, "the move ends", every_s=0.5)
    # Whichever broker is asked may have heard of it a moment later than the controller.
    until(lambda: replicas_of(client) == before | target, 20, "every broker knows where the replicas are")
    assert not any(4 in replicas for replicas in replicas_of(client).values())

    done = rheostat("move", "-c", lab_config_file, "--drain-broker", "4", "--write-rate", "0")
    assert (done.returncode, done.stdout) == (0, "")
    assert "Nothing is to be moved" in done.stderr


def test_a_broker_that_cannot_be_drained_is_told_with_the_limits(client: ClusterClient, lab_config_file: Path) -> None:
    done = rheostat(
        "move", "-c", lab_config_file, "--drain-broker", "3", "--drain-broker", "4", "--max-broker-partitions", "9"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("POLICY_VIOLATION: ")
    assert "its replica on broker 3 can go nowhere" in done.stderr
    unknown = rheostat("move", "-c", lab_config_file, "--add-broker", "9")
    assert unknown.returncode == 2
    assert unknown.stderr == "--add-broker: broker 9 is not alive: expected one of 1, 2, 3, 4\n"
