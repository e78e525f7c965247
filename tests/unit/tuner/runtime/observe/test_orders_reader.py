"""What comes in by the orders' topic: every order of a person, and of plans what concerns who reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from streaming.shared.kafka.unpacking import RefusedBatch
from tuner.core.operator_orders import Orders, Pause
from tuner.core.reassignment_plan import PlanEnding, PlanHead, PlanPartition, PlanState
from tuner.journal.order_records import encode_orders, orders_key
from tuner.journal.plan_book import PlanBook
from tuner.journal.plan_records import (
    encode_head,
    encode_parts,
    encode_state,
    head_key,
    part_key,
    state_key,
    tombstones,
)
from tuner.runtime.observe.orders_reader import OrdersReader


@dataclass
class Record:
    key: bytes
    value: bytes | None
    partition: int = 0
    offset: int = 7


class Tail:
    def __init__(self, records: list[Record]) -> None:
        self.records = records

    def poll(self, timeout_ms: int = 0) -> Iterator[Any]:  # noqa: ARG002 - the tail's shape
        yield from self.records


@pytest.mark.parametrize("looks_on", [True, False])
def test_whoever_looks_on_hears_that_another_has_ended_a_plan(looks_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = OrdersReader(None, "orders", "c", (None, "journal"))
    reader.plans, reader.plans_whole = PlanBook("c"), looks_on
    given = [
        Record(part_key("c", "p", 0), encode_parts({("t", 0): PlanPartition((3, 4), (1, 2))})),
        Record(head_key("c", "p"), encode_head(PlanHead("p", "kim@desk", 1, 1, 1))),
    ]
    ended = Record(state_key("c", "p"), encode_state(PlanState(1, PlanEnding.DONE, 2)))
    gone = [Record(key, value) for key, value in tombstones("c", "p", 1).items()]
    monkeypatch.setattr(reader, "_journal_tail", Tail([]))
    monkeypatch.setattr(reader, "_tail", Tail(given))
    reader.follow()
    assert [plan.is_active for plan in reader.plans.plans] == [True]
    monkeypatch.setattr(reader, "_journal_tail", Tail([ended, *gone[1:]]))
    monkeypatch.setattr(reader, "_tail", Tail(gone[:1]))
    reader.follow()
    assert any(plan.is_active for plan in reader.plans.plans) is not looks_on


def test_what_stood_in_the_journal_and_comes_by_once_more_is_no_other_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever brings it by: none is given twice."""
    reader = OrdersReader(None, "orders", "c")
    pause = Orders(at_ms=1, pause=Pause(1, "kim@desk"))
    resume = Orders(at_ms=2, resumed_at_ms=2, by="lee@home")
    again = Orders(at_ms=3, pause=Pause(3, "kim@desk"))
    reader.begin_with(resume, (pause,), (pause, resume))
    records = [Record(orders_key("c"), encode_orders(order)) for order in (pause, resume, again)]
    for come in (records[:1], records[1:2]):
        monkeypatch.setattr(reader, "_tail", Tail(come))
        reader.follow()
        assert (reader.overtaken, reader.latest) == ((pause,), resume)
    monkeypatch.setattr(reader, "_tail", Tail(records[2:]))
    reader.follow()
    assert (reader.overtaken, reader.latest) == ((pause, resume), again)


def test_what_has_been_told_of_and_comes_by_once_more_is_not_in_force_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a dry run began to read, a tuner that acts told of both."""
    reader = OrdersReader(None, "orders", "c")
    pause = Orders(at_ms=1, pause=Pause(1, "kim@desk"))
    resume = Orders(at_ms=2, resumed_at_ms=2, by="lee@home")
    reader.begin_with(resume, (), (pause, resume))
    come = [Record(orders_key("c"), encode_orders(order)) for order in (pause, resume)]
    monkeypatch.setattr(reader, "_tail", Tail(come))
    reader.follow()
    assert (reader.overtaken, reader.latest) == ((), resume)


def test_an_order_that_another_overtakes_is_kept_until_somebody_has_taken_it_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = OrdersReader(None, "orders", "c")
    pause = Orders(at_ms=1, pause=Pause(1, "kim@desk"))
    resume = Orders(at_ms=2, resumed_at_ms=2, by="lee@home")
    monkeypatch.setattr(
        reader, "_tail", Tail([Record(orders_key("c"), encode_orders(order)) for order in (pause, resume)])
    )
    reader.follow()
    assert (reader.overtaken, reader.latest) == ((Orders(), pause), resume)
    reader.overtaken = ()
    monkeypatch.setattr(reader, "_tail", Tail([Record(orders_key("c"), b"no order")]))
    reader.follow()
    assert (reader.overtaken, reader.latest) == ((), resume)
    assert reader.refused.count == 1


def test_an_unreadable_head_stops_its_plan_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = OrdersReader(None, "orders", "c")
    reader.plans = PlanBook("c")
    come = [
        Record(part_key("c", "p", 0), encode_parts({("t", 0): PlanPartition((3, 4), (1, 2))})),
        Record(head_key("c", "p"), encode_head(PlanHead("p", "kim@desk", 1, 1, 1))),
        Record(head_key("c", "p"), b"[" * 100_000),
    ]
    monkeypatch.setattr(reader, "_tail", Tail(come))
    reader.follow()
    assert (reader.plans.plans, list(reader.plans.unreadable_plans), reader.refused.count) == ((), ["p"], 1)


@pytest.mark.parametrize("looks_on", [True, False])
def test_orders_topic_says_nothing_of_what_tuners_write(looks_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write orders may not say that a plan has ended."""
    reader = OrdersReader(None, "orders", "c")
    reader.plans, reader.plans_whole = PlanBook("c"), looks_on
    given = [
        Record(part_key("c", "p", 0), encode_parts({("t", 0): PlanPartition((3, 4), (1, 2))})),
        Record(head_key("c", "p"), encode_head(PlanHead("p", "kim@desk", 1, 1, 1))),
        Record(state_key("c", "p"), encode_state(PlanState(1, PlanEnding.DONE, 2))),
    ]
    monkeypatch.setattr(reader, "_tail", Tail(given))
    reader.follow()
    assert [plan.is_active for plan in reader.plans.plans] == [True]


def test_orders_in_a_refused_batch_are_unread_until_read_anew() -> None:
    refused: list[RefusedBatch] = []
    reader = OrdersReader(None, "orders", "c", refused_batches=refused)
    assert reader.unreadable() is None
    refused.append(RefusedBatch("orders", 0, 3, 5, 0, 9, "compressed with zstd"))
    assert "records 3 to 5 of orders, partition 0, are not read" in (reader.unreadable() or "")
    reader.begin({0: 6}, {})
    assert reader.unreadable() is None
