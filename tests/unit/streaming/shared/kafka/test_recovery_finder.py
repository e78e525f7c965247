"""The finder of recovering replicas: what counts, what it reads, and what a broker that comes and goes changes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from streaming.shared.kafka.cluster import ClusterClient, ClusterError, Endpoint, PartitionState
from streaming.shared.kafka.recovery import (
    ABSENT_S_MAX,
    PROGRESS_EVERY_S,
    STUCK_S_MIN,
    RecoveryFinder,
    find_recovering,
    urgency,
)

STATE = PartitionState("orders", 0, leader=1, replicas=(1, 2, 3), isr=(1, 2))


class Cluster:
    """Three brokers and one partition; notes which topics were read (None: all)."""

    def __init__(self) -> None:
        self.alive = [1, 2, 3]
        self.states = [STATE]
        self.adding: dict[tuple[str, int], tuple[int, ...]] = {}
        self.minimum: dict[str, dict[str, str]] = {"orders": {"min.insync.replicas": "2"}}
        self.sizes: dict[int, Any] = {1: {("orders", 0): 900}, 3: {("orders", 0): 200}}
        self.read: list[set[str] | None] = []
        self.sized = 0
        self.now_s = 100.0
        self.took_s = 0.0

    def brokers(self) -> list[Endpoint]:
        return [Endpoint(b, "host", 9092) for b in self.alive]

    def partitions(self, topics: Iterable[str] | None = None) -> list[PartitionState]:
        self.read.append(None if topics is None else set(topics))
        self.now_s += self.took_s
        return [s for s in self.states if topics is None or s.topic in set(topics)]

    def adding_replicas(self) -> dict[tuple[str, int], tuple[int, ...]]:
        return self.adding

    def effective_topic_configs(self, topics: Iterable[str], _keys: Iterable[str]) -> dict[str, dict[str, str]]:
        return {t: self.minimum[t] for t in topics if t in self.minimum}

    def log_sizes_by_broker(self, brokers: Mapping[int, Iterable[Any]]) -> dict[int, Any]:
        self.sized += 1
        return {b: self.sizes[b] for b in brokers if b in self.sizes}


def finder_of(cluster: Cluster, **options: Any) -> RecoveryFinder:
    return RecoveryFinder(cast("ClusterClient", cluster), monotonic=lambda: cluster.now_s, **options)


@pytest.mark.parametrize(
    ("state", "alive", "expected"),
    [
        (STATE, {1, 2, 3}, (3,)),
        (STATE, {1, 2}, ()),  # Its broker is away.
        (replace(STATE, offline=(3,)), {1, 2, 3}, ()),  # Its disk is gone.
        (replace(STATE, leader=-1), {1, 2, 3}, ()),  # Nothing can be copied.
        (replace(STATE, isr=(1,)), {1, 2, 3}, (2, 3)),
    ],
)
def test_recovering_replicas_have_a_living_broker_and_disk(
    state: PartitionState, alive: set[int], expected: tuple[int, ...]
) -> None:
    assert find_recovering(state, alive) == expected


def test_urgency_orders_by_minimum_then_named_topic_then_bytes() -> None:
    at = replace(STATE, recovering=(3,))
    assert urgency(at, 2, 9) < urgency(at, 1, 1)
    assert urgency(at, None, 9) < urgency(at, 2, 1)
    assert urgency(at, 1, 9, ["orders"]) < urgency(replace(at, topic="other"), 1, 1, ["orders"])
    assert urgency(replace(at, topic="other"), 2, 9, ["orders"]) < urgency(at, 1, 1, ["orders"])
    assert urgency(at, 1, 1) < urgency(at, 1, 9)


def test_finder_first_look_reads_everything_and_details() -> None:
    cluster = Cluster()
    finder = finder_of(cluster)
    finder.check()
    assert cluster.read == [None]
    (found,) = finder.result.partitions
    assert found.recovering == (3,)
    assert finder.result.min_in_sync == {"orders": 2}
    assert finder.result.lacking_bytes == {("orders", 0): 700}
    assert finder.result.number == 1


def test_finder_reads_only_known_topics_until_brokers_change() -> None:
    cluster = Cluster()
    finder = finder_of(cluster)
    finder.check()
    cluster.now_s += 1
    finder.check()
    assert cluster.read[1:] == [{"orders"}]
    assert cluster.sized == 2, "once for stuck brokers, once for the lacking bytes at the beginning"
    cluster.states = [replace(STATE, isr=(1, 2, 3))]
    finder.check()
    assert finder.result.partitions == ()
    finder.check()
    assert len(cluster.read) == 3, "nothing recovers, so nothing is read"


def test_finder_result_keeps_identity_while_nothing_changes() -> None:
    cluster = Cluster()
    finder = finder_of(cluster)
    finder.check()
    result = finder.result
    finder.check()
    assert finder.result is result


def test_finder_adding_replica_does_not_recover() -> None:
    cluster = Cluster()
    cluster.adding = {("orders", 0): (3,)}
    finder = finder_of(cluster)
    finder.check()
    assert finder.result.partitions == ()


def test_finder_noted_topic_is_read_without_broker_change() -> None:
    cluster = Cluster()
    cluster.states = [replace(STATE, isr=(1, 2, 3))]
    finder = finder_of(cluster)
    finder.check()
    cluster.states = [STATE]
    finder.check()
    assert finder.result.partitions == ()
    finder.note(cluster.states)
    finder.check()
    assert finder.result.partitions[0].recovering == (3,)


def test_finder_flapping_broker_changes_nothing_for_a_minute() -> None:
    cluster = Cluster()
    finder = finder_of(cluster)
    finder.check()
    number = finder.result.number
    for _ in range(3):
        cluster.alive, cluster.states = [1, 2], [replace(STATE, offline=(3,))]
        cluster.now_s += 20
        finder.check()
        assert finder.result.partitions[0].recovering == (3,)
        cluster.alive, cluster.states = [1, 2, 3], [STATE]
        cluster.now_s += 20
        finder.check()
        assert finder.result.partitions[0].recovering == (3,)
    assert finder.result.number == number
    cluster.alive, cluster.states = [1, 2], [replace(STATE, offline=(3,))]
    cluster.now_s += ABSENT_S_MAX + 1
    finder.check()
    assert finder.result.partitions == ()


def test_finder_broker_that_returns_empty_is_measured_again() -> None:
    cluster = Cluster()
    finder = finder_of(cluster)
    finder.check()
    cluster.alive, cluster.states = [1, 2], [replace(STATE, offline=(3,))]
    finder.check()
    assert finder.result.lacking_bytes == {("orders", 0): 700}
    cluster.alive, cluster.states = [1, 2, 3], [STATE]
    cluster.sizes[3] = {}
    finder.check()
    assert finder.result.lacking_bytes == {("orders", 0): 900}


def test_finder_log_longer_than_leaders_lacks_nothing() -> None:
    cluster = Cluster()
    cluster.sizes[3] = {("orders", 0): 1_500}
    finder = finder_of(cluster)
    finder.check()
    assert finder.result.lacking_bytes == {("orders", 0): 0}


def test_finder_unknown_size_is_absent_and_read_again() -> None:
    cluster = Cluster()
    cluster.sizes[3] = ClusterError("no answer")
    finder = finder_of(cluster)
    finder.check()
    assert finder.result.lacking_bytes == {}
    cluster.sizes[3] = {("orders", 0): 100}
    finder.check()
    assert finder.result.lacking_bytes == {("orders", 0): 800}


def test_finder_bytes_known_later_are_news() -> None:
    cluster = Cluster()
    cluster.sizes[3] = ClusterError("no answer")
    finder = finder_of(cluster)
    finder.check()
    finder.check()
    assert finder.result.number == 1
    cluster.sizes[3] = {("orders", 0): 100}
    finder.check()
    assert finder.result.number == 2


def test_finder_late_answer_about_a_returned_broker_is_read_again() -> None:
    cluster = Cluster()
    cluster.alive, cluster.states = [1, 2], [replace(STATE, offline=(3,))]
    finder = finder_of(cluster)
    finder.check()
    cluster.alive = [1, 2, 3]
    finder.check()
    assert finder.result.partitions == (), "the broker that answers does not know yet that 3 is back"
    cluster.states = [STATE]
    finder.check()
    assert finder.result.partitions[0].recovering == (3,)


def test_finder_deleted_topic_is_forgotten() -> None:
    cluster = Cluster()
    finder = finder_of(cluster)
    finder.check()
    cluster.states = []
    finder.check()
    assert finder.result.partitions == ()
    assert finder.result.min_in_sync == {}


def test_finder_limits_partitions_and_counts_the_rest() -> None:
    cluster = Cluster()
    cluster.states = [replace(STATE, partition=p, isr=(1,) if p == 2 else (1, 2)) for p in range(9)]
    finder = finder_of(cluster, partitions_max=2)
    for _ in range(2):
        finder.check()
        assert [s.partition for s in finder.result.partitions] == [7, 8], "the least urgent ones, which may wait"
        assert finder.result.left_out == 7


def test_finder_remembers_topics_of_partitions_beyond_the_limit() -> None:
    cluster = Cluster()
    states = [replace(STATE, topic=f"t{i}") for i in range(9)]
    cluster.states = states
    finder = finder_of(cluster, partitions_max=2)
    finder.check()
    finder.check()
    assert finder.result.left_out == 7
    cluster.states = [*states[:7], replace(states[7], isr=(1, 2, 3)), replace(states[8], isr=(1, 2, 3))]
    finder.check()
    assert [s.topic for s in finder.result.partitions] == ["t5", "t6"]
    assert finder.result.left_out == 5


def test_finder_first_order_knows_the_lacking_bytes() -> None:
    cluster = Cluster()
    cluster.states = [replace(STATE, partition=p) for p in range(3)]
    cluster.sizes = {1: {("orders", p): lacks for p, lacks in enumerate((900, 500, 10))}, 3: {}}
    finder = finder_of(cluster)
    finder.check()
    assert [s.partition for s in finder.result.partitions] == [2, 1, 0]


def test_finder_rests_after_a_long_look() -> None:
    cluster = Cluster()
    cluster.took_s = 3.0
    finder = finder_of(cluster)
    finder.check()
    cluster.alive = [1, 2]
    finder.check()
    assert cluster.read == [None, {"orders"}], "all partitions took 3 s, so they are not read again yet"
    cluster.now_s += 40
    finder.check()
    assert cluster.read[-1] is None


def test_finder_failed_look_is_repeated() -> None:
    class Failing(Cluster):
        fails = True

        def partitions(self, topics: Iterable[str] | None = None) -> list[PartitionState]:
            if self.fails:
                raise ClusterError("away")
            return super().partitions(topics)

    cluster = Failing()
    finder = finder_of(cluster)
    with pytest.raises(ClusterError):
        finder.check()
    cluster.fails = False
    finder.check()
    assert cluster.read == [None]


@pytest.mark.parametrize("noted", [False, True])
def test_finder_look_that_fails_halfway_is_repeated(noted: bool) -> None:
    """The controller moves just when a broker comes back, so the question for running reassignments fails."""
    cluster = Cluster()
    finder = finder_of(cluster)
    if noted:
        cluster.states = [replace(STATE, isr=(1, 2, 3))]
        finder.check()
        cluster.states = [STATE]
        finder.note(cluster.states)
    adding, cluster.adding_replicas = cluster.adding_replicas, failing  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(ClusterError):
            finder.check()
        cluster.now_s += 30
    assert finder.age_s >= 60
    cluster.adding_replicas = adding  # type: ignore[method-assign]
    finder.check()
    assert finder.result.partitions[0].recovering == (3,)
    assert finder.age_s == 0


def failing() -> dict[tuple[str, int], tuple[int, ...]]:
    raise ClusterError("the controller moves")


def test_finder_topic_with_unreadable_minimum_hides_no_other() -> None:
    class Denied(Cluster):
        def effective_topic_configs(self, topics: Iterable[str], _keys: Iterable[str]) -> dict[str, dict[str, str]]:
            raise ClusterError(f"DescribeConfigs is missing on {sorted(topics)}")

    cluster = Denied()
    finder = finder_of(cluster)
    finder.check()
    assert finder.result.partitions[0].recovering == (3,)
    assert finder.result.min_in_sync == {}
    assert "DescribeConfigs" in str(finder.detail_error)


def test_finder_thread_survives_any_error() -> None:
    class Broken(Cluster):
        def brokers(self) -> list[Endpoint]:
            raise ValueError("an answer that cannot be decoded")

    errors: list[ClusterError | None] = []
    stop = threading.Event()

    def report(error: ClusterError | None) -> None:
        errors.append(error)
        if len(errors) == 2:
            stop.set()

    finder_of(Broken()).run(stop, report)
    assert [str(error) for error in errors] == 2 * ["ValueError: an answer that cannot be decoded"]


def test_finder_rests_ten_seconds_at_most() -> None:
    cluster = Cluster()
    cluster.took_s = 8.0
    finder = finder_of(cluster)
    finder.check()
    finder.check()
    cluster.now_s += 10
    finder.check()
    assert len(cluster.read) == 3


def test_finder_replica_that_gains_nothing_is_stuck_until_it_grows() -> None:
    cluster = Cluster()
    finder = finder_of(cluster)
    finder.check()
    for _ in range(int(STUCK_S_MIN // PROGRESS_EVERY_S)):
        assert finder.result.partitions, "not stuck yet"
        cluster.now_s += PROGRESS_EVERY_S
        finder.check()
    assert finder.result.partitions == ()
    assert finder.result.stuck == {3}
    cluster.sizes[3] = {("orders", 0): 201}
    cluster.now_s += PROGRESS_EVERY_S
    finder.check()
    assert finder.result.stuck == frozenset()
    assert finder.result.partitions[0].recovering == (3,)


def test_finder_slow_replica_is_not_stuck() -> None:
    cluster = Cluster()
    finder = finder_of(cluster)
    for size in range(30):
        cluster.sizes[3] = {("orders", 0): size}
        finder.check()
        cluster.now_s += PROGRESS_EVERY_S
    assert finder.result.partitions


class TieredCluster(Cluster):
    """The topic is tiered: the leader has 900 bytes, the offsets from 1,000 to 1,900; broker 3 has copied up to 1,600."""

    def __init__(self) -> None:
        super().__init__()
        self.minimum = {"orders": {"min.insync.replicas": "2", "remote.storage.enable": "true"}}

    def local_start_offsets(self, replicas: Iterable[int]) -> dict[int, Any]:
        # Broker 3 has 200 bytes, as it has deleted more segments than the leader.
        return {broker: {("orders", 0): 1_400 if broker == 3 else 1_000} for broker in replicas}

    def replica_end_offsets(self, replicas: Iterable[int]) -> dict[int, Any]:
        return {broker: {("orders", 0): 1_600 if broker == 3 else 1_900} for broker in replicas}


def test_finder_measures_tiered_partitions_by_offsets() -> None:
    finder = finder_of(TieredCluster())
    finder.check()
    assert finder.result.lacking_bytes == {("orders", 0): 300}
