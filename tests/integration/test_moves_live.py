"""`rheostat fetchers`, `limits` and `plan generate` on real brokers: their counts and predictions match the cluster."""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, rheostat, running, until, wait_for_metadata

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from streaming.shared.contract import BrokerSignal, encode_signal
from streaming.shared.fetcher_threads import client_id
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient, PartitionState
from streaming.shared.kafka.fetchers import FetcherClient
from streaming.shared.kafka.racks import broker_racks
from tuner.core.fetchers import fetcher_id

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
        wait_for_metadata(lab)
        yield made


def told(*arguments: str | Path, code: int = 0) -> dict[str, Any]:
    done = rheostat(*arguments, "--json")
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# -- fetchers --------------------------------------------------------------------------------------------------------------


def threads_of(lab: Lab) -> set[tuple[int, str, int, str]]:
    """Returns (follower, topic, partition, fetcher thread) from each broker's own metrics."""
    found = set()
    for node in lab.brokers:
        with urllib.request.urlopen(node.jmx_url, timeout=10) as answer:
            for thread, partition, topic in _SERIES.findall(answer.read().decode()):
                found.add((node.node_id, topic, int(partition), thread))
    return found


def test_predicted_fetcher_threads_match_the_running_brokers(
    lab: Lab, client: ClusterClient, lab_config_file: Path
) -> None:
    expected = 12 + 2 * 16
    # On a loaded machine the first answer may come from a broker that does not know the new topics yet.
    until(lambda: sum(len(s.replicas) - 1 for s in client.partitions()) == expected, 30, "the topics are known")
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


def test_thread_of_busiest_topic_has_highest_write_load(
    lab: Lab, client: ClusterClient, lab_config_file: Path, tmp_path: Path
) -> None:
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, "in-turn", rate_bytes_per_s=300_000, record_bytes=1000
    ) as load:
        before = client.log_sizes([1], [("in-turn", 0)])
        until(lambda: client.log_sizes([1], [("in-turn", 0)]) != before, 20, "the load writes")
        picture = tmp_path / "map.svg"
        done = rheostat("fetchers", "-c", lab_config_file, "--measure-for", "5", "--plot", picture)
        load.check()
    assert done.returncode == 1, done.stderr
    assert "num.replica.fetchers is 3; the busiest thread, ReplicaFetcherThread-" in done.stdout
    assert "in-turn" in done.stdout
    assert picture.read_text().startswith("<svg")


def test_fetchers_watch_shows_every_thread_until_ctrl_c(
    lab: Lab, client: ClusterClient, lab_config_file: Path, tmp_path: Path
) -> None:
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, "in-turn", rate_bytes_per_s=300_000, record_bytes=1000
    ) as load:
        before = client.log_sizes([1], [("in-turn", 0)])
        until(lambda: client.log_sizes([1], [("in-turn", 0)]) != before, 20, "the load writes")
        ask = ("fetchers", "-c", lab_config_file, "--watch")
        with running(*RHEOSTAT, *ask, "--json", log=tmp_path / "watch.log") as watch:
            until(lambda: [r for r in watch.lines() if r["worst_collision"] is not None], 40, "a collision is seen")
            assert watch.end(signal.SIGINT) == 0
        shown = rheostat(*ask, "--duration", "3s")
        load.check()
    # On a busy machine a measurement may fall between two writes.
    (*_, last) = (row for row in watch.lines() if row["worst_collision"] is not None)
    copied = {(row["follower"], row["client_id"]): row["partitions"] for row in last["threads"]}
    assert copied == Counter((follower, thread) for follower, _, _, thread in threads_of(lab))
    worst = next(
        row for row in last["threads"] if (row["follower"], row["client_id"]) == tuple(last["worst_collision"].values())
    )
    assert worst["busiest_partition"]["topic"] == "in-turn"
    assert worst["written_bytes_per_s"] > 0
    assert worst["lag_bytes"] is not None
    assert "Traceback" not in watch.said()
    assert shown.returncode == 0, shown.stderr
    assert "Worst collision: ReplicaFetcherThread-" in shown.stdout


# -- limits ----------------------------------------------------------------------------------------------------------------


def hosted(client: ClusterClient) -> dict[int, int]:
    return dict(Counter(b for s in client.partitions() if not s.topic.startswith("__") for b in s.replicas))


def test_limits_report_matches_the_cluster(lab: Lab, client: ClusterClient, lab_config_file: Path) -> None:
    assert broker_racks(lab.kafka_settings(), "test") == RACKS
    found = told("limits", "-c", lab_config_file)
    assert {row["broker"]: row["partitions"] for row in found["brokers"]} == hosted(client)
    assert [row["rack"] for row in found["brokers"]] == list(RACKS.values())
    assert found["cluster"]["partitions"] == 12 * 2 + 16 * 3
    assert (found["limits_are_set"], found["max.broker.partitions"]) == (False, 4000)
    assert (
        told("limits", "-c", lab_config_file, "--max-broker-partitions", "10", code=1)["brokers"][0]["fill"] == "over"
    )


def test_topic_placement_respects_limits_and_is_accepted_by_kafka(
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
    # Each question may go to another broker, and one of them may be a little behind.
    until(
        lambda: {s.partition: list(s.replicas) for s in client.partitions(["placed"])} == placed,
        20,
        "the topic is there as it was placed",
    )
    until(lambda: hosted(client) == {b: counts[b] + more for b, more in room.items()}, 20, "every broker knows of it")
    more = told("limits", "place", "-c", lab_config_file, "--topic", "placed", "--partitions", "8")["plan"]
    assert [entry["partition"] for entry in more["partitions"]] == [6, 7]


# -- move ------------------------------------------------------------------------------------------------------------------


Replicas = dict[tuple[str, int], tuple[int, ...]]


def replicas_of(client: ClusterClient) -> Replicas:
    return {(s.topic, s.partition): tuple(s.replicas) for s in client.partitions()}


def test_drained_broker_keeps_no_replica_and_racks_stay_distinct(
    lab: Lab, client: ClusterClient, lab_config_file: Path, tmp_path: Path
) -> None:
    before = replicas_of(client)
    file = tmp_path / "plan.json"
    found = told(
        "plan",
        "generate",
        "-c",
        lab_config_file,
        "--drain-broker",
        "4",
        "--write-rate",
        "0",
        "--throttle",
        "50MB/s",
        "-o",
        file,
    )
    assert json.loads(file.read_text()) == found["plan"]
    target = {(e["topic"], e["partition"]): tuple(e["replicas"]) for e in found["plan"]["partitions"]}
    assert target.keys() == {key for key, replicas in before.items() if 4 in replicas}
    for key, replicas in target.items():
        assert len(replicas) == len(before[key])
        assert len(set(replicas) & set(before[key])) == len(before[key]) - 1, "one replica is copied and no more"
        assert len({RACKS[b] for b in replicas}) >= len({RACKS[b] for b in before[key]})
    assert found["estimate"]["per_side"] is None or found["estimate"]["per_side"]["verdict"] == "ends"

    reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute")
    until(lambda: not client.reassignments(), 60, "the move ends", every_s=0.5)
    # Whichever broker is asked may have heard of it a moment later than the controller.
    until(lambda: replicas_of(client) == before | target, 20, "every broker knows where the replicas are")
    until(lambda: not any(4 in r for r in replicas_of(client).values()), 20, "the next one asked knows it too")

    nothing_left(lab_config_file, "--drain-broker", "4")


def nothing_left(config: Path, *what: str) -> None:
    """Checks that a repeated request finds nothing to do."""
    done = rheostat("plan", "generate", "-c", config, *what, "--write-rate", "0")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "There is nothing to move" in done.stderr


def moved(lab: Lab, client: ClusterClient, config: Path, *what: str) -> tuple[Replicas, Replicas]:
    """Executes the plan; returns the replicas before and after it."""
    every = replicas_of(client)
    plan = told("plan", "generate", "-c", config, *what, "--write-rate", "0", "--throttle", "50MB/s")["plan"]
    target = {(e["topic"], e["partition"]): tuple(e["replicas"]) for e in plan["partitions"]}
    assert target, "there is something to do"
    before = {key: every[key] for key in target}
    for key, replicas in target.items():
        assert len(set(replicas)) == len(before[key]) == len(set(replicas) & set(before[key])) + 1, (
            "one replica is copied"
        )
        assert len({RACKS[b] for b in replicas}) >= len({RACKS[b] for b in before[key]})
    reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute")
    until(
        lambda: not client.reassignments() and replicas_of(client) == every | target, 60, "the move ends", every_s=0.5
    )
    until(lambda: replicas_of(client) == every | target, 20, "the next one asked knows it too")
    return before, target


def test_replacement_broker_takes_all_replicas(lab: Lab, client: ClusterClient, lab_config_file: Path) -> None:
    every = replicas_of(client)
    # The fourth, which was drained, has the third's rack.
    assert {4, 3} & {b for replicas in every.values() for b in replicas} == {3}
    before, target = moved(lab, client, lab_config_file, "--replace", "3=4")
    assert before == {key: replicas for key, replicas in every.items() if 3 in replicas}
    assert target == {key: tuple(4 if b == 3 else b for b in replicas) for key, replicas in before.items()}
    nothing_left(lab_config_file, "--replace", "3=4")


def test_added_broker_gets_its_share_and_nothing_else_moves(
    lab: Lab, client: ClusterClient, lab_config_file: Path
) -> None:
    assert not any(3 in replicas for replicas in replicas_of(client).values())
    before, target = moved(lab, client, lab_config_file, "--add-broker", "3")
    assert {b for key in target for b in set(target[key]) - set(before[key])} == {3}
    nothing_left(lab_config_file, "--add-broker", "3")


def test_rebalance_evens_out_bytes(lab: Lab, client: ClusterClient, lab_config_file: Path) -> None:
    with lab.admin() as admin:
        admin.create_topics([NewTopic("lopsided", replica_assignments={p: [1, 2] for p in range(16)})])
    with ProducerLoad(
        lab.artifacts,
        lab.bootstrap_servers,
        "lopsided",
        rate_bytes_per_s=None,
        record_bytes=10_000,
        total_bytes=32_000_000,
    ) as load:
        load.wait(60)

    def held() -> dict[int, int]:
        sizes = client.log_sizes(RACKS, replicas_of(client))
        assert all(isinstance(each, dict) for each in sizes.values()), sizes
        return {broker: sum(each.values()) for broker, each in sizes.items() if isinstance(each, dict)}

    uneven = held()
    assert max(uneven.values()) > 4 * min(uneven.values())
    moved(lab, client, lab_config_file, "--rebalance")
    # A broker's copy of what has left it is deleted a moment later.
    mean = sum(uneven.values()) / len(uneven)
    until(lambda: max(abs(each - mean) for each in held().values()) <= 0.2 * mean, 60, "all hold as much", every_s=0.5)
    nothing_left(lab_config_file, "--rebalance")


def test_undrainable_broker_is_reported_with_the_limits(client: ClusterClient, lab_config_file: Path) -> None:
    done = rheostat(
        "plan",
        "generate",
        "-c",
        lab_config_file,
        "--drain-broker",
        "3",
        "--drain-broker",
        "4",
        "--max-broker-partitions",
        "9",
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("POLICY_VIOLATION: ")
    # Both brokers are drained; which one is named depends on the topics of the tests before.
    assert re.search(r"its replica on broker [34] has no possible broker", done.stderr)
    unknown = rheostat("plan", "generate", "-c", lab_config_file, "--add-broker", "9")
    assert unknown.returncode == 2
    assert unknown.stderr == "--add-broker: broker 9 is not alive: expected one of 1, 2, 3, 4\n"


def test_fill_date_of_brokers_comes_from_signals(lab: Lab, client: ClusterClient, lab_config_file: Path) -> None:
    assert told("limits", "-c", lab_config_file)["why_no_forecast"] == (
        "there is no topic rheostat.signals yet: `rheostat run` creates it"
    )
    begin_ms = round(time.time() * 1000) - 4 * 3_600_000
    with lab.admin() as admin:
        admin.create_topics([NewTopic("rheostat.signals", 1, 1)])
    until(lambda: any(s.leader > 0 for s in client.partitions(["rheostat.signals"])), 20, "the topic is there")
    writer = producer(lab.kafka_settings(), "test")
    for hour in range(5):
        at_ms = begin_ms + hour * 3_600_000
        for broker, count in ((1, 100 + 5 * hour), (2, 50), (3, 50), (4, 50)):
            told_then = BrokerSignal("lab", broker, at_ms, at_ms, 6, 1.0, partitions=float(count))
            writer.send("rheostat.signals", value=encode_signal(told_then), timestamp_ms=at_ms).get(20)
    writer.close()
    wait_for_metadata(lab)
    limit = hosted(client)[1] + 10
    found = told("limits", "-c", lab_config_file, "--max-broker-partitions", str(limit))
    one, two, *_ = (row["forecast"] for row in found["brokers"])
    assert (one["fills"], one["growth"]) == ("in_time", 20)
    assert one["full_in_s"] == pytest.approx(2 * 3600, rel=0.01)
    assert (two["fills"], found["cluster"]["forecast"]["fills"]) == ("not_growing", "unlimited")


# -- what is changed -------------------------------------------------------------------------------------------------------


def test_topic_is_created_only_within_partition_limits(client: ClusterClient, lab_config_file: Path) -> None:
    counts = hosted(client)
    room = {1: 3, 2: 3, 3: 1, 4: 1}
    limited = json.loads(lab_config_file.read_text())
    limited["limits"] = {"by_broker": {b: counts.get(b, 0) + more for b, more in room.items()}}
    lab_config_file.write_text(json.dumps(limited))
    ask = ("limits", "create", "-c", lab_config_file, "--topic", "made", "--replication", "2")
    refused = rheostat(*ask, "--partitions", "5")
    assert (refused.returncode, refused.stdout) == (1, ""), refused.stderr
    assert refused.stderr.startswith(
        "POLICY_VIOLATION: 5 partitions of topic made with replication factor 2 need room for 10"
    )
    assert not client.partitions(["made"])

    wrong = rheostat(*ask, "--partitions", "1", "--topic-config", "colour=red")
    assert (wrong.returncode, wrong.stderr) == (
        2, "--topic-config: Kafka refuses it: INVALID_CONFIG: Unknown topic config name: colour\n",
    )  # fmt: skip

    found = told(*ask, "--partitions", "4", "--topic-config", "retention.ms=3600000")
    assert (found["created"], found["read_back"], found["limits_exceeded"]) == (True, True, [])
    placed = {e["partition"]: tuple(e["replicas"]) for e in found["plan"]["partitions"]}
    until(
        lambda: {s.partition: s.replicas for s in client.partitions(["made"])} == placed, 20, "it is as it was placed"
    )
    assert Counter(b for replicas in placed.values() for b in replicas) == Counter(room)
    kept = {"made": {"retention.ms": "3600000"}}
    until(
        lambda: client.topic_configs(["made"], ["retention.ms"]) == kept, 20, "a broker that is asked shows its setting"
    )

    again = rheostat(*ask, "--partitions", "4")
    assert again.returncode == 2
    assert "--topic: made already exists, with 4 partitions" in again.stderr


def test_fetchers_change_stepwise_and_are_restored_on_ctrl_c(
    lab: Lab, client: ClusterClient, lab_config_file: Path, tmp_path: Path
) -> None:
    def values() -> set[str]:
        found = client.broker_configs([1, 2, 3, 4], ["num.replica.fetchers"])
        return {answer["num.replica.fetchers"].value for answer in found.values() if not isinstance(answer, Exception)}

    ask = ("fetchers", "-c", lab_config_file, "--by", "partitions", "--apply", "--yes", "--observe-for", "2s")
    with FetcherClient(lab.kafka_settings(), "test") as default:
        try:
            found = told(*ask, "--value", "6")
            assert found["apply"] == {"current": 6, "changed": True, "why": None, "restored": False}
            assert values() == {"6"}
            assert default.default_config("num.replica.fetchers") == "6"
            until(lambda: {t.split("-")[1] for *_, t in threads_of(lab)} >= {"3", "4", "5"}, 30, "they run", every_s=1)

            log = tmp_path / "interrupted.log"
            with running(*RHEOSTAT, *ask, "--value", "24", log=log) as run:
                until(lambda: "num.replica.fetchers=24 on" in run.said(), 40, "the second step")
                assert run.end(signal.SIGINT) == 130
            assert "Restoring 6: interrupted (KeyboardInterrupt)" in run.said()
            until(lambda: values() == {"6"}, 20, "all brokers have the value from before")
        finally:
            default.alter_default_config("num.replica.fetchers", None)
        until(lambda: values() == {"3"} and default.default_config("num.replica.fetchers") is None, 20, "as it was")


def size(client: ClusterClient, state: PartitionState) -> int:
    found = client.log_sizes([state.leader], [(state.topic, state.partition)])[state.leader]
    assert not isinstance(found, Exception)
    return sum(found.values())


def test_fetchers_are_not_changed_while_partitions_move(lab: Lab, client: ClusterClient, lab_config_file: Path) -> None:
    (state,) = [s for s in client.partitions(["made"]) if s.partition == 0]
    target = tuple(b for b in (1, 2, 3, 4) if b not in state.replicas)
    held = {b: {"follower.replication.throttled.rate": "1"} for b in target}
    client.alter_broker_configs(held)
    client.alter_topic_configs({"made": {"follower.replication.throttled.replicas": "*"}})
    with ProducerLoad(lab.artifacts, lab.bootstrap_servers, "made", rate_bytes_per_s=2_000_000, record_bytes=1000):
        until(lambda: size(client, state) > 3_000_000, 30, "more than a first fetch takes")
    reassign_partitions(lab.artifacts, lab.bootstrap_servers, {("made", 0): target}, "--execute")
    try:
        assert client.reassignments(), "held back, it has not ended"
        done = rheostat("fetchers", "-c", lab_config_file, "--by", "partitions", "--apply", "--yes", "--value", "4")
        assert done.returncode == 1
        assert "1 partitions are being reassigned, and every change of num.replica.fetchers restarts all" in done.stderr
    finally:
        client.alter_broker_configs({b: {"follower.replication.throttled.rate": None} for b in target})
        client.alter_topic_configs({"made": {"follower.replication.throttled.replicas": None}})
    until(lambda: not client.reassignments(), 60, "the move ends", every_s=0.5)
