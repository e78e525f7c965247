"""A watched plan while the journal can't be read or written: with the service here the only executor is not given up for that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import kafka.errors
import pytest

from rheostat.errors import BadInputError, CommandError
from rheostat.reassign import command, plan_store
from rheostat.reassign import orders as words
from rheostat.reassign.command import ReassignRequest
from rheostat.reassign.interrupted import EXIT_INTERRUPTED
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import Plan, PlanEnding, PlanHead, PlanPartition, PlanState
from tuner.journal.plan_records import encode_head, encode_parts, encode_state, head_key, part_key, state_key

PLAN = Plan(PlanHead("p", "kim", 5, 5, 1), {("t", 0): PlanPartition((3, 4), (1, 2))})
DONE: Any = SimpleNamespace(plan=Plan(PLAN.head, {}, {}, PlanState(ending=PlanEnding.DONE)), well=True)
AWAY = CommandError("The journal cannot be read.")
SETTINGS: Any = SimpleNamespace(
    cluster="c", kafka=None, topic_names=lambda: SimpleNamespace(journal="rheostat.journal", orders="rheostat.orders")
)
ASKED: Any = ReassignRequest(plan=None, limits=BatchLimits())  # type: ignore[arg-type]  # the file was read before


class Service:
    log = "reassign.log"

    def __init__(self, runs: bool) -> None:
        self.runs, self.looks = runs, 0

    def look(self) -> tuple[str, ...]:
        self.looks += 1
        return ()


class Watched:
    """What a look finds, look after look, and what somebody who is asked makes of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: Any, answers: tuple[Any, ...] = ()) -> None:
        self.looks, self.answers = list(looks), list(answers)
        self.may_pause: list[bool] = []
        self.said: list[str] = []
        monkeypatch.setattr(command, "_look_on", self._look)
        monkeypatch.setattr(command, "interrupted", lambda *_, **__: self._next(self.answers))
        monkeypatch.setattr(command, "left", self._left)
        monkeypatch.setattr(command, "say", self.said.append)
        monkeypatch.setattr(command, "standing", lambda _: "done.")
        monkeypatch.setattr(command, "_AGAIN_AFTER_S", 0.01)

    def run(self, service: Service) -> int:
        return command._watched(SETTINGS, "p", service, ASKED)  # type: ignore[arg-type]  # a service of the test's own

    def _look(self, *_: object, may_pause: bool) -> Any:
        self.may_pause.append(may_pause)
        return self._next(self.looks)

    def _left(self, plan: str, *, here: bool) -> int:
        self.said.append(f"left {plan} {'here' if here else 'there'}")
        return EXIT_INTERRUPTED

    @staticmethod
    def _next(found: list[Any]) -> Any:
        one = found.pop(0)
        if isinstance(one, BaseException):
            raise one
        return one


def test_with_the_service_here_a_journal_that_is_away_is_looked_at_again_and_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched, service = Watched(monkeypatch, AWAY, AWAY, DONE), Service(True)
    assert watched.run(service) == 0
    assert watched.said == ["The journal cannot be read. Looking again.", "Plan p: done."]
    assert service.looks >= 2, "the parts here are kept alive meanwhile"


def test_a_journal_that_is_away_once_more_an_hour_later_is_said_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, AWAY, AWAY, DONE)
    monkeypatch.setattr(command, "_SEEN_AGAIN_S", 0.0)
    watched.run(Service(True))
    assert watched.said == ["The journal cannot be read. Looking again."] * 2 + ["Plan p: done."]


def test_where_a_tuner_elsewhere_executes_the_plan_the_command_may_end(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, AWAY)
    with pytest.raises(CommandError):
        watched.run(Service(False))
    assert watched.said == []


def test_an_answer_that_could_not_be_said_can_be_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = CommandError("It is not known whether it was taken.")
    watched = Watched(monkeypatch, KeyboardInterrupt(), KeyboardInterrupt(), DONE, answers=(silent, None))
    assert watched.run(Service(True)) == 0
    assert watched.said == ["It is not known whether it was taken.", "Plan p: done."]
    assert watched.may_pause == [False, False, True]


@pytest.mark.parametrize("error", [BadInputError("there is no plan 'p' on record"), TypeError("a bug")])
def test_where_it_ends_after_all_what_stays_behind_is_said(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    watched = Watched(monkeypatch, error)
    with pytest.raises(type(error)):
        watched.run(Service(True))
    assert watched.said == ["left p here"]


def test_ctrl_c_between_two_looks_is_asked_about_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pressed(Service):
        def look(self) -> tuple[str, ...]:
            raise KeyboardInterrupt

    watched = Watched(monkeypatch, AWAY, answers=(EXIT_INTERRUPTED,))
    assert watched.run(Pressed(True)) == EXIT_INTERRUPTED


def test_clients_that_cannot_be_made_end_the_command_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise kafka.errors.KafkaTimeoutError("no broker")

    monkeypatch.setattr(plan_store, "consumer", away)
    for read in (plan_store.read, plan_store.throttles_stand):
        with pytest.raises(CommandError, match=r"as the cluster does not answer: KafkaTimeoutError: no broker\."):
            read(SETTINGS)


def test_a_word_that_is_on_record_is_said_to_be_where_its_heeding_cannot_be_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(*_: object) -> bool:
        raise AWAY

    monkeypatch.setattr(plan_store, "say", lambda *_, **__: PLAN.head)
    monkeypatch.setattr(plan_store, "acknowledged", away)
    said = words.pause(SETTINGS, PLAN)
    assert not said.acknowledged
    assert said.text.endswith(
        "It is on record, and not known whether a tuner has acknowledged it: The journal cannot be read."
    )


# -- a busy journal -------------------------------------------------------------------------------------------------------

RECORDS = [
    (part_key("c", "p", 0), encode_parts(PLAN.partitions)),
    (head_key("c", "p"), encode_head(PLAN.head)),
    *[(b"entry", b"{}")] * 5,
    (state_key("c", "p"), encode_state(PlanState(9))),
]


class Reader:
    """A journal that was empty, and gives a record a poll."""

    def __init__(self, records: list[tuple[bytes, bytes]], *, endless: bool = False) -> None:
        self.records, self.endless, self.polls = list(records), endless, 0
        self.topic = "rheostat.journal"

    def partitions_for_topic(self, topic: str) -> set[int]:  # noqa: ARG002 - the client's shape
        return {0}

    def assign(self, partitions: list[Any]) -> None:
        assert {partition.topic for partition in partitions} == {"rheostat.journal", "rheostat.orders"}

    def seek(self, partition: Any, offset: int) -> None:
        assert offset == {"rheostat.journal": 7, "rheostat.orders": 2}[partition.topic]

    def poll(self, timeout_ms: int) -> dict[str, list[SimpleNamespace]]:  # noqa: ARG002 - the client's shape
        self.polls += 1
        if not self.records:
            return {}
        key, value = self.records[0] if self.endless else self.records.pop(0)
        plan_store = SimpleNamespace(key=key, value=value, offset=0, topic=self.topic, timestamp=0)
        return {f"{self.topic}-0": [plan_store]}


def follower(monkeypatch: pytest.MonkeyPatch, reader: Reader) -> plan_store.Follower:
    def recover(journal: plan_store.KafkaJournal, _: object) -> None:
        journal.next_offsets, journal.orders_next_offsets = {0: 7}, {0: 2}

    monkeypatch.setattr(plan_store.KafkaJournal, "recover", recover)
    return plan_store.Follower(reader, "rheostat.journal", "c")


def test_a_look_takes_all_that_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    known = follower(monkeypatch, Reader(RECORDS)).now()
    assert [plan.state.acknowledged_at_ms for plan in known.plans] == [9]


def test_a_look_takes_no_tuners_record_from_the_orders_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(RECORDS)
    reader.topic = "rheostat.orders"
    assert [plan.state for plan in follower(monkeypatch, reader).now().plans] == [PlanState()]


def test_a_look_reads_anew_until_both_topics_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    known, ends = follower(monkeypatch, Reader(RECORDS)), [({}, {}), ({}, {0: 2}), ({0: 7}, {0: 2})]

    def recover(journal: plan_store.KafkaJournal, _: object) -> None:
        journal.next_offsets, journal.orders_next_offsets = ends.pop(0)

    monkeypatch.setattr(plan_store.KafkaJournal, "recover", recover)
    assert [len(known.now().plans) for _ in range(3)] == [0, 0, 1]


def test_a_look_at_a_journal_that_is_written_all_the_time_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_store, "_TAKE_S_MAX", 0.05)
    reader = Reader([(b"entry", b"{}")], endless=True)
    assert follower(monkeypatch, reader).now().plans == ()
    assert reader.polls > 1
