"""Managed list entries in the journal: round trip, records without them, and the size of an entry."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuner_cases import NOW_MS, throttle

from tuner.control.throttle.decision import AddPairs, Reason, RemovePairs
from tuner.control.throttle.state import Memory
from tuner.journal.entries import decode_memory, encode_entry, encode_memory, entry_or_none, lists_entry
from tuner.journal.list_records import decode_listed, encode_listed, listed_key, listed_prefix, split_into_records

PAIRS = st.frozensets(st.tuples(st.integers(0, 10**6), st.integers(0, 10**5)), max_size=8)
LISTS = st.builds(throttle, PAIRS, PAIRS)


@given(st.dictionaries(st.text(max_size=20), LISTS, max_size=5))
def test_memory_record_keeps_managed_lists(listed: dict[str, object]) -> None:
    memory = Memory(listed=listed, cleared_at_ms=7)  # type: ignore[arg-type]
    assert decode_memory(encode_memory(memory)) == memory


def test_decode_memory_without_lists_manages_none() -> None:
    body = json.loads(encode_memory(Memory(listed={"orders": throttle([(0, 1)])})))
    del body["listed"], body["cleared_at_ms"]
    assert decode_memory(json.dumps(body).encode()) == Memory()


@given(st.text(max_size=20), LISTS)
def test_listed_record_round_trip(topic: str, pairs: object) -> None:
    assert decode_listed(encode_listed(topic, pairs)) == (topic, pairs)  # type: ignore[arg-type]
    assert listed_key("lab", topic).startswith(listed_prefix("lab"))


@pytest.mark.parametrize(
    "value",
    [b"{}", b"[]", b'{"v": 9, "listed": ["a", "", ""]}', b'{"v": 3}', b'{"v": 3, "listed": ["a"]}', b"nothing"],
)
def test_decode_listed_malformed_record_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"version|not a record|not enough values|Expecting value"):
        decode_listed(value)


def change(topic: str, pairs: int, reason: Reason = Reason.IN_SYNC) -> RemovePairs:
    return RemovePairs(topic, tuple((p, 1) for p in range(pairs)), (), reason, f"topic {topic}")


def test_lists_entry_names_the_first_topics() -> None:
    entry = lists_entry("outcome", [change(t, 1) for t in "abcde"], NOW_MS, failures={"b": "busy", "e": "gone"})
    assert (entry.kind, entry.action, entry.reason) == ("outcome", "remove_pairs", "in_sync")
    assert entry.text == "topic a; topic b; topic c; and 2 more topics"
    assert entry.decision["topics"][0] == ["a", "0:1", ""]
    assert entry.failure == "topic b: busy; topic e: gone"
    assert entry_or_none(encode_entry(entry)) == entry


def test_split_into_records_by_size_and_kind() -> None:
    add = AddPairs("z", ((0, 1),), (), Reason.MOVE_FOUND, "")
    changes: list[AddPairs | RemovePairs] = [
        change("a", 15_000),
        change("b", 5_000),
        change("c", 1),
        change("d", 1, Reason.ISR_RECOVERY),
        add,
    ]
    assert [[c.topic for c in some] for some in split_into_records(changes)] == [["a", "b"], ["c"], ["d"], ["z"]]
    assert list(split_into_records([])) == []
    assert [len(some) for some in split_into_records([change("a", 30_000), change("b", 1)])] == [1, 1]
