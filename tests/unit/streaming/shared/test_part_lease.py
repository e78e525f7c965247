"""The lease of collector and stream: which member holds it, and when its process may act."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.coordinator.assignors.abstract import ConsumerProtocolAssignment
from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError
from structlog.testing import capture_logs

from streaming.shared.lease import Lease, lease_group
from streaming.shared.part_lease import (
    HUNG_AFTER_S,
    SUSPENDED_AFTER_S,
    UNANSWERED_S_MAX,
    PartLease,
    SoleHolderAssignor,
    may_act_after_renewal,
)

TOPIC = "rheostat.metrics"


class Group:
    """A group whose members use ``SoleHolderAssignor``."""

    def __init__(self) -> None:
        self.members: dict[str, SoleHolderAssignor] = {}
        self.generation = 0

    def join(self, name: str) -> str:
        self.members[name] = SoleHolderAssignor()
        return self.rebalance()

    def rebalance(self) -> str:
        self.generation += 1
        joined = [
            SimpleNamespace(member_id=name, metadata=assignor.metadata({TOPIC}))
            for name, assignor in self.members.items()
        ]
        assignments = next(iter(self.members.values())).assign(None, joined)
        return self.take(assignments)

    def take(self, assignments: dict[str, ConsumerProtocolAssignment]) -> str:
        assert assignments.keys() == self.members.keys()
        for name, assignor in self.members.items():
            assignor.on_assignment(assignments[name], self.generation)
        [holder] = [name for name, assignment in assignments.items() if assignment.partitions()]
        assert assignments[holder].partitions() == [(TOPIC, 0)]
        return holder


def test_holder_keeps_the_partition_while_others_join_and_leave() -> None:
    group = Group()
    assert [group.join(name) for name in ("m", "a", "z", "b")] == ["m"] * 4
    del group.members["z"]
    assert group.rebalance() == "m"
    suspended = group.members.pop("m")
    successor = group.rebalance()
    group.members["m"] = suspended
    assert group.rebalance() == successor != "m", "the claim of an older generation does not count"


def test_each_topic_of_a_group_has_its_own_holder() -> None:
    """Two installations have the same cluster name and different prefixes."""
    joined = [
        SimpleNamespace(member_id=name, metadata=SoleHolderAssignor().metadata({topic}))
        for name, topic in (("a", "one.metrics"), ("b", "two.metrics"), ("c", "one.metrics"))
    ]
    assignments = SoleHolderAssignor().assign(None, joined)
    found = {name: assignment.partitions() for name, assignment in assignments.items()}
    assert found == {"a": [], "b": [("two.metrics", 0)], "c": [("one.metrics", 0)]}


@pytest.mark.parametrize("user_data", [None, b"", b"x", b"\xff"])
def test_member_with_unreadable_claim_has_none(user_data: bytes | None) -> None:
    holder = SoleHolderAssignor()
    holder.on_assignment(ConsumerProtocolAssignment(0, [(TOPIC, [0])], b""), 0)
    joined = [
        SimpleNamespace(member_id="z", metadata=SimpleNamespace(topics=[TOPIC], user_data=user_data)),
        SimpleNamespace(member_id="a", metadata=holder.metadata({TOPIC})),
    ]
    assert holder.assign(None, joined)["a"].partitions()


@dataclass
class FakeLease:
    """A lease whose group answers as the test says."""

    is_holder: bool = False
    is_assigned: bool = False
    awaits_renewal: bool = False
    is_denied: bool = False
    is_answered: bool = True
    note: str | None = None
    failure: Exception | None = None
    left: list[str] = field(default_factory=list)

    def renew(self, _timeout_s: float) -> bool:
        return self.is_holder

    def read_note(self) -> str | None:
        if self.failure is not None:
            raise self.failure
        return self.note

    def leave_note(self, note: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.note = note
        self.left.append(note)


@pytest.mark.parametrize(
    ("acts", "lease", "was_suspended", "may_act"),
    [
        (False, FakeLease(is_holder=True, is_assigned=True), True, True),
        (False, FakeLease(), False, False),
        (True, FakeLease(), False, False),  # Another member has it, or the group has dropped this one.
        (True, FakeLease(is_assigned=True), False, True),  # The coordinator does not answer.
        (True, FakeLease(is_assigned=True), True, False),  # The group may have given it away meanwhile.
        (False, FakeLease(is_assigned=True), False, False),
        (True, FakeLease(awaits_renewal=True), False, True),  # Another member joins.
        (False, FakeLease(awaits_renewal=True), False, False),
        (False, FakeLease(is_denied=True), False, True),
    ],
)
def test_may_act_after_renewal(acts: bool, lease: FakeLease, was_suspended: bool, may_act: bool) -> None:
    found = may_act_after_renewal(acts, cast(Lease, lease), is_holder=lease.is_holder, was_suspended=was_suspended)
    assert found is may_act


class Rig:
    def __init__(self, note: str = "", *, begins_alone: bool = False) -> None:
        self.now_s = 0.0
        self.lease = FakeLease()
        lease: Any = self.lease
        self.part = PartLease(lease, "stream", note=note, begins_alone=begins_alone, monotonic=lambda: self.now_s)

    def step(self, after_s: float = 0.5) -> bool:
        self.now_s += after_s
        self.part.step()
        return self.part.acts()

    def hold(self, *, holds: bool = True) -> None:
        self.lease.is_holder = self.lease.is_assigned = holds


def test_process_acts_on_while_the_coordinator_is_silent() -> None:
    rig = Rig()
    assert not rig.step()
    rig.hold()
    assert rig.step()
    rig.lease.is_holder = False
    assert all(rig.step() for _ in range(100))
    rig.lease.is_assigned = False
    assert not rig.step()


def test_process_that_its_group_never_answers_acts_after_a_while_and_is_no_standby() -> None:
    rig = Rig("mine")
    rig.lease.is_answered = False
    with capture_logs() as logs:
        while rig.now_s < UNANSWERED_S_MAX - 0.5:
            assert not rig.step()
            assert not rig.part.stands_by()
        assert all(rig.step() for _ in range(100))
        assert not rig.part.follows_another(), "it continues from its own checkpoint, as after a restart"
    assert [line["event"] for line in logs] == [
        "the stream acts without the lease: its consumer group has not answered for 30 s"
    ]
    rig.lease.is_answered = True
    assert not rig.step(), "another process has the lease"
    assert rig.part.stands_by()


@pytest.mark.parametrize("gets_lease", [True, False])
def test_process_that_begins_alone_acts_until_the_first_answer(gets_lease: bool) -> None:
    rig = Rig(begins_alone=True)
    rig.lease.is_answered = False
    assert rig.part.acts(), "before the first step"
    assert all(rig.step() for _ in range(8))
    rig.lease.is_answered = True
    rig.hold(holds=gets_lease)
    assert rig.step() is gets_lease
    assert rig.part.stands_by() is not gets_lease
    rig.hold(holds=False)
    rig.lease.is_answered = False
    assert not rig.step(), "it began alone only once"


def test_process_that_begins_alone_and_is_suspended_waits() -> None:
    rig = Rig(begins_alone=True)
    rig.lease.is_answered = False
    assert rig.step()
    rig.now_s += SUSPENDED_AFTER_S
    assert not rig.part.acts()
    assert not rig.step(0.0)
    assert not rig.step()


def test_standby_whose_group_falls_silent_continues_after_the_other_process() -> None:
    rig = Rig("mine")
    assert not rig.step()
    assert rig.part.stands_by()
    rig.lease.is_answered = False
    assert not rig.step()
    assert rig.part.stands_by(), "a rebalance takes a moment"
    rig.now_s += 10 * UNANSWERED_S_MAX
    assert not rig.step(), "the time in which it was suspended does not count"
    while rig.part.stands_by():
        assert not rig.part.acts()
        assert rig.now_s < 20 * UNANSWERED_S_MAX
        rig.step()
    assert rig.part.acts()
    assert rig.part.follows_another()
    rig.part.sign()
    rig.lease.is_answered = True
    rig.hold()
    assert rig.step()
    assert rig.lease.left == ["mine"]


def test_process_that_acted_without_the_lease_signs_nothing_as_a_standby() -> None:
    rig = Rig("mine")
    rig.lease.is_answered = False
    while not rig.step():
        assert rig.now_s < 2 * UNANSWERED_S_MAX
    rig.part.sign()
    rig.lease.is_answered, rig.lease.note = True, "other"
    assert not rig.step()
    rig.hold()
    assert rig.step()
    assert rig.part.follows_another()
    assert rig.lease.left == []


def test_lease_whose_thread_stops_hangs() -> None:
    rig = Rig()
    assert not rig.step()
    rig.now_s += HUNG_AFTER_S - 1.0
    assert not rig.part.hangs()
    rig.now_s += 1.0
    with capture_logs() as logs:
        assert rig.part.hangs()
        assert rig.part.hangs()
    assert len(logs) == 1
    assert not rig.step()
    assert not rig.part.hangs()


def test_suspended_process_acts_only_after_an_answer() -> None:
    rig = Rig()
    rig.hold()
    assert rig.step()
    rig.now_s += SUSPENDED_AFTER_S
    assert not rig.part.acts(), "at once, and before the lease's thread runs"
    assert rig.part.holds()
    rig.lease.is_holder = False
    assert not rig.step(0.0)
    assert not rig.part.holds()
    assert not rig.step()
    rig.lease.is_holder = True
    assert rig.step()


def test_note_of_another_process_is_known_when_the_lease_comes() -> None:
    rig = Rig("mine")
    rig.lease.note = "other"
    rig.hold()
    rig.lease.failure = KafkaTimeoutError("no answer")
    assert not rig.step(), "without the note, it is not known where to continue"
    rig.lease.failure = None
    assert rig.step()
    assert rig.part.follows_another()
    assert rig.lease.left == [], "the process has not taken over yet, and may end before"
    rig.part.sign()
    assert not rig.part.follows_another()
    assert rig.step()
    assert rig.step()
    assert rig.lease.left == ["mine"]

    rig.hold(holds=False)
    assert not rig.step()
    rig.lease.note = "other"
    rig.hold()
    assert rig.step()
    assert rig.part.follows_another()


@pytest.mark.parametrize("note", [None, "mine"])
def test_process_continues_its_own_work_if_no_other_signed(note: str | None) -> None:
    rig = Rig("mine")
    rig.lease.note = note
    rig.hold()
    assert rig.step()
    assert not rig.part.follows_another()


def test_process_without_right_on_the_topic_acts_and_logs_it_once() -> None:
    rig = Rig("mine")
    rig.hold()
    rig.lease.failure = TopicAuthorizationFailedError("rheostat.signals")
    with capture_logs() as logs:
        assert rig.step()
        rig.part.sign()
        assert rig.step()
        assert rig.step()
    assert len([line for line in logs if line["log_level"] == "warning"]) == 1
    assert rig.lease.left == []


def test_each_part_has_its_own_group() -> None:
    groups = {lease_group("c"), lease_group("c", "collect"), lease_group("c", "stream")}
    assert groups == {"rheostat-tuner-c", "rheostat-collect-c", "rheostat-stream-c"}
