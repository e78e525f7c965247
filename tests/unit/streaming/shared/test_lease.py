"""Tests the lease: assignments, rebalances, silent coordinators, and members that join again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import TopicPartition
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import GroupAuthorizationFailedError, KafkaConnectionError
from kafka.util import Timer

from streaming.shared.lease import ASSIGNORS, SESSION_S, Lease
from tuner.journal.kafka_journal import KafkaJournal
from tuner.runtime.clock import Clock
from tuner.runtime.leadership_term import is_lease_held

ONLY = TopicPartition("rheostat.journal", 0)


class Heartbeat:
    """Answered all of the time, until it is no more. Meanwhile any broker that says who the coordinator is resets the rest."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.answered_last_s: float | None = None

    @property
    def last_send(self) -> float:
        return self._now_s()

    @property
    def last_reset(self) -> float:
        return self._now_s()

    @property
    def last_receive(self) -> float:
        return self._now_s() if self.answered_last_s is None else self.answered_last_s


class Member:
    """A consumer whose group speaks when the test says so."""

    def __init__(self, now_s: Callable[[], float] = lambda: 0.0) -> None:
        self.listener: Any = None
        self.pauses: list[TopicPartition] = []
        self.closed = False
        self.next: Callable[[], None] | None = None
        self.waited_ms = 0
        self.knows_partitions = False
        self._coordinator = SimpleNamespace(heartbeat=Heartbeat(now_s))
        self._cluster = SimpleNamespace(partitions_for_topic=self.partitions_for_topic)

    def partitions_for_topic(self, topic: str) -> set[int]:
        assert topic == ONLY.topic
        assert self.listener is not None, "the consumer asks for the topics to which it subscribes"
        self.knows_partitions = True
        return {ONLY.partition}

    def subscribe(self, topics: list[str], listener: Any) -> None:
        assert topics == [ONLY.topic]
        self.listener = listener

    def poll(self, timeout_ms: int) -> None:
        self.waited_ms = timeout_ms
        told, self.next = self.next, None
        if told is not None:
            told()

    def _poll_once(self, timer: Timer, max_records: int) -> None:
        assert max_records == 1
        assert self.knows_partitions, "the first member of a group would assign no partition to itself"
        self.poll(timer.timeout_ms)
        timer.__init__(0)  # type: ignore[misc]  # The whole wait passes at once.

    def paused(self) -> list[TopicPartition]:
        return self.pauses

    def pause(self, partition: TopicPartition) -> None:
        self.pauses.append(partition)

    def close(self, timeout_ms: int) -> None:
        assert timeout_ms > 0
        self.closed = True

    def given(self, *partitions: TopicPartition) -> None:
        self.next = lambda: self.listener.on_partitions_assigned(partitions)

    def dealt_anew(self) -> None:
        self.next = lambda: self.listener.on_partitions_revoked([ONLY])


class Rig:
    def __init__(self) -> None:
        self.members: list[Member] = []
        self.now_s = 0.0
        make: Any = self.make
        self.lease = Lease(make, ONLY.topic, "rheostat-tuner-lab", monotonic=lambda: self.now_s)
        assert not self.lease.renew()

    def make(self) -> Member:
        self.members.append(Member(lambda: self.now_s))
        return self.members[-1]

    def after(self, seconds: float) -> bool:
        self.now_s += seconds
        return self.lease.renew()


def test_lease_is_held_between_assignment_and_rebalance() -> None:
    rig = Rig()
    [member] = rig.members
    member.given(ONLY)
    assert rig.after(1.0)
    assert rig.after(60.0)
    assert member.pauses == [ONLY], "its records are read elsewhere"
    member.dealt_anew()
    assert not rig.after(1.0)
    member.given(ONLY)
    assert rig.after(1.0)


def test_lease_is_not_held_after_silent_session() -> None:
    """Only the group coordinator is unreachable: no rebalance is reported, and the journal still accepts records."""
    rig = Rig()
    [member] = rig.members
    member.given(ONLY)
    assert rig.after(1.0)
    member._coordinator.heartbeat.answered_last_s = rig.now_s
    assert rig.after(SESSION_S - 0.1)
    assert rig.lease.silent_s() == SESSION_S - 0.1
    assert not rig.after(0.1)
    member._coordinator.heartbeat.answered_last_s = None
    rig.lease.silent_s()
    assert rig.after(1.0), "it was not given to another: the group says so by answering this member"
    assert not member.closed


def test_heartbeat_answer_counts_from_send_time() -> None:
    """A process that was stopped for longer than its session finds an answer that was waiting for it."""
    rig = Rig()
    [member] = rig.members
    member.given(ONLY)
    assert rig.after(1.0)
    asked_s = rig.now_s
    member._coordinator.heartbeat = SimpleNamespace(last_send=asked_s, last_receive=asked_s + 20.0, last_reset=asked_s)
    assert not rig.after(20.0)
    assert rig.lease.silent_s() == 20.0


def test_held_waits_only_during_rebalance() -> None:
    rig = Rig()
    [member] = rig.members
    assert 1900 < member.waited_ms <= 2000
    member.given(ONLY)
    rig.after(1.0)
    rig.after(1.0)
    assert member.waited_ms == 0


def test_member_without_partition_keeps_waiting() -> None:
    rig = Rig()
    rig.members[0].given()
    assert not rig.after(1.0)
    assert not rig.after(3600.0)
    assert len(rig.members) == 1


def test_group_has_answered_from_the_assignment_until_a_silent_session() -> None:
    rig = Rig()
    [member] = rig.members
    assert not rig.lease.is_answered, "it has joined no group yet"
    member.given()
    rig.after(1.0)
    assert rig.lease.is_answered, "another member has the lease"
    member._coordinator.heartbeat.answered_last_s = rig.now_s
    rig.after(SESSION_S + 1.0)
    assert not rig.lease.is_answered


def test_lease_in_a_rebalance_awaits_renewal_until_the_group_decides() -> None:
    """Another tuner joins: the group takes the partition back, and gives it to the member that had it."""
    rig = Rig()
    [member] = rig.members
    assert not rig.lease.awaits_renewal, "a newcomer had nothing that could be renewed"
    member.given(ONLY)
    assert rig.after(1.0)
    member.dealt_anew()
    assert not rig.after(1.0), "it may not act meanwhile"
    assert rig.lease.awaits_renewal
    assert not rig.after(2.0)
    assert rig.lease.awaits_renewal
    member.given(ONLY)
    assert rig.after(1.0)
    assert not rig.lease.awaits_renewal
    member.dealt_anew()
    assert not rig.after(1.0)
    member.given()
    assert not rig.after(1.0)
    assert not rig.lease.awaits_renewal, "another member has it"


def test_lease_of_a_member_that_was_dropped_awaits_no_renewal() -> None:
    rig = Rig()
    [member] = rig.members
    member.given(ONLY)
    assert rig.after(1.0)
    member.next = lambda: member.listener.on_partitions_lost([ONLY])
    assert not rig.after(1.0)
    assert not rig.lease.awaits_renewal


@pytest.mark.parametrize("error", [GroupAuthorizationFailedError("the group"), KafkaConnectionError("no broker")])
def test_lease_with_unreachable_coordinator_awaits_no_renewal(error: Exception) -> None:
    """The caller waits for a renewal in a loop, which an error must end."""
    rig = Rig()
    [member] = rig.members
    member.given(ONLY)
    assert rig.after(1.0)
    member.dealt_anew()
    assert not rig.after(1.0)

    def fail() -> None:
        raise error

    member.next = fail
    assert not rig.after(1.0)
    assert not rig.lease.awaits_renewal


class FakeJournal:
    def __init__(self) -> None:
        self.distrusted = 0

    def discard_proof(self) -> None:
        self.distrusted += 1


def still(rig: Rig, journal: FakeJournal, stop: threading.Event | None = None) -> bool:
    return is_lease_held(
        rig.lease, cast(KafkaJournal, journal), stop or threading.Event(), Clock(monotonic_s=lambda: rig.now_s)
    )


def test_tuner_keeps_term_through_rebalance_after_renewed_proof() -> None:
    rig, journal = Rig(), FakeJournal()
    [member] = rig.members
    member.given(ONLY)
    assert still(rig, journal)
    assert journal.distrusted == 1, "it has just joined"
    assert still(rig, journal)
    assert journal.distrusted == 1
    member.dealt_anew()
    assert not rig.after(1.0)
    member.given(ONLY)
    assert still(rig, journal)
    assert journal.distrusted == 2
    member.dealt_anew()
    assert not rig.after(1.0)
    member.given()
    assert not still(rig, journal)


def test_rebalance_within_one_poll_requires_a_new_proof() -> None:
    """The group dropped this member, which came back and was given the lease again before the look ended."""
    rig, journal = Rig(), FakeJournal()
    [member] = rig.members
    member.given(ONLY)
    assert still(rig, journal)

    def come_back() -> None:
        member.listener.on_partitions_lost([ONLY])
        member.listener.on_partitions_assigned([ONLY])

    member.next = come_back
    assert still(rig, journal)
    assert journal.distrusted == 2


def test_stopped_tuner_waits_for_no_renewal() -> None:
    rig = Rig()
    [member] = rig.members
    member.given(ONLY)
    assert rig.after(1.0)
    member.dealt_anew()
    assert not rig.after(1.0)
    stop = threading.Event()
    stop.set()
    assert not still(rig, FakeJournal(), stop)


def test_assignors_keep_partition_with_its_holder() -> None:
    """Also where a suspended member comes back and claims what it had in an older generation."""
    members: dict[str, StickyPartitionAssignor] = {}
    generation = 0

    def rebalance() -> object:
        nonlocal generation
        generation += 1
        joined = [
            SimpleNamespace(member_id=name, group_instance_id=None, metadata=assignor.metadata({ONLY.topic}))
            for name, assignor in members.items()
        ]
        cluster = SimpleNamespace(topics=lambda: {ONLY.topic}, partitions_for_topic=lambda _: {ONLY.partition})
        leader = next(iter(members.values()))
        assignments = leader.assign(cluster, joined)
        for name, assignor in members.items():
            assignor.on_assignment(assignments[name], generation)
        [holder] = [name for name, assignment in assignments.items() if assignment.partitions()]
        return holder

    def join(name: str) -> object:
        members[name] = ASSIGNORS[0]()
        return rebalance()

    assert [join(name) for name in ("m", "a", "z", "b")] == ["m"] * 4
    suspended = members.pop("m")
    assert rebalance() == (successor := "a")
    members["m"] = suspended
    assert rebalance() == successor
    del members["z"]
    assert rebalance() == successor


def test_member_without_assignment_joins_again() -> None:
    rig = Rig()
    first = rig.members[0]
    first.given()
    assert not rig.after(1.0)
    first.dealt_anew()
    assert not rig.after(1.0)
    assert not rig.after(12.0)
    assert not first.closed, "a rebalance may last as long as the session of a member that has died"
    assert not rig.after(0.5)
    assert first.closed
    assert not rig.after(0.5)
    second = rig.members[1]
    second.given(ONLY)
    assert rig.after(1.0)


def test_held_after_leave_joins_again() -> None:
    rig = Rig()
    rig.members[0].given(ONLY)
    assert rig.after(1.0)
    rig.lease.leave()
    assert rig.members[0].closed
    assert not rig.after(1.0)
    assert len(rig.members) == 2
