"""The state that a starting tuner reads from the journal: the newest record of each kind, and no unreadable one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tuner_cases import NOW_MS, SOURCE, TARGET, throttle

from streaming.shared.contract.quotas import QuotaEntity
from tuner.control.mutation_quota.state import OwnedQuota
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.batch_limits import BatchLimits
from tuner.core.operator_orders import Orders, Pause
from tuner.core.reassignment_plan import DesiredPlanState, PlanHead, PlanPartition, PlanState
from tuner.journal import quota_records
from tuner.journal.entries import (
    Entry,
    encode_entry,
    encode_memory,
    encode_moving,
    encode_owned,
    entry_key,
    memory_key,
    moving_key,
    owned_key,
    ring_of,
)
from tuner.journal.list_records import encode_listed, listed_key
from tuner.journal.order_records import encode_orders, orders_key
from tuner.journal.plan_records import encode_head, encode_parts, encode_state, head_key, part_key, state_key
from tuner.journal.replayed_state import ReplayedState

FIRST, NEWER = OwnedRate(None, 5, (None, 5)), OwnedRate(None, 9, (5, 9))
KIM = QuotaEntity(user="kim")
HEAD = PlanHead("p", "kim", NOW_MS, NOW_MS, 1, DesiredPlanState.RUNNING, BatchLimits(), "kim", NOW_MS)


def taken(*records: tuple[bytes, bytes | None]) -> ReplayedState:
    found = ReplayedState("c")
    for key, value in records:
        found.apply(key, value)
    return found


def test_replayed_state_empty_journal_is_empty() -> None:
    found = taken()
    assert (found.memory, found.orders, found.plans.plans) == (Memory(), Orders(), ())
    assert set(found.seqs.values()) == {0}


def test_replayed_state_newer_records_update_the_memory() -> None:
    memory = Memory(owned={SOURCE: FIRST, TARGET: FIRST}, moving_replicas={("t", 0): frozenset({1})}, cleared_at_ms=7)
    found = taken(
        (memory_key("c"), encode_memory(memory)),
        (owned_key("c", SOURCE), encode_owned(SOURCE, NEWER)),
        (moving_key("c", "t"), encode_moving("t", {1: frozenset({2, 3})})),
        (listed_key("c", "t"), encode_listed("t", throttle([(0, 1)]))),
    )
    assert found.memory == replace(
        memory,
        owned={SOURCE: NEWER, TARGET: FIRST},
        moving_replicas={("t", 0): frozenset({1}), ("t", 1): frozenset({2, 3})},
        listed={"t": throttle([(0, 1)])},
    )


def test_replayed_state_later_memory_replaces_records() -> None:
    memory = Memory(owned={TARGET: FIRST})
    found = taken(
        (owned_key("c", SOURCE), encode_owned(SOURCE, NEWER)),
        (memory_key("c"), encode_memory(memory)),
    )
    assert found.memory == memory


def test_replayed_state_has_orders_quotas_and_plans() -> None:
    orders = Orders(5, Pause(NOW_MS, "kim"))
    quota = OwnedQuota(None, 3.0, (None, 3.0))
    found = taken(
        (orders_key("c"), encode_orders(orders)),
        (quota_records.owned_key("c", KIM), quota_records.encode_owned(KIM, quota)),
        (part_key("c", "p", 0), encode_parts({("t", 0): PlanPartition((3,), (1,))})),
        (head_key("c", "p"), encode_head(HEAD)),
    )
    assert found.orders == orders
    assert found.quotas.owned == {KIM: quota}
    assert [plan.id for plan in found.plans.plans] == ["p"]


def test_replayed_state_unacknowledged_orders_include_superseded_ones() -> None:
    first, pause, resume = Orders(5), Orders(6, Pause(6, "kim")), Orders(7, resumed_at_ms=7)
    memory = memory_key("c"), encode_memory(Memory(recorded_orders=first))
    given = [(orders_key("c"), encode_orders(orders)) for orders in (first, pause, resume)]
    found = taken(given[0], memory, given[1], given[2])
    assert (found.superseded_orders, found.orders) == ((pause,), resume)
    found = taken(given[0], given[1], memory, given[2])  # Given before the first was told, and not seen by then.
    assert (found.superseded_orders, found.orders) == ((pause,), resume)
    found = taken(*given, (memory_key("c"), encode_memory(Memory(recorded_orders=resume))))
    assert (found.superseded_orders, found.orders) == ((), resume)
    found = taken(given[2], memory)  # Compacted: the newest is always there.
    assert (found.superseded_orders, found.orders) == ((), resume)


def test_replayed_state_old_memory_finds_acknowledged_orders() -> None:
    """A rheostat of then had acknowledged the second; what it was is no news, and what came after it is."""
    first, acknowledged, paused, resumed = Orders(5), Orders(6, Pause(6, "kim")), Orders(4, Pause(8, "lee")), Orders(9)
    memory = memory_key("c"), encode_memory(Memory(recorded_orders=Orders(6)))
    given = [(orders_key("c"), encode_orders(orders)) for orders in (first, acknowledged, paused, resumed)]
    found = taken(*given, memory)
    assert found.whole_memory.recorded_orders == acknowledged
    assert (found.superseded_orders, found.orders) == ((paused,), resumed), "in the order of records, not of clocks"
    found = taken(given[3], memory)
    assert (found.whole_memory.recorded_orders, found.superseded_orders) == (Orders(6), ())


def test_replayed_state_same_time_orders_are_distinguished() -> None:
    first, second = Orders(5, Pause(5, "kim")), Orders(5, Pause(5, "lee"))
    given = [(orders_key("c"), encode_orders(orders)) for orders in (first, second)]
    for told, overtaken in ((first, ()), (second, ())):
        found = taken(*given, (memory_key("c"), encode_memory(Memory(recorded_orders=told))))
        assert (found.whole_memory.recorded_orders, found.superseded_orders, found.orders) == (told, overtaken, second)


def test_replayed_state_names_the_memory_writer() -> None:
    assert taken().memory_writer == ""
    by = [(memory_key("c"), encode_memory(Memory(), holder)) for holder in ("one:1", "other:2")]
    assert taken(*by).memory_writer == "other:2"
    newer = owned_key("c", SOURCE), encode_owned(SOURCE, NEWER)
    assert taken(by[0], newer, (memory_key("d"), by[1][1])).memory_writer == "one:1"
    body = json.loads(by[0][1])
    del body["holder"]
    assert taken((memory_key("c"), json.dumps(body).encode())).memory_writer == "", "of before that was kept"


def test_replayed_state_tombstone_removes_its_key() -> None:
    quota = OwnedQuota(None, 3.0, (None, 3.0))
    found = taken(
        (quota_records.owned_key("c", KIM), quota_records.encode_owned(KIM, quota)),
        (quota_records.owned_key("c", KIM), None),
        (part_key("c", "p", 0), encode_parts({("t", 0): PlanPartition((3,), (1,))})),
        (head_key("c", "p"), encode_head(HEAD)),
        (part_key("c", "p", 0), None),
    )
    assert (found.quotas.owned, found.plans.plans) == ({}, ())


def test_replayed_state_ignores_other_clusters() -> None:
    found = taken(
        (memory_key("d"), encode_memory(Memory(owned={SOURCE: FIRST}))),
        (owned_key("d", SOURCE), encode_owned(SOURCE, FIRST)),
        (orders_key("d"), encode_orders(Orders(5, Pause(NOW_MS, "kim")))),
        (head_key("d", "p"), encode_head(HEAD)),
        (state_key("d", "p"), encode_state(PlanState())),
    )
    assert (found.memory, found.orders, found.plans.plans) == (Memory(), Orders(), ())


def test_replayed_state_continues_seq_of_each_ring() -> None:
    entry = Entry(NOW_MS, "decision", "hold", "watching", "text", {})
    ring = ring_of(entry)
    found = taken(*((entry_key(ring, "c", seq), encode_entry(replace(entry, seq=seq))) for seq in (41, 43, 42)))
    assert found.seqs[ring] == 43
    assert [seq for name, seq in found.seqs.items() if name != ring] == [0, 0, 0]


UNREADABLE = {
    "version": b'{"v": 99}',
    "infinite": b'{"v": 3, "at_ms": 1, "pause": null, "resumed_at_ms": 0, "overrides": [[1, "leader", Infinity, 2, "k"]]}',
    "nested": b"[" * 100_000,
    "huge": b'{"v": 3, "at_ms": 1' + b"0" * 400 + b"}",
}
BLOCKS = (
    memory_key("c"), owned_key("c", SOURCE), moving_key("c", "t"), listed_key("c", "t"), quota_records.state_key("c"),
    quota_records.owned_key("c", KIM),
)  # fmt: skip


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("key", [*BLOCKS, orders_key("c"), state_key("c", "p"), head_key("c", "p")])
def test_replayed_state_unreadable_record_blocks_if_it_holds_ownership(key: bytes, value: bytes) -> None:
    found = ReplayedState("c")
    found.apply(key, value, 7)
    (each,) = found.unreadable.values()
    assert (each.key, each.offset, each.size, each.blocks) == (key, 7, len(value), key in BLOCKS)
    assert (found.memory_if_known is None) == (key in BLOCKS)
    assert f"key {key!r}, partition 0, offset 7, {len(value)} bytes (" in each.text()


def test_replayed_state_orders_hold_until_the_next_readable_record() -> None:
    paused, resumed = Orders(5, pause=Pause(5, "kim")), Orders(9, resumed_at_ms=9)
    found = taken((orders_key("c"), encode_orders(paused)), (orders_key("c"), UNREADABLE["infinite"]))
    assert (found.orders, len(found.unreadable)) == (paused, 1)
    found.apply(orders_key("c"), encode_orders(resumed))
    assert (found.orders, found.unreadable) == (resumed, {})


def test_replayed_state_memory_replaces_unreadable_records() -> None:
    found = taken(*((key, b"nonsense") for key in BLOCKS[:4]))
    assert len(found.unreadable) == 4
    found.apply(memory_key("c"), encode_memory(Memory(owned={SOURCE: FIRST})))
    assert (found.unreadable, found.memory_if_known) == ({}, Memory(owned={SOURCE: FIRST}))
    found.apply(owned_key("c", SOURCE), b"nonsense")
    assert found.memory_if_known is None


def test_replayed_state_tombstone_replaces_unreadable_record() -> None:
    found = taken(*((key, b"nonsense") for key in BLOCKS), *((key, None) for key in BLOCKS))
    assert found.unreadable == {}


def test_replayed_state_unreadable_plan_does_not_block() -> None:
    found = taken((head_key("c", "p"), b'{"v": 99}'), (memory_key("c"), encode_memory(Memory(owned={SOURCE: FIRST}))))
    assert list(found.plans.unreadable_plans) == ["p"]
    assert found.memory.owned == {SOURCE: FIRST}
