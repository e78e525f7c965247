"""Snapshots of the cluster: replica lists, moves, fetcher threads, and partitions that lost a replica."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from streaming.shared import kafka_names
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterError, ConfigValue, Endpoint, PartitionState
from streaming.shared.throttle_settings import ThrottledReplicas
from tuner.core.cluster import BrokerSide, ClusterUnreadable, LiveCluster, PartitionMove
from tuner.runtime.observe.cluster_reader import ClusterReader
from tuner.runtime.observe.stationary_partitions import READ_EVERY


class FakeClusterClient:
    """The client of a cluster with three brokers; a test changes its answers between two snapshots."""

    def __init__(self, lists: dict[str, dict[str, str]]) -> None:
        self.lists = lists
        self.isr: tuple[int, ...] = (1, 2)
        self.asked: list[set[str]] = []
        self.rates: dict[int, str] = {}
        self.fetchers: dict[int, str] = {}
        self.sample_s: dict[int, str] = {}
        self.moving = True
        self.isr_at_rest: tuple[int, ...] = (1, 2)
        self.offline: tuple[int, ...] = ()
        self.fails = False

    def brokers(self) -> list[Endpoint]:
        return [Endpoint(broker, "broker", 9092) for broker in (1, 2, 3)]

    def reassignments(self) -> list[PartitionState]:
        moving = PartitionState("orders", 0, 1, replicas=(3, 2, 1), isr=self.isr, adding=(3,), removing=(1,))
        return [moving] if self.moving else []

    def partitions(self, topics: Iterable[str] | None = None) -> list[PartitionState]:
        if self.fails:
            raise ClusterError("no broker answers")
        return [
            PartitionState(topic, 0, 1, (1, 2), self.isr_at_rest, offline=self.offline)
            for topic in ("orders", "payments", "quiet")
            if topics is None or topic in topics
        ]

    def topic_configs(self, topics: Iterable[str], _keys: Iterable[str]) -> dict[str, dict[str, str]]:
        self.asked.append(set(topics))
        return {topic: dict(self.lists[topic]) for topic in topics if topic in self.lists}

    def broker_configs(self, brokers: Iterable[int], _keys: Iterable[str]) -> dict[int, dict[str, ConfigValue]]:
        rates = {
            b: {kafka_names.LEADER_RATE: ConfigValue(r, kafka_names.SOURCE_DYNAMIC_BROKER)}
            for b, r in self.rates.items()
        }
        threads = {b: {"num.replica.fetchers": ConfigValue(n, 4)} for b, n in self.fetchers.items()}
        samples = {b: {kafka_names.QUOTA_SAMPLE_S: ConfigValue(s, 4)} for b, s in self.sample_s.items()}
        return {b: {**rates.get(b, {}), **threads.get(b, {}), **samples.get(b, {})} for b in brokers}


def reader_of(client: object) -> ClusterReader:
    return ClusterReader(client)  # type: ignore[arg-type]  # A client with the calls that a snapshot makes.


def lists_of(live: LiveCluster | ClusterUnreadable) -> dict[str, ThrottledReplicas]:
    assert isinstance(live, LiveCluster)
    return {topic: throttle.leader for topic, throttle in live.lists.items()}


def throttled(*pairs: tuple[int, int]) -> ThrottledReplicas:
    return ThrottledReplicas(pairs=frozenset(pairs))


def read_lists(
    client: FakeClusterClient, reader: ClusterReader | None = None, *, full: bool = False
) -> dict[str, ThrottledReplicas]:
    reader = reader if reader is not None else reader_of(client)
    return lists_of(reader.snapshot(full=full))


def test_snapshot_shows_current_replica_lists() -> None:
    client = FakeClusterClient({"orders": {kafka_names.LEADER_REPLICAS: "0:1"}})
    reader = reader_of(client)
    assert read_lists(client, reader) == {"orders": throttled((0, 1))}
    assert read_lists(client, reader) == {"orders": throttled((0, 1))}
    client.lists["orders"] = {kafka_names.LEADER_REPLICAS: "0:1,0:2"}
    assert read_lists(client, reader) == {"orders": throttled((0, 1), (0, 2))}
    client.lists["orders"] = {kafka_names.FOLLOWER_REPLICAS: "0:3"}
    assert read_lists(client, reader) == {"orders": throttled()}
    del client.lists["orders"]
    assert read_lists(client, reader) == {}
    client.lists["orders"] = {kafka_names.LEADER_REPLICAS: "0:1"}
    assert read_lists(client, reader) == {"orders": throttled((0, 1))}


@pytest.mark.parametrize("text", ["", ","])
def test_snapshot_omits_replica_list_without_entries(text: str) -> None:
    lists = {kafka_names.LEADER_REPLICAS: text, kafka_names.FOLLOWER_REPLICAS: ""}
    assert read_lists(FakeClusterClient({"orders": lists})) == {}


def test_unparsable_replica_list_makes_every_snapshot_unreadable() -> None:
    client = FakeClusterClient({"orders": {kafka_names.LEADER_REPLICAS: "0:1"}})
    reader = reader_of(client)
    reader.snapshot(full=True)
    client.lists["orders"] = {kafka_names.LEADER_REPLICAS: "0-1"}
    for _ in range(2):
        snapshot = reader.snapshot(full=False)
        assert isinstance(snapshot, ClusterUnreadable)
        assert snapshot.reason.startswith("topic orders: '0-1'")


@pytest.mark.parametrize("text", ["0:1,", ",0:1", "0:1,,", " 0:1 , "])
def test_empty_entries_of_replica_list_are_ignored(text: str) -> None:
    """Kafka accepts some of these. An empty entry on one topic must not prevent the restore of all throttles."""
    assert read_lists(FakeClusterClient({"orders": {kafka_names.LEADER_REPLICAS: text}})) == {
        "orders": throttled((0, 1))
    }


def test_equal_pairs_of_different_topics_are_same_object() -> None:
    lists = {topic: {kafka_names.LEADER_REPLICAS: "300:1001"} for topic in ("orders", "payments")}
    orders, payments = read_lists(FakeClusterClient(lists), full=True).values()
    assert [*orders.pairs] == [*payments.pairs] == [(300, 1001)]
    assert next(iter(orders.pairs)) is next(iter(payments.pairs))


def test_partial_snapshot_reads_moving_and_listed_topics_only() -> None:
    client = FakeClusterClient({"payments": {kafka_names.LEADER_REPLICAS: "*"}})
    reader = reader_of(client)
    reader.snapshot(full=True)
    assert read_lists(client, reader) == {"payments": ThrottledReplicas(all_replicas=True)}
    del client.lists["payments"]
    reader.snapshot(full=False)
    reader.snapshot(full=False)
    assert client.asked == [
        {"orders", "payments", "quiet"},
        {"orders", "payments"},
        {"orders", "payments"},
        {"orders"},
    ]


def test_new_rate_makes_snapshot_read_all_lists() -> None:
    """The move is prepared: its rates and lists are set, and no partition moves yet."""
    client = FakeClusterClient({})
    client.moving = False
    reader = reader_of(client)
    assert read_lists(client, reader) == {}
    client.lists["orders"], client.rates = {kafka_names.LEADER_REPLICAS: "0:1"}, {1: "6000000"}
    assert read_lists(client, reader) == {"orders": throttled((0, 1))}
    assert client.asked[-1] == {"orders", "payments", "quiet"}
    assert read_lists(client, reader) == {"orders": throttled((0, 1))}
    assert client.asked[-1] == {"orders"}


def test_unchanged_move_is_same_object_in_next_snapshot() -> None:
    client = FakeClusterClient({})
    reader = reader_of(client)
    first, same = reader.snapshot(full=False), reader.snapshot(full=False)
    assert isinstance(first, LiveCluster)
    assert isinstance(same, LiveCluster)
    assert first.moves == (PartitionMove("orders", 0, 1, (3, 2, 1), (3,), (1,), (1, 2)),)
    assert same.moves[0] is first.moves[0]
    client.isr = (1, 2, 3)
    changed = reader.snapshot(full=False)
    assert isinstance(changed, LiveCluster)
    assert [move.isr for move in changed.moves] == [(1, 2, 3)]


def test_unset_fetcher_threads_have_kafkas_default() -> None:
    client = FakeClusterClient({})
    client.fetchers = {2: "4"}
    live = reader_of(client).snapshot(full=False)
    assert isinstance(live, LiveCluster)
    assert live.fetchers == {1: 1, 2: 4, 3: 1}
    assert live.quota_samples == {1: 11, 2: 11, 3: 11}


def test_quota_samples_of_another_length_are_read() -> None:
    client = FakeClusterClient({})
    client.sample_s = {1: "1", 3: "2"}
    live = reader_of(client).snapshot(full=False)
    assert isinstance(live, LiveCluster)
    assert live.quota_sample_s == {3: 2}
    assert [live.quota_window_s(broker) for broker in (1, 2, 3)] == [11, 11, 22]


def read_lost_sides(
    reader: ClusterReader, *, full: bool = False, waiting_brokers: tuple[int, ...] = ()
) -> dict[int, frozenset[BrokerSide]]:
    live = reader.snapshot(full=full, waiting_brokers=waiting_brokers)
    assert isinstance(live, LiveCluster)
    return dict(live.lost_replica_sides)


LEADER_SIDE, FOLLOWER_SIDE = (1, Side.LEADER), (2, Side.FOLLOWER)


def test_listed_stationary_partitions_with_lost_replicas_are_reported() -> None:
    """Full snapshots read them, and partial ones while writes wait; replicas on a failed disk do not count."""
    client = FakeClusterClient(
        {"payments": {kafka_names.LEADER_REPLICAS: "*"}, "orders": {kafka_names.LEADER_REPLICAS: "0:1"}}
    )
    reader = reader_of(client)
    client.isr_at_rest = (1,)
    assert read_lost_sides(reader) == {}
    assert read_lost_sides(reader, full=True) == {1: {LEADER_SIDE}}
    client.lists["payments"][kafka_names.FOLLOWER_REPLICAS] = "0:2"
    assert read_lost_sides(reader, full=True) == {1: {LEADER_SIDE, FOLLOWER_SIDE}}
    client.isr_at_rest = (1, 2)
    assert read_lost_sides(reader) == {1: {LEADER_SIDE, FOLLOWER_SIDE}}, "unchanged until they are read again"
    assert read_lost_sides(reader, waiting_brokers=(1,)) == {}, "read at once when writes begin to wait"
    client.isr_at_rest = (1,)
    sides = [read_lost_sides(reader, waiting_brokers=(1,)) for _ in range(READ_EVERY)]
    assert sides == [{}] * (READ_EVERY - 1) + [{1: {LEADER_SIDE, FOLLOWER_SIDE}}]
    client.isr_at_rest = (1, 2)
    assert read_lost_sides(reader, waiting_brokers=(1, 4)) == {}, (
        "read at once when writes of another broker begin to wait"
    )
    client.isr_at_rest = (1,)
    client.offline = (2,)
    assert read_lost_sides(reader, full=True) == {}, "a replica on a failed disk does not return"
    client.offline = ()
    assert read_lost_sides(reader, full=True) != {}
    client.lists.clear()
    assert read_lost_sides(reader) == {}


def test_lost_replica_is_reported_when_its_move_ends() -> None:
    client = FakeClusterClient({"orders": {kafka_names.LEADER_REPLICAS: "*"}})
    reader = reader_of(client)
    client.isr, client.isr_at_rest = (1,), (1,)
    assert read_lost_sides(reader, full=True) == {}, "a moving partition is reported as a move"
    client.moving = False
    assert read_lost_sides(reader) == {1: {LEADER_SIDE}}


def test_failed_snapshot_leaves_stationary_partitions_due() -> None:
    client = FakeClusterClient({"payments": {kafka_names.LEADER_REPLICAS: "*"}})
    reader = reader_of(client)
    assert read_lost_sides(reader, full=True) == {}
    client.isr_at_rest, client.fails = (1,), True
    assert isinstance(reader.snapshot(full=False, waiting_brokers=(1,)), ClusterUnreadable)
    client.fails = False
    assert read_lost_sides(reader, waiting_brokers=(1,)) == {1: {LEADER_SIDE}}
