"""The loop of elections: it journals first, reads only when leaders may have changed, and repeats a failure later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from tuner_cases import NOW_MS, broker_signal, live, observation

from streaming.shared.contract import TopicPartition
from streaming.shared.kafka.values import ClusterError, ConfigValue, PartitionState
from tuner.api.leadership_status_store import LeadershipCollector, LeadershipStatusStore
from tuner.control.leadership.policy import CAUGHT_UP_S, LeadershipLimits
from tuner.control.throttle.objective import Objective
from tuner.core.cluster import Observation, PartitionMove
from tuner.core.operator_orders import Orders, Pause
from tuner.journal.entries import Entry, decode_entry, encode_entry
from tuner.journal.input_log import InputLog
from tuner.journal.kafka_journal import JournalError
from tuner.runtime.clock import Clock
from tuner.runtime.leadership.loop import EVERY_S, LeadershipController, LeadershipPorts

T = TypeVar("T")
PARTITIONS = 20


class AtOnce:
    def start(self, call: Callable[[], T], /) -> Future[T]:
        answer: Future[T] = Future()
        try:
            answer.set_result(call())
        except ClusterError as error:
            answer.set_exception(error)
        return answer


class Rig:
    """A cluster whose broker 3 has returned, and does not lead its twenty partitions."""

    def __init__(
        self,
        *,
        acts: bool = True,
        dry_run: bool = False,
        objective: Objective | None = None,
        inputs: InputLog | None = None,
    ) -> None:
        self.leaders = dict.fromkeys(range(PARTITIONS), 1)
        self.isr: tuple[int, ...] = (3, 1)
        self.moves: tuple[PartitionMove, ...] = ()
        self.auto: str | None = "false"
        self.error: ClusterError | None = None
        self.refused: set[int] = set()
        self.refusal: str | None = None
        self.refuses_records = False
        self.pause: Pause | None = None
        self.reads = 0
        self.elections: list[list[TopicPartition]] = []
        self.entries: list[Entry] = []
        self.now_s = 0.0
        self.status = LeadershipStatusStore("lab")
        ports = LeadershipPorts(
            api=self,
            caller=AtOnce(),
            latest=self.latest,
            orders=lambda: Orders(pause=self.pause),
            vetoes=tuple,
            journal=self.write,
            write_refusal=lambda: self.refusal,
            observer=self.status,
            inputs=inputs,
        )
        limits = LeadershipLimits(acts=acts, objective=objective, signal_age_s_max=30.0)
        clock = Clock(lambda: NOW_MS / 1000 + self.now_s, lambda: self.now_s)
        self.loop = LeadershipController(ports, limits, clock, dry_run=dry_run)

    def latest(self) -> Observation:
        now_ms = NOW_MS + round(1000 * self.now_s)
        mine = sum(leader == 3 for leader in self.leaders.values())
        signal = replace(broker_signal(3), sampled_at_ms=now_ms, leaders=float(mine))
        return observation(live(moves=self.moves), brokers=[signal], now_ms=now_ms)

    def partitions(self) -> Sequence[PartitionState]:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return [PartitionState("orders", n, leader, (3, 1), self.isr) for n, leader in self.leaders.items()]

    def broker_configs(self, brokers: Iterable[int], keys: Iterable[str]) -> dict[int, Any]:
        (key,) = keys
        return {b: {} if self.auto is None else {key: ConfigValue(self.auto, 4)} for b in brokers}

    def elect_preferred(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ClusterError | None]:
        keys = list(partitions)
        self.elections.append(keys)
        if self.error is not None:
            raise self.error
        self.leaders |= {n: 3 for _, n in keys if n not in self.refused}
        return {key: ClusterError("no") if key[1] in self.refused else None for key in keys}

    def write(self, entries: list[Entry]) -> None:
        if self.refuses_records:
            raise JournalError("no leader")
        self.entries += [decode_entry(encode_entry(entry)) for entry in entries]

    def cycle(self, count: int = 1) -> None:
        for _ in range(count):
            self.now_s = max(self.now_s + EVERY_S, self.loop.next_due_s())
            for _ in range(4):  # Read, decide, elect, finish.
                self.loop.tick()

    def kinds(self) -> list[tuple[str, str]]:
        return [(entry.kind, entry.reason) for entry in self.entries]


def cycles_until_caught_up() -> int:
    return round(CAUGHT_UP_S / EVERY_S)


def test_groups_are_journaled_before_they_are_elected_until_none_is_left() -> None:
    rig = Rig()
    rig.cycle(cycles_until_caught_up())
    assert rig.elections == []
    assert rig.kinds() == [("decision", "just_caught_up")]
    rig.cycle()
    assert rig.elections == [[("orders", 0), ("orders", 1)]]
    assert rig.kinds()[1:] == [("intent", "caught_up"), ("outcome", "caught_up")]
    intent = rig.entries[1]
    assert intent.decision == {"broker": 3}
    assert intent.inputs["partitions"] == ["orders-0", "orders-1"]
    assert rig.entries[2].failure is None
    rig.cycle()
    assert len(rig.elections) == 1, "the effect of the group is awaited"
    rig.cycle(40)
    assert [len(group) for group in rig.elections] == [2] * 10
    assert set(rig.leaders.values()) == {3}


def test_all_partitions_are_read_only_when_leaders_may_have_changed() -> None:
    rig = Rig()
    rig.leaders = dict.fromkeys(range(PARTITIONS), 3)
    rig.cycle(5)
    assert rig.reads == 1
    rig.leaders[0] = 1
    rig.cycle(2)
    assert rig.reads == 3, "a leader is away, so each cycle looks"


def test_broker_out_of_sync_at_first_reading_gets_its_leaders_later() -> None:
    rig = Rig()
    rig.isr = (1,)
    rig.cycle(10)
    assert rig.elections == []
    rig.isr = (3, 1)
    rig.cycle(cycles_until_caught_up())
    assert rig.elections == []
    rig.cycle()
    assert len(rig.elections) == 1


def test_partition_that_was_moved_gets_its_preferred_leader_after_the_move() -> None:
    rig = Rig()
    rig.leaders = {0: 1}
    rig.moves = (PartitionMove("orders", 0, leader=1, replicas=(3, 1), adding=(3,), removing=(), isr=(3, 1)),)
    rig.cycle(10)
    assert (rig.elections, rig.reads) == ([], 1)
    rig.moves = ()
    rig.cycle(cycles_until_caught_up() + 1)
    assert rig.elections == [[("orders", 0)]]


def test_nothing_is_elected_while_kafka_does_it_itself() -> None:
    for auto in (None, "true"):
        rig = Rig()
        rig.auto = auto
        rig.cycle(20)
        assert rig.elections == []
        assert rig.kinds() == [("decision", "kafka_elects")]
        body = rig.status.as_json()
        assert body is not None
        assert body["partitions_without_preferred_leader"] == PARTITIONS
        assert "auto.leader.rebalance.enable is true on broker 1, 2, 3" in body["text"]


def test_dry_run_and_watch_elect_nothing_and_say_it_once() -> None:
    for rig, last in ((Rig(dry_run=True), "caught_up"), (Rig(acts=False), "watched")):
        rig.cycle(20)
        assert rig.elections == []
        assert [reason for _, reason in rig.kinds()] == ["just_caught_up", last]


def test_nothing_is_elected_without_journal_leadership_or_during_a_pause() -> None:
    rig = Rig()
    rig.cycle(cycles_until_caught_up())
    rig.refuses_records = True
    rig.cycle(3)
    rig.refuses_records, rig.refusal = False, "the lease is lost"
    rig.cycle(3)
    rig.refusal, rig.pause = None, Pause(NOW_MS, "root")
    rig.cycle(3)
    assert rig.elections == []
    rig.pause = None
    rig.cycle()
    assert len(rig.elections) == 1


def test_refused_election_is_named_and_repeated_with_pauses() -> None:
    rig = Rig()
    rig.refused = {0}
    rig.cycle(cycles_until_caught_up() + 1)
    assert rig.leaders[1] == 3
    assert rig.entries[-1].failure == "1 of 2 leaders were not elected; orders-0: no"
    rig.cycle(40)
    assert len(rig.elections) < 16, "pauses grow"
    rig.refused = set()
    rig.cycle(60)
    assert set(rig.leaders.values()) == {3}


def test_unreadable_partitions_change_nothing_and_are_read_again() -> None:
    rig = Rig()
    rig.error = ClusterError("Kafka does not answer")
    rig.cycle(3)
    body = rig.status.as_json()
    assert body is not None
    assert (body["reason"], body["partitions_without_preferred_leader"]) == ("partitions_unreadable", None)
    assert "Kafka does not answer" in body["text"]
    rig.error = None
    rig.cycle(cycles_until_caught_up() + 1)
    assert len(rig.elections) == 1


def test_lost_answer_is_an_outcome_with_a_failure() -> None:
    rig = Rig()
    rig.cycle(cycles_until_caught_up())
    original = rig.elect_preferred

    def lose(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ClusterError | None]:
        original(partitions)
        raise ClusterError("timed out")

    rig.elect_preferred = lose  # type: ignore[method-assign]
    rig.cycle()
    assert "timed out" in (rig.entries[-1].failure or "")
    assert rig.leaders[0] == 3


def test_metrics_have_the_number_and_the_counts_until_a_standby_begins() -> None:
    rig = Rig(acts=False)
    rig.cycle()
    values = {
        sample.name: sample.value for metric in LeadershipCollector(rig.status).collect() for sample in metric.samples
    }
    assert values == {
        "rheostat_partitions_without_preferred_leader": PARTITIONS, "rheostat_leadership_decisions_total": 1
    }  # fmt: skip
    rig.status.clear()
    assert rig.status.as_json() is None
