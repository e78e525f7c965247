"""What a look makes of the cluster's answers, and that what it keeps of a list never outlives the list."""

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


class Answers:
    """What one small cluster answers; a test changes it between two looks."""

    def __init__(self, lists: dict[str, dict[str, str]]) -> None:
        self.lists = lists
        self.isr: tuple[int, ...] = (1, 2)
        self.asked: list[set[str]] = []
        self.rates: dict[int, str] = {}
        self.fetchers: dict[int, str] = {}
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
            raise ClusterError("nobody answers")
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
        return {broker: {**rates.get(broker, {}), **threads.get(broker, {})} for broker in brokers}


def over(answers: object) -> ClusterReader:
    return ClusterReader(answers)  # type: ignore[arg-type]  # A client that knows the calls of a look and no other.


def lists_of(live: LiveCluster | ClusterUnreadable) -> dict[str, ThrottledReplicas]:
    assert isinstance(live, LiveCluster)
    return {topic: throttle.leader for topic, throttle in live.lists.items()}


def listed(*pairs: tuple[int, int]) -> ThrottledReplicas:
    return ThrottledReplicas(pairs=frozenset(pairs))


def look(answers: Answers, reader: ClusterReader | None = None, *, full: bool = False) -> dict[str, ThrottledReplicas]:
    reader = reader if reader is not None else over(answers)
    return lists_of(reader.snapshot(full=full))


def test_a_list_is_what_stands_now_and_not_what_stood_at_the_look_before() -> None:
    answers = Answers({"orders": {kafka_names.LEADER_REPLICAS: "0:1"}})
    reader = over(answers)
    assert look(answers, reader) == {"orders": listed((0, 1))}
    assert look(answers, reader) == {"orders": listed((0, 1))}
    answers.lists["orders"] = {kafka_names.LEADER_REPLICAS: "0:1,0:2"}
    assert look(answers, reader) == {"orders": listed((0, 1), (0, 2))}
    answers.lists["orders"] = {kafka_names.FOLLOWER_REPLICAS: "0:3"}
    assert look(answers, reader) == {"orders": listed()}
    del answers.lists["orders"]
    assert look(answers, reader) == {}
    answers.lists["orders"] = {kafka_names.LEADER_REPLICAS: "0:1"}
    assert look(answers, reader) == {"orders": listed((0, 1))}


def test_a_list_without_an_entry_is_none() -> None:
    assert look(Answers({"orders": {kafka_names.LEADER_REPLICAS: "", kafka_names.FOLLOWER_REPLICAS: ""}})) == {}


def test_a_list_in_an_unknown_form_is_not_seen_however_often_it_is_looked_at() -> None:
    answers = Answers({"orders": {kafka_names.LEADER_REPLICAS: "0:1"}})
    reader = over(answers)
    reader.snapshot(full=True)
    answers.lists["orders"] = {kafka_names.LEADER_REPLICAS: "0-1"}
    for _ in range(2):
        seen = reader.snapshot(full=False)
        assert isinstance(seen, ClusterUnreadable)
        assert seen.reason.startswith("topic orders: '0-1'")


@pytest.mark.parametrize("text", ["0:1,", ",0:1", "0:1,,", " 0:1 , "])
def test_an_entry_that_names_nobody_is_none(text: str) -> None:
    """Kafka takes some of them, whoever wrote them: one on any topic must not keep all throttles from being taken back."""
    assert look(Answers({"orders": {kafka_names.LEADER_REPLICAS: text}})) == {"orders": listed((0, 1))}


def test_entries_that_name_nobody_are_no_list() -> None:
    assert look(Answers({"orders": {kafka_names.LEADER_REPLICAS: ","}})) == {}


def test_a_short_look_asks_of_what_moves_and_what_was_listed() -> None:
    answers = Answers({"payments": {kafka_names.LEADER_REPLICAS: "*"}})
    reader = over(answers)
    reader.snapshot(full=True)
    assert look(answers, reader) == {"payments": ThrottledReplicas(all_replicas=True)}
    del answers.lists["payments"]
    reader.snapshot(full=False)
    reader.snapshot(full=False)
    assert answers.asked == [
        {"orders", "payments", "quiet"},
        {"orders", "payments"},
        {"orders", "payments"},
        {"orders"},
    ]


def test_a_rate_that_is_new_is_never_seen_without_the_lists_that_came_before_it() -> None:
    """Just before a move begins, when nothing of it moves yet."""
    answers = Answers({})
    answers.moving = False
    reader = over(answers)
    assert look(answers, reader) == {}
    answers.lists["orders"], answers.rates = {kafka_names.LEADER_REPLICAS: "0:1"}, {1: "6000000"}
    assert look(answers, reader) == {"orders": listed((0, 1))}
    assert answers.asked[-1] == {"orders", "payments", "quiet"}
    assert look(answers, reader) == {"orders": listed((0, 1))}
    assert answers.asked[-1] == {"orders"}


def test_a_move_is_what_it_is_now_and_the_object_that_it_was_where_nothing_changed() -> None:
    answers = Answers({})
    reader = over(answers)
    first, same = reader.snapshot(full=False), reader.snapshot(full=False)
    assert isinstance(first, LiveCluster)
    assert isinstance(same, LiveCluster)
    assert first.moves == (PartitionMove("orders", 0, 1, (3, 2, 1), (3,), (1,), (1, 2)),)
    assert same.moves[0] is first.moves[0]
    answers.isr = (1, 2, 3)
    grown = reader.snapshot(full=False)
    assert isinstance(grown, LiveCluster)
    assert [move.isr for move in grown.moves] == [(1, 2, 3)]


def test_the_fetcher_threads_of_each_broker_are_seen_kafkas_own_number_where_nobody_set_any() -> None:
    answers = Answers({})
    answers.fetchers = {2: "4"}
    live = over(answers).snapshot(full=False)
    assert isinstance(live, LiveCluster)
    assert live.fetchers == {1: 1, 2: 4, 3: 1}
    assert live.quota_samples == {1: 11, 2: 11, 3: 11}


def beside(
    reader: ClusterReader, *, full: bool = False, waits: tuple[int, ...] = ()
) -> dict[int, frozenset[BrokerSide]]:
    live = reader.snapshot(full=full, waits=waits)
    assert isinstance(live, LiveCluster)
    return dict(live.lost_replica_sides)


LED, COMES = (1, Side.LEADER), (2, Side.FOLLOWER)


def test_what_does_not_move_and_is_not_whole_is_told_where_a_list_names_it() -> None:
    """At full looks, and more often while writes wait; only what can come back."""
    answers = Answers({"payments": {kafka_names.LEADER_REPLICAS: "*"}, "orders": {kafka_names.LEADER_REPLICAS: "0:1"}})
    reader = over(answers)
    answers.isr_at_rest = (1,)
    assert beside(reader) == {}
    assert beside(reader, full=True) == {1: {LED}}
    answers.lists["payments"][kafka_names.FOLLOWER_REPLICAS] = "0:2"
    assert beside(reader, full=True) == {1: {LED, COMES}}
    answers.isr_at_rest = (1, 2)
    assert beside(reader) == {1: {LED, COMES}}, "as it was, until it is read anew"
    assert beside(reader, waits=(1,)) == {}, "at once, when writes begin to wait"
    answers.isr_at_rest = (1,)
    seen = [beside(reader, waits=(1,)) for _ in range(READ_EVERY)]
    assert seen == [{}] * (READ_EVERY - 1) + [{1: {LED, COMES}}]
    answers.isr_at_rest = (1, 2)
    assert beside(reader, waits=(1, 4)) == {}, "another begins to say so"
    answers.isr_at_rest = (1,)
    answers.offline = (2,)
    assert beside(reader, full=True) == {}, "its disk is gone"
    answers.offline = ()
    assert beside(reader, full=True) != {}
    answers.lists.clear()
    assert beside(reader) == {}


def test_what_moved_without_one_of_its_replicas_and_does_not_any_more_is_looked_at_at_once() -> None:
    answers = Answers({"orders": {kafka_names.LEADER_REPLICAS: "*"}})
    reader = over(answers)
    answers.isr, answers.isr_at_rest = (1,), (1,)
    assert beside(reader, full=True) == {}, "it tells of itself while it moves"
    answers.moving = False
    assert beside(reader) == {1: {LED}}


def test_a_look_that_fails_has_not_looked() -> None:
    answers = Answers({"payments": {kafka_names.LEADER_REPLICAS: "*"}})
    reader = over(answers)
    assert beside(reader, full=True) == {}
    answers.isr_at_rest, answers.fails = (1,), True
    assert isinstance(reader.snapshot(full=False, waits=(1,)), ClusterUnreadable)
    answers.fails = False
    assert beside(reader, waits=(1,)) == {1: {LED}}
