"""The collector starts a round when a move begins and another soon after; it checks for moves only while nothing moves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import pairwise
from typing import Any, cast

import pytest

from streaming.collector.admin import AdminReader, FullScanResult
from streaming.collector.lags import LaggingReplica, LeaderLog
from streaming.collector.loop import Collector, CollectorConnections
from streaming.collector.settings import CollectorSettings
from streaming.shared.contract import Scrape
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, Endpoint, PartitionState

MOVE = PartitionState("orders", 0, 1, (1, 3), (1,), (3,), (2,))


class FakeCluster:
    """Two brokers; notes the time of each request for reassignments and brokers."""

    def __init__(self) -> None:
        self.moving: list[PartitionState] = []
        self.asked_s: list[float] = []
        self.rounds_s: list[float] = []
        self.fails = False
        self.silent: set[int] = set()  # Brokers that do not answer.

    def brokers(self) -> list[Endpoint]:
        self.rounds_s.append(time.monotonic())
        return [Endpoint(1, "a", 9092), Endpoint(3, "b", 9092)]

    def reassignments(self) -> list[PartitionState]:
        self.asked_s.append(time.monotonic())
        if self.fails:
            raise ClusterError("away")
        return self.moving

    def partitions(self, _topics: Iterable[str] | None = None) -> list[PartitionState]:
        return []

    def topic_configs(self, _topics: Iterable[str], _keys: Iterable[str]) -> dict[str, dict[str, str]]:
        return {}

    def log_sizes(self, brokers: Iterable[int], _partitions: Iterable[Any]) -> dict[int, dict[Any, int] | ClusterError]:
        return {b: ClusterError("away") if b in self.silent else {("orders", 0): 1000} for b in brokers}

    def broker_configs(self, brokers: Iterable[int], _keys: Iterable[str]) -> dict[int, dict[str, Any]]:
        return {broker: {} for broker in brokers}

    def log_end_offsets(self, partitions: Iterable[PartitionState]) -> dict[Any, int]:
        return {(state.topic, state.partition): 500 for state in partitions}


def admin_reader(cluster: FakeCluster) -> AdminReader:
    return AdminReader(cast("ClusterClient", cluster), FullScanResult)


def test_has_move_begun_needs_a_round_without_moves_first() -> None:
    cluster = FakeCluster()
    reader = admin_reader(cluster)
    cluster.moving = [MOVE]
    assert not reader.has_move_begun()  # The state before is unknown.
    cluster.moving = []
    reader.read([1, 3])
    assert not reader.has_move_begun()
    cluster.moving = [MOVE]
    assert reader.has_move_begun()


def test_admin_reader_reads_logs_of_lagging_leaders_while_they_answer() -> None:
    cluster = FakeCluster()
    reader = admin_reader(cluster)
    lagging = [LaggingReplica("orders", 0, leader=1, lag_messages=5.0)]
    assert reader.read([1, 3]).leader_logs == {}
    assert reader.read([1, 3], lagging).leader_logs == {("orders", 0): LeaderLog(500, 1000)}
    assert reader.read([3], lagging).leader_logs == {}
    cluster.silent = {1}
    assert reader.read([1, 3], lagging).leader_logs == {}
    cluster.silent = set()
    found = [reader.read([1, 3], lagging).leader_logs for _ in range(12)]
    assert [bool(logs) for logs in found] == [False] * 11 + [True]


class TieredCluster(FakeCluster):
    """The topic is tiered: the leader has the offsets from 9,000 to 10,000 on its disks, and broker 3 has copied up to 9,500."""

    copied_offset, copied_bytes = 9_500, 400

    def log_sizes(self, brokers: Iterable[int], _partitions: Iterable[Any]) -> dict[int, dict[Any, int] | ClusterError]:
        return {broker: {("orders", 0): 1000 if broker == 1 else self.copied_bytes} for broker in brokers}

    def topic_configs(self, topics: Iterable[str], keys: Iterable[str]) -> dict[str, dict[str, str]]:
        assert "remote.storage.enable" in keys
        return {topic: {"remote.storage.enable": "true"} for topic in topics}

    def local_start_offsets(self, replicas: Iterable[int]) -> dict[int, dict[Any, int]]:
        return {broker: {("orders", 0): 9_000 if broker == 1 else 9_100} for broker in replicas}

    def replica_end_offsets(self, replicas: Iterable[int]) -> dict[int, dict[Any, int]]:
        return {broker: {("orders", 0): 10_000 if broker == 1 else self.copied_offset} for broker in replicas}


def test_admin_reader_measures_a_tiered_copy_by_its_offsets() -> None:
    cluster = TieredCluster()
    cluster.moving = [MOVE]
    answers = admin_reader(cluster).read([1, 3])
    assert answers.sizes == {1: {("orders", 0): 1000}, 3: {("orders", 0): 500}}
    assert answers.awaiting_remote == {}
    cluster.copied_offset, cluster.copied_bytes = 9_000, 0
    answers = admin_reader(cluster).read([1, 3])
    assert answers.sizes[3] == {("orders", 0): 0}
    assert answers.awaiting_remote == {("orders", 0): frozenset({3})}


def test_has_move_begun_sends_no_request_during_a_move() -> None:
    cluster = FakeCluster()
    cluster.moving = [MOVE]
    reader = admin_reader(cluster)
    reader.read([1, 3])
    before = len(cluster.asked_s)
    assert not reader.has_move_begun()
    assert len(cluster.asked_s) == before


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def connections(cluster: FakeCluster) -> CollectorConnections:
    return CollectorConnections(cast("ClusterClient", cluster), cast("ClusterClient", FakeCluster()))


def run(cluster: FakeCluster, lasts_s: float, *then: tuple[float, Any]) -> None:
    published: list[Scrape] = []
    collector = Collector(CollectorSettings(), "c", connections(cluster), published.append, window_s=30)
    stop = threading.Event()
    thread = threading.Thread(target=collector.run, args=(stop,))
    began_s = time.monotonic()
    thread.start()
    try:
        for at_s, act in then:
            time.sleep(max(0.0, began_s + at_s - time.monotonic()))
            act()
        time.sleep(max(0.0, began_s + lasts_s - time.monotonic()))
    finally:
        stop.set()
        thread.join(timeout=10)
    assert not thread.is_alive()


def passes_once(check: Callable[[], None], tries: int = 3) -> None:
    """Repeats a check of times that fails, as another process may have had the processor at that moment."""
    for _ in range(tries - 1):
        with suppress(AssertionError):
            return check()
    return check()


def test_collector_runs_two_rounds_soon_after_a_move_begins() -> None:
    """The interval is five seconds; the move begins after half a second, and two more rounds follow within the interval."""

    def check() -> None:
        cluster = FakeCluster()
        run(cluster, 4.8, (0.5, lambda: cluster.moving.append(MOVE)))
        rounds = [at_s - cluster.rounds_s[0] for at_s in cluster.rounds_s]
        assert len(rounds) == 3, rounds
        assert 0.5 < rounds[1] < 2.0
        assert rounds[2] - rounds[1] == pytest.approx(2.5, abs=0.5)

    passes_once(check)


def test_collector_round_that_sees_a_move_first_is_repeated_soon() -> None:
    """The move begins in the last second before a round, when the collector does not check for moves."""

    def check() -> None:
        cluster = FakeCluster()
        run(cluster, 8.2, (4.4, lambda: cluster.moving.append(MOVE)))
        rounds = [at_s - cluster.rounds_s[0] for at_s in cluster.rounds_s]
        assert len(rounds) == 3, rounds
        assert rounds[2] - rounds[1] == pytest.approx(2.5, abs=0.5)

    passes_once(check)


def test_collector_without_moves_keeps_its_interval() -> None:
    def check() -> None:
        cluster = FakeCluster()
        run(cluster, 3.5)
        assert len(cluster.rounds_s) == 1
        assert len(cluster.asked_s) >= 3
        assert all(later - earlier > 0.9 for earlier, later in pairwise(cluster.asked_s[1:]))

    passes_once(check)


def test_collector_asks_again_after_cluster_failed_between_rounds(cluster: FakeCluster) -> None:
    def fail() -> None:
        cluster.fails = True

    def recover() -> None:
        cluster.fails = False
        cluster.moving.append(MOVE)

    run(cluster, 4.5, (0.5, fail), (2.2, recover))
    assert len(cluster.rounds_s) > 1


def test_read_tracks_recovering_partition_until_the_finder_forgets_it(cluster: FakeCluster) -> None:
    recovering = [PartitionState("orders", 0, 1, (1, 3), (1,), recovering=(3,))]
    reader = AdminReader(cast("ClusterClient", cluster), FullScanResult, lambda: recovering)
    answers = reader.read([1, 3])
    assert [s.recovering for s in answers.tracked] == [(3,)]
    assert answers.sizes.keys() == {1, 3}
    recovering.clear()
    assert reader.read([1, 3]).tracked == []


def test_read_replica_that_a_move_adds_does_not_recover(cluster: FakeCluster) -> None:
    cluster.moving = [MOVE]
    seen = [PartitionState("orders", 0, 1, (1, 3, 4), (1,), recovering=(3, 4))]
    answers = AdminReader(cast("ClusterClient", cluster), FullScanResult, lambda: seen).read([1, 3])
    (state,) = answers.tracked
    assert (state.adding, state.recovering) == ((3,), (4,))


def test_has_move_begun_when_a_recovery_begins(cluster: FakeCluster) -> None:
    recovering: list[PartitionState] = []
    reader = AdminReader(cast("ClusterClient", cluster), FullScanResult, lambda: recovering)
    reader.read([1, 3])
    assert not reader.has_move_begun()
    recovering.append(PartitionState("orders", 0, 1, (1, 3), (1,), recovering=(3,)))
    assert reader.has_move_begun()
    reader.read([1, 3])
    assert reader.move_began


def test_standby_publishes_nothing_and_knows_the_brokers_when_it_takes_over(cluster: FakeCluster) -> None:
    published, acts = list[Scrape](), threading.Event()
    settings = CollectorSettings(interval_s=1)
    cluster.moving = [MOVE]  # Its size is a sample, although no agent answers.
    collector = Collector(settings, "c", connections(cluster), published.append, window_s=30, may_act=acts.is_set)
    collector.counts.scraped_at_s[1] = 5.0
    stop = threading.Event()
    thread = threading.Thread(target=collector.run, args=(stop,))
    thread.start()

    def until(met: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + 10
        while not met():
            assert time.monotonic() < deadline_s
            time.sleep(0.01)

    try:
        until(lambda: len(cluster.rounds_s) >= 2)
        assert (collector.counts.rounds, published, collector.counts.active) == (0, [], False)
        assert collector.counts.scraped_at_s == {}, "the age of a scrape would look like a broker that does not answer"
        assert collector._brokers == {1: "a", 3: "b"}
        acts.set()
        until(lambda: len(published) >= 2)
        assert collector.counts.active
        acts.clear()
        until(lambda: not collector.counts.active)
        before = len(published)
        until(lambda: len(cluster.rounds_s) >= 5)
        assert len(published) == before
    finally:
        stop.set()
        thread.join(10)


def test_record_of_a_collector_that_was_suspended_in_a_round_is_not_published(cluster: FakeCluster) -> None:
    published, acts = list[Scrape](), threading.Event()
    cluster.moving = [MOVE]
    settings = CollectorSettings(interval_s=1)
    collector = Collector(settings, "c", connections(cluster), published.append, window_s=30, may_act=acts.is_set)
    collector.round()
    assert (published, collector.counts.records) == ([], 0)
    acts.set()
    collector.round()
    assert collector.counts.records == len(published) > 0
