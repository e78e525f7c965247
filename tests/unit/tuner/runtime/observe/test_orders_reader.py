"""Orders and plans from the orders topic, and plan endings from the journal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from streaming.shared.kafka.unpacking import UnreadableBatch
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

    def poll(self, timeout_ms: int = 0) -> Iterator[Any]:  # noqa: ARG002 - the signature of a tail
        yield from self.records


@pytest.mark.parametrize("observes", [True, False])
def test_observing_tuner_learns_plan_endings_from_journal(observes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = OrdersReader(None, "orders", "c", (None, "journal"))
    reader.plans, reader.reads_executor_records = PlanBook("c"), observes
    plan_records = [
        Record(part_key("c", "p", 0), encode_parts({("t", 0): PlanPartition((3, 4), (1, 2))})),
        Record(head_key("c", "p"), encode_head(PlanHead("p", "kim@desk", 1, 1, 1))),
    ]
    ended = Record(state_key("c", "p"), encode_state(PlanState(1, PlanEnding.DONE, 2)))
    tombstone_records = [Record(key, value) for key, value in tombstones("c", "p", 1).items()]
    monkeypatch.setattr(reader, "_journal_tail", Tail([]))
    monkeypatch.setattr(reader, "_tail", Tail(plan_records))
    reader.follow()
    assert [plan.is_active for plan in reader.plans.plans] == [True]
    monkeypatch.setattr(reader, "_journal_tail", Tail([ended, *tombstone_records[1:]]))
    monkeypatch.setattr(reader, "_tail", Tail(tombstone_records[:1]))
    reader.follow()
    assert any(plan.is_active for plan in reader.plans.plans) is not observes


def test_order_known_from_journal_is_not_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tail may return records that the reader already knows from the journal."""
    reader = OrdersReader(None, "orders", "c")
    pause = Orders(at_ms=1, pause=Pause(1, "kim@desk"))
    resume = Orders(at_ms=2, resumed_at_ms=2, by="lee@home")
    again = Orders(at_ms=3, pause=Pause(3, "kim@desk"))
    reader.set_earlier_orders(resume, (pause,), (pause, resume))
    records = [Record(orders_key("c"), encode_orders(order)) for order in (pause, resume, again)]
    for part in (records[:1], records[1:2]):
        monkeypatch.setattr(reader, "_tail", Tail(part))
        reader.follow()
        assert (reader.superseded, reader.latest) == ((pause,), resume)
    monkeypatch.setattr(reader, "_tail", Tail(records[2:]))
    reader.follow()
    assert (reader.superseded, reader.latest) == ((pause, resume), again)


def test_acknowledged_order_read_again_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a dry run began to read, the active tuner acknowledged both orders."""
    reader = OrdersReader(None, "orders", "c")
    pause = Orders(at_ms=1, pause=Pause(1, "kim@desk"))
    resume = Orders(at_ms=2, resumed_at_ms=2, by="lee@home")
    reader.set_earlier_orders(resume, (), (pause, resume))
    records = [Record(orders_key("c"), encode_orders(order)) for order in (pause, resume)]
    monkeypatch.setattr(reader, "_tail", Tail(records))
    reader.follow()
    assert (reader.superseded, reader.latest) == ((), resume)


def test_superseded_orders_are_kept_until_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = OrdersReader(None, "orders", "c")
    pause = Orders(at_ms=1, pause=Pause(1, "kim@desk"))
    resume = Orders(at_ms=2, resumed_at_ms=2, by="lee@home")
    monkeypatch.setattr(
        reader, "_tail", Tail([Record(orders_key("c"), encode_orders(order)) for order in (pause, resume)])
    )
    reader.follow()
    assert (reader.superseded, reader.latest) == ((Orders(), pause), resume)
    reader.superseded = ()
    monkeypatch.setattr(reader, "_tail", Tail([Record(orders_key("c"), b"no order")]))
    reader.follow()
    assert (reader.superseded, reader.latest) == ((), resume)
    assert reader.refused.count == 1


def test_an_unreadable_head_stops_its_plan_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = OrdersReader(None, "orders", "c")
    reader.plans = PlanBook("c")
    records = [
        Record(part_key("c", "p", 0), encode_parts({("t", 0): PlanPartition((3, 4), (1, 2))})),
        Record(head_key("c", "p"), encode_head(PlanHead("p", "kim@desk", 1, 1, 1))),
        Record(head_key("c", "p"), b"[" * 100_000),
    ]
    monkeypatch.setattr(reader, "_tail", Tail(records))
    reader.follow()
    assert (reader.plans.plans, list(reader.plans.unreadable_plans), reader.refused.count) == ((), ["p"], 1)


@pytest.mark.parametrize("observes", [True, False])
def test_plan_ending_in_orders_topic_is_ignored(observes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator may write orders, but only a tuner may end a plan."""
    reader = OrdersReader(None, "orders", "c")
    reader.plans, reader.reads_executor_records = PlanBook("c"), observes
    plan_records = [
        Record(part_key("c", "p", 0), encode_parts({("t", 0): PlanPartition((3, 4), (1, 2))})),
        Record(head_key("c", "p"), encode_head(PlanHead("p", "kim@desk", 1, 1, 1))),
        Record(state_key("c", "p"), encode_state(PlanState(1, PlanEnding.DONE, 2))),
    ]
    monkeypatch.setattr(reader, "_tail", Tail(plan_records))
    reader.follow()
    assert [plan.is_active for plan in reader.plans.plans] == [True]


def test_orders_in_a_refused_batch_are_unread_until_read_anew() -> None:
    refused: list[UnreadableBatch] = []
    reader = OrdersReader(None, "orders", "c", unreadable_batches=refused)
    assert reader.unreadable() is None
    refused.append(UnreadableBatch("orders", 0, 3, 5, 0, 9, "compressed with zstd"))
    assert "records 3 to 5 of orders, partition 0, are not read" in (reader.unreadable() or "")
    reader.begin({0: 6}, {})
    assert reader.unreadable() is None
