"""A watched plan while the journal cannot be read or written: an embedded service, the only executor, keeps running."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import kafka.errors
import pytest

from rheostat.errors import BadInputError, CommandError
from rheostat.reassign import command, orders, plan_store
from rheostat.reassign.command import ReassignRequest
from rheostat.reassign.interrupted import EXIT_INTERRUPTED
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import Plan, PlanEnding, PlanHead, PlanPartition, PlanState
from tuner.journal.plan_records import encode_head, encode_parts, encode_state, head_key, part_key, state_key

PLAN = Plan(PlanHead("p", "kim", 5, 5, 1), {("t", 0): PlanPartition((3, 4), (1, 2))})
DONE: Any = SimpleNamespace(plan=Plan(PLAN.head, {}, {}, PlanState(ending=PlanEnding.DONE)), is_well=True)
UNREADABLE = CommandError("The journal cannot be read.")
SETTINGS: Any = SimpleNamespace(
    cluster="c", kafka=None, topic_names=lambda: SimpleNamespace(journal="rheostat.journal", orders="rheostat.orders")
)
REQUEST: Any = ReassignRequest(path=None, limits=BatchLimits())  # type: ignore[arg-type]  # the file was read before


class Service:
    log = "reassign.log"

    def __init__(self, is_running: bool) -> None:
        self.is_running, self.checks = is_running, 0

    def check(self) -> tuple[str, ...]:
        self.checks += 1
        return ()


class Watched:
    """A watched plan: what each look finds, and the result of each Ctrl-C."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: Any, answers: tuple[Any, ...] = ()) -> None:
        self.looks, self.answers = list(looks), list(answers)
        self.may_pause: list[bool] = []
        self.lines: list[str] = []
        monkeypatch.setattr(command, "_watch_once", self._watch_once)
        monkeypatch.setattr(command, "handle_interrupt", lambda *_, **__: self._next(self.answers))
        monkeypatch.setattr(command, "leave_running", self._leave_running)
        monkeypatch.setattr(command, "print_line", self.lines.append)
        monkeypatch.setattr(command, "state_text", lambda _: "done.")
        monkeypatch.setattr(command, "_RETRY_AFTER_S", 0.01)

    def run(self, service: Service) -> int:
        return command._watch(SETTINGS, "p", service, REQUEST)  # type: ignore[arg-type]  # a service of the test's own

    def _watch_once(self, *_: object, may_pause: bool) -> Any:
        self.may_pause.append(may_pause)
        return self._next(self.looks)

    def _leave_running(self, plan_id: str, *, standalone: bool) -> int:
        self.lines.append(f"left {plan_id} {'standalone' if standalone else 'attached'}")
        return EXIT_INTERRUPTED

    @staticmethod
    def _next(results: list[Any]) -> Any:
        result = results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result


@pytest.mark.parametrize(("repeat_after_s", "reports"), [(60.0, 1), (0.0, 2)])
def test_watch_standalone_retries_and_repeats_an_error_only_later(
    monkeypatch: pytest.MonkeyPatch, repeat_after_s: float, reports: int
) -> None:
    watched, service = Watched(monkeypatch, UNREADABLE, UNREADABLE, DONE), Service(True)
    monkeypatch.setattr(command, "_REPEAT_ERROR_AFTER_S", repeat_after_s)
    assert watched.run(service) == 0
    assert watched.lines == ["The journal cannot be read. Trying again."] * reports + ["Plan p: done."]
    assert service.checks >= 2, "its processes are kept alive meanwhile"


def test_watch_without_embedded_service_ends_with_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, UNREADABLE)
    with pytest.raises(CommandError):
        watched.run(Service(False))
    assert watched.lines == []


def test_ctrl_c_after_a_failed_order_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = CommandError("It is not known whether it was taken.")
    watched = Watched(monkeypatch, KeyboardInterrupt(), KeyboardInterrupt(), DONE, answers=(silent, None))
    assert watched.run(Service(True)) == 0
    assert watched.lines == ["It is not known whether it was taken.", "Plan p: done."]
    assert watched.may_pause == [False, False, True]


@pytest.mark.parametrize("error", [BadInputError("there is no plan 'p' on record"), TypeError("a bug")])
def test_watch_standalone_ended_by_error_names_remaining_changes(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    watched = Watched(monkeypatch, error)
    with pytest.raises(type(error)):
        watched.run(Service(True))
    assert watched.lines == ["left p standalone"]


def test_ctrl_c_between_two_tries_asks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pressed(Service):
        def check(self) -> tuple[str, ...]:
            raise KeyboardInterrupt

    watched = Watched(monkeypatch, UNREADABLE, answers=(EXIT_INTERRUPTED,))
    assert watched.run(Pressed(True)) == EXIT_INTERRUPTED


def test_read_without_answering_cluster_raises_command_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise kafka.errors.KafkaTimeoutError("no broker")

    monkeypatch.setattr(plan_store, "consumer", fail)
    for read in (plan_store.read_plans, plan_store.has_settings_to_restore):
        with pytest.raises(CommandError, match=r"as the cluster does not answer: KafkaTimeoutError: no broker\."):
            read(SETTINGS)


def test_pause_with_unknown_acknowledgement_says_it_is_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise UNREADABLE

    monkeypatch.setattr(plan_store, "update_plan", lambda *_, **__: PLAN.head)
    monkeypatch.setattr(plan_store, "wait_until_acknowledged", fail)
    result = orders.pause(SETTINGS, PLAN)
    assert not result.acknowledged
    assert result.text.endswith(
        "The order is on record, but it is not known whether a tuner has acknowledged it: The journal cannot be read."
    )


# -- a busy journal -------------------------------------------------------------------------------------------------------

RECORDS = [
    (part_key("c", "p", 0), encode_parts(PLAN.partitions)),
    (head_key("c", "p"), encode_head(PLAN.head)),
    *[(b"entry", b"{}")] * 5,
    (state_key("c", "p"), encode_state(PlanState(9))),
]


class FakeConsumer:
    """A consumer of a journal that was empty: each poll returns one record."""

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
        record = SimpleNamespace(key=key, value=value, offset=0, topic=self.topic, timestamp=0)
        return {f"{self.topic}-0": [record]}


def plan_reader(monkeypatch: pytest.MonkeyPatch, consumer: FakeConsumer) -> plan_store.PlanReader:
    def recover(journal: plan_store.KafkaJournal, _: object) -> None:
        journal.next_offsets, journal.orders_next_offsets = {0: 7}, {0: 2}

    monkeypatch.setattr(plan_store.KafkaJournal, "recover", recover)
    return plan_store.PlanReader(consumer, "rheostat.journal", "c")


def test_read_takes_all_new_records(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = plan_reader(monkeypatch, FakeConsumer(RECORDS)).read()
    assert [plan.state.acknowledged_at_ms for plan in stored.plans] == [9]


def test_read_ignores_tuner_records_in_the_orders_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = FakeConsumer(RECORDS)
    consumer.topic = "rheostat.orders"
    assert [plan.state for plan in plan_reader(monkeypatch, consumer).read().plans] == [PlanState()]


def test_read_starts_again_until_both_topics_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, offsets = plan_reader(monkeypatch, FakeConsumer(RECORDS)), [({}, {}), ({}, {0: 2}), ({0: 7}, {0: 2})]

    def recover(journal: plan_store.KafkaJournal, _: object) -> None:
        journal.next_offsets, journal.orders_next_offsets = offsets.pop(0)

    monkeypatch.setattr(plan_store.KafkaJournal, "recover", recover)
    assert [len(reader.read().plans) for _ in range(3)] == [0, 0, 1]


def test_read_of_a_constantly_written_journal_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_store, "_READ_S_MAX", 0.05)
    consumer = FakeConsumer([(b"entry", b"{}")], endless=True)
    assert plan_reader(monkeypatch, consumer).read().plans == ()
    assert consumer.polls > 1
