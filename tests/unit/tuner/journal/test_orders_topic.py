"""The orders topic and the journal: which records are read from and written to each, and what applies if one was emptied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from streaming.shared.contract import Side, Topics
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.operator_orders import Orders, Pause
from tuner.core.reassignment_plan import PlanHead, PlanPartition, PlanState
from tuner.journal import kafka_journal, topic_reader
from tuner.journal.entries import encode_memory, encode_owned, memory_key, owned_key
from tuner.journal.kafka_journal import KafkaJournal
from tuner.journal.order_records import encode_orders, orders_key
from tuner.journal.orders_topic import is_order, orders_topic_of
from tuner.journal.plan_records import (
    encode_head,
    encode_parts,
    encode_state,
    head_key,
    part_key,
    requested_key,
    state_key,
    tombstones,
)
from tuner.journal.topic_reader import JournalError, JournalRecord, is_in_its_topic, read_journal

TOPICS = Topics.with_prefix("rheostat")
PAUSED = Orders(7, Pause(7, "kim@desk"), by="kim@desk")
SIDE = (1, Side.LEADER)
FORGED = (owned_key("c", SIDE), encode_owned(SIDE, OwnedRate(None, 5, (5,))))
PLAN = [
    (part_key("c", "p", 0), encode_parts({("t", 0): PlanPartition((3, 4), (1, 2))})),
    (head_key("c", "p"), encode_head(PlanHead("p", "kim@desk", 1, 1, 1))),
]
Record = tuple[bytes, bytes | None]


class Reader:
    """A consumer of both topics; ``missing``: that are not there."""

    def __init__(self, *missing: str) -> None:
        self._missing = missing

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set() if topic in self._missing else {0}

    def assignment(self) -> set[Any]:
        return set()


def stands(monkeypatch: pytest.MonkeyPatch, journal: list[Record], orders: list[Record]) -> None:
    """Both topics hold these records."""
    held = {TOPICS.journal: journal, TOPICS.orders: orders}

    def read_records(reader: Reader, topic: str, read_to: object = None) -> Iterator[JournalRecord]:
        if not reader.partitions_for_topic(topic):
            raise JournalError(f"topic {topic} is not there")
        yield from (JournalRecord(key, value, offset, topic, 0) for offset, (key, value) in enumerate(held[topic]))

    monkeypatch.setattr(topic_reader, "read_records", read_records)


def recovered(
    monkeypatch: pytest.MonkeyPatch, journal: list[Record], orders: list[Record], *missing: str
) -> tuple[KafkaJournal, Memory]:
    stands(monkeypatch, journal, orders)
    read = KafkaJournal.read_only(TOPICS.journal, "c")
    reader: Any = Reader(*missing)
    return read, read.recover(reader)


def test_orders_topic_is_named_as_the_contract_names_it() -> None:
    assert orders_topic_of(TOPICS.journal) == TOPICS.orders


def test_orders_and_plans_are_read_from_their_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (state_key("c", "p"), encode_state(PlanState(9)))
    journal, _ = recovered(monkeypatch, [said], [(orders_key("c"), encode_orders(PAUSED)), *PLAN])
    assert journal.orders == PAUSED
    assert [plan.state.acknowledged_at_ms for plan in journal.plans.plans] == [9]
    assert not journal.misplaced_orders


def test_orders_topic_ignores_ownership_records(monkeypatch: pytest.MonkeyPatch) -> None:
    forged = (memory_key("c"), encode_memory(Memory(owned={SIDE: OwnedRate(None, 5, (5,))})))
    _, memory = recovered(monkeypatch, [], [FORGED, forged])
    assert memory.owned == {}
    assert recovered(monkeypatch, [FORGED], [])[1].owned.keys() == {SIDE}


def test_orders_pause_in_old_journal_holds_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    old = (orders_key("c"), encode_orders(PAUSED))
    journal, _ = recovered(monkeypatch, [old], [])
    assert journal.orders == PAUSED
    assert journal.misplaced_orders
    resumed = Orders(8, resumed_at_ms=8)
    journal, _ = recovered(monkeypatch, [old], [(orders_key("c"), encode_orders(resumed))])
    assert journal.orders == resumed
    other, _ = recovered(monkeypatch, [(orders_key("another"), encode_orders(PAUSED))], [])
    assert not other.misplaced_orders


def test_orders_acknowledged_pause_outlives_emptied_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    told = (memory_key("c"), encode_memory(Memory(recorded_orders=PAUSED)))
    journal, _ = recovered(monkeypatch, [told], [])
    assert journal.orders == PAUSED
    assert journal.superseded_orders == ()


def test_reader_without_an_orders_topic_reads_the_journal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    journal, memory = recovered(monkeypatch, [FORGED], [], TOPICS.orders)
    assert memory.owned.keys() == {SIDE}
    assert journal.orders == Orders()


def test_reader_without_a_journal_knows_current_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator may pause before the first tuner starts, which makes the journal's topic."""
    journal, memory = recovered(monkeypatch, [], [(orders_key("c"), encode_orders(PAUSED))], TOPICS.journal)
    assert (journal.orders, memory.owned) == (PAUSED, {})
    assert recovered(monkeypatch, [], [], TOPICS.journal, TOPICS.orders)[0].orders == Orders()


@pytest.mark.parametrize("missing", [TOPICS.journal, TOPICS.orders])
def test_active_tuner_needs_orders_topic_and_journal(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    stands(monkeypatch, [], [])
    producer, reader = cast(Any, object()), cast(Any, Reader(missing))
    with pytest.raises(JournalError, match=f"{missing} is not there"):
        KafkaJournal(producer, TOPICS.journal, "c").recover(reader)


def test_journal_is_read_first_then_orders_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    given = (orders_key("c"), encode_orders(PAUSED))
    stands(monkeypatch, [FORGED, given], [given, FORGED])
    reader, ends = cast(Any, Reader()), dict[str, dict[int, int]]()
    records = list(read_journal(reader, TOPICS.journal, ends=ends))
    assert [(record.topic, record.key) for record in records] == [
        (TOPICS.journal, FORGED[0]), (TOPICS.journal, given[0]), (TOPICS.orders, given[0]),
    ]  # fmt: skip
    assert [*ends] == [TOPICS.journal, TOPICS.orders]
    # A journal whose own name ends as that of an orders' topic does is still a journal.
    assert is_in_its_topic(JournalRecord(FORGED[0], b"", 0, "kim.orders", 0), "kim.orders")


def test_tuner_writes_tombstones_of_plans_into_the_orders_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, bytes, bytes | None]] = []
    monkeypatch.setattr(kafka_journal, "send_and_wait", lambda _producer, records, _s: sent.extend(records))
    producer: Any = object()
    journal = KafkaJournal(producer, TOPICS.journal, "c")
    beside = {**tombstones("c", "p", 1), head_key("c", "old"): None, state_key("c", "p"): b"{}"}
    journal.write(other_records=beside)
    assert {key: topic for topic, key, _ in sent} == {
        part_key("c", "p", 0): TOPICS.orders,
        requested_key("c", "p", 0): TOPICS.journal,
        head_key("c", "old"): TOPICS.orders,
        state_key("c", "p"): TOPICS.journal,
    }


@pytest.mark.parametrize(
    "key", [memory_key("c"), FORGED[0], requested_key("c", "p", 0), state_key("c", "p"), b"", b"plan"]
)
def test_unrelated_records_are_not_orders(key: bytes) -> None:
    assert not is_order(key)
    assert is_in_its_topic(JournalRecord(key, b"", 0, TOPICS.journal, 0), TOPICS.journal)
    assert not is_in_its_topic(JournalRecord(key, b"", 0, TOPICS.orders, 0), TOPICS.journal)


def test_journal_of_earlier_version_is_refused_with_upgrade_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    old = (memory_key("c"), b'{"v": 1, "owned": []}')
    journal, _ = recovered(monkeypatch, [old, (owned_key("c", SIDE), b'{"v": 1}')], [])
    blocked = journal.blocked
    assert blocked is not None
    assert blocked.startswith(
        "the journal rheostat.journal has records of an earlier version of rheostat: key b'memory|c'"
    )
    assert "record version 1, this version of rheostat reads 3" in blocked
    assert (
        "Let that version end its moves, or run `rheostat release` with that version. Then stop that version" in blocked
    )
    assert "docs/how-to/upgrade.md" in blocked
    assert "repair" not in blocked, "the records are not damaged"
    assert "\n" not in blocked


def test_order_of_earlier_version_is_ignored_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    old = encode_orders(PAUSED).replace(b'"v": 3', b'"v": 1')
    journal, _ = recovered(monkeypatch, [], [(orders_key("c"), old), (head_key("c", "p"), b'{"v": 1}')])
    assert (journal.orders, journal.blocked) == (Orders(), None)
    order, plan = journal.unreadable
    assert order.effect == "skipped: give the order again with this version"
    assert (
        "an earlier version of rheostat wrote this record: record version 1, this version of rheostat reads 3"
        in order.text()
    )
    assert plan.effect == "this plan is not executed: submit it again with this version"


def test_alias_with_records_of_earlier_version_names_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    journal, _ = recovered(monkeypatch, [(memory_key("old"), b'{"v": 1}')], [])
    [text] = journal.cluster_aliases.holdings_by_name().values()
    assert text == (
        "records of an earlier version of rheostat, which must end its moves first (docs/how-to/upgrade.md)"
    )
