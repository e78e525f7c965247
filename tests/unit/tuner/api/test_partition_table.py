"""The partitions of a plan: states, sorting, search, paging, names of every script, 200,000 partitions."""

from __future__ import annotations

import pytest

from tuner.api.partition_table import SORTS, PartitionTable, PlanPartitionState, Sorting

T0_MS = 1_700_000_000_000
NAME = Sorting("name", is_descending=False)


def table_of(*topics: str, partitions: int = 3) -> PartitionTable:
    table = PartitionTable()
    for number, topic in enumerate(topics):
        for partition in range(partitions):
            table.plan(topic, partition, (3, 4), 1e6 * (number + 1) * (partition + 1))
    return table


def names(
    table: PartitionTable, sorting: Sorting = NAME, find: str = "", offset: int = 0, limit: int = 100
) -> list[str]:
    rows, _ = table.page(sorting, find, offset, limit)
    return [f"{row.topic}-{row.partition}" for row in rows]


def test_partition_goes_from_waiting_to_moving_to_arrived() -> None:
    table = table_of("orders")
    table.start("orders", 1, [3, 4, 5], T0_MS)
    table.start("orders", 1, [3, 4], T0_MS + 1000)  # The second step of the same partition.
    assert table.count(PlanPartitionState.MOVING) == 1
    table.end("orders", 1, PlanPartitionState.ARRIVED, T0_MS + 9000)
    row = next(row for row in table.page(NAME, "", 0, 10)[0] if row.partition == 1)
    assert row == ("orders", 1, PlanPartitionState.ARRIVED, (3, 4), 2e6, T0_MS, T0_MS + 9000)
    assert table.count(PlanPartitionState.WAITING) == 2


def test_partition_without_a_plan_record_has_no_size() -> None:
    table = PartitionTable()
    table.start("orders", 0, [1], T0_MS)
    (row,), total = table.page(NAME, "", 0, 10)
    assert (row.size_bytes, row.ended_ms, total) == (None, 0, 1)


def test_names_sort_by_topic_and_then_by_number() -> None:
    table = table_of("b", "a", partitions=12)
    assert names(table)[:3] == ["a-0", "a-1", "a-2"]
    assert names(table, offset=9, limit=3) == ["a-9", "a-10", "a-11"]
    assert names(table, Sorting("name", is_descending=True))[0] == "b-11"


def test_search_finds_topics_partitions_and_every_script() -> None:
    table = table_of("orders", "注文-ж" + "x" * 240)
    assert names(table, find="orders-2") == ["orders-2"]
    assert len(names(table, find="文")) == 3
    assert names(table, find="<img") == []
    assert table.page(NAME, "orders", 0, 1)[1] == 3


@pytest.mark.parametrize(
    "find", ["1", "-1", "a-1", "1-1", "-", "a-", "-1-", "1-10", "10", "a", "a-1-1", "--", "0-", "é-2", "x"]
)
def test_search_finds_what_the_whole_name_contains(find: str) -> None:
    table = table_of("a", "a-1", "b-1-", "1", "-", "é", partitions=23)
    assert names(table, find=find, limit=500) == [name for name in names(table, limit=500) if find in name]


def test_search_and_names_stay_while_steps_end() -> None:
    table = table_of("a", "b")
    assert names(table, find="a-")[0] == "a-0"
    table.end("a", 1, PlanPartitionState.ARRIVED, T0_MS)
    assert names(table, find="a-") == ["a-0", "a-1", "a-2"]
    assert names(table, Sorting("state", is_descending=True), find="a-")[0] == "a-1"
    table.plan("a", 3, (1,), 1.0)
    assert names(table, find="a-")[-1] == "a-3"


@pytest.mark.parametrize("by", SORTS)
def test_each_order_has_every_row_once(by: str) -> None:
    table = table_of("a", "b")
    table.start("b", 2, [1], T0_MS)
    table.end("b", 2, PlanPartitionState.ARRIVED, T0_MS + 5000)
    both = [names(table, Sorting(by, is_descending=descending)) for descending in (False, True)]
    assert sorted(both[0]) == sorted(both[1]) == sorted(names(table))
    if by in ("ended", "duration", "started", "state"):
        assert both[1][0] == "b-2"


def test_order_follows_each_change() -> None:
    table, newest = table_of("a"), Sorting("started", is_descending=True)
    assert names(table, newest)[0] == "a-0"
    table.start("a", 2, [1], T0_MS)
    assert names(table, newest)[0] == "a-2"
    table.plan("b", 0, (1,), 1.0)
    assert len(names(table)) == 4


def test_page_behind_the_last_row_is_empty() -> None:
    assert table_of("a").page(NAME, "", 10**9, 50) == ([], 3)


def test_two_hundred_thousand_partitions_are_paged_in_bounded_memory() -> None:
    table = PartitionTable()
    for number in range(200_000):
        table.plan(f"topic-{number % 500}", number // 500, (1, 2, 3), float(number % 977))
    rows, total = table.page(Sorting("size", is_descending=True), "", 100_000, 50)
    assert (len(rows), total) == (50, 200_000)
    assert len(names(table, find="topic-499-399")) == 1
    arrays = (table._topic, table._partition, table._target, table._state, table._size, table._started, table._ended)
    assert sum(each.itemsize * len(each) for each in arrays) < 200_000 * 40
