"""Journal records survive encoding and decoding; an unreadable record is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuner_cases import NOW_MS, SOURCE, F, L, owned

from streaming.shared.contract import Side
from streaming.shared.contract.bounds import TIMESTAMP_MS_MAX
from tuner.control.throttle.decision import (
    ClearLists,
    Decision,
    Hold,
    Reason,
    Relinquish,
    RestoreRate,
    SetRate,
)
from tuner.control.throttle.state import Memory, OwnedRate, StallState
from tuner.core.operator_orders import Orders, Pause
from tuner.core.throttle_limits import MB
from tuner.journal.bodies import DecisionFieldsBody
from tuner.journal.entries import (
    RING,
    Entry,
    decode_memory,
    decode_moving,
    decode_owned,
    encode_entry,
    encode_memory,
    encode_moving,
    encode_owned,
    entry_key,
    entry_of,
    entry_or_none,
    memory_key,
    moving_key,
    owned_key,
    ring_of,
    seq_of,
    steering_entry,
)

BYTES = st.integers(0, 2**63 - 1)
TIMES = st.integers(0, TIMESTAMP_MS_MAX)
SIDES = st.tuples(st.integers(0, 100_000), st.sampled_from(list(Side)))
OWNED = st.builds(OwnedRate, st.none() | BYTES, BYTES, st.lists(BYTES, max_size=30).map(tuple), st.none() | BYTES)
BROKERS = st.frozensets(st.integers(0, 100_000), max_size=6)
MEMORIES = st.builds(
    Memory,
    rescued=BROKERS,
    owned=st.dictionaries(SIDES, OWNED, max_size=8),
    externally_owned_until_ms=st.dictionaries(SIDES, TIMES, max_size=8),
    moving_replicas=st.dictionaries(st.tuples(st.text(max_size=20), st.integers(0, 10**6)), BROKERS, max_size=8),
    throttled=st.booleans(),
    preexisting_rates=st.dictionaries(SIDES, BYTES, max_size=8),
    recorded_orders=st.builds(
        Orders, at_ms=TIMES, pause=st.none() | st.builds(Pause, TIMES, st.text(max_size=20), st.booleans())
    ),
    orders_recorded_until_ms=st.none() | TIMES,
    predecessor_writes=st.dictionaries(SIDES, st.lists(st.none() | BYTES, max_size=3).map(tuple), max_size=4),
    predecessor_writes_until_ms=TIMES,
)
DIGEST_KEYS = frozenset(DecisionFieldsBody.__struct_fields__)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ENTRIES = st.builds(
    Entry,
    at_ms=TIMES,
    kind=st.sampled_from(["decision", "intent", "steering", "outcome"]),
    action=st.text(max_size=12),
    reason=st.sampled_from([r.value for r in Reason]),
    text=st.text(),
    # The values of these keys have types of their own, so arbitrary JSON would be refused.
    decision=st.dictionaries(st.text().filter(lambda key: key not in DIGEST_KEYS), JSON, max_size=4),
    inputs=st.dictionaries(st.text(), JSON, max_size=4),
    failure=st.none() | st.text(),
    dry_run=st.booleans(),
    seq=st.integers(0, 2**53),
)


ENTRY = b'{"v": 3, "at_ms": 5, "kind": "decision", "action": "hold", "reason": "watching", "text": "t"}'


@given(MEMORIES)
def test_memory_record_round_trip(memory: Memory) -> None:
    assert decode_memory(encode_memory(memory)) == memory


def test_decode_memory_without_orders_keeps_their_time() -> None:
    before = changed(encode_memory(Memory(orders_at_ms=7)), recorded_orders=...)
    assert decode_memory(before) == Memory(orders_at_ms=7, recorded_orders=Orders(7))


def test_encode_memory_omits_stall_state() -> None:
    memory = Memory(stalls={3: StallState(lost_s=9.0)}, idle_snapshots=1, owned={SOURCE: owned(None, 5 * MB)})
    assert decode_memory(encode_memory(memory)) == Memory(owned=memory.owned)


@given(ENTRIES)
def test_entry_record_round_trip(entry: Entry) -> None:
    assert entry_or_none(encode_entry(entry)) == entry


def changed(value: bytes, **changes: Any) -> bytes:
    return json.dumps({key: v for key, v in (json.loads(value) | changes).items() if v is not ...}).encode()


@pytest.mark.parametrize("version", [0, 1, 2, "3", None, ...])
def test_decode_other_version_is_refused(version: Any) -> None:
    with pytest.raises(ValueError, match="version"):
        decode_memory(changed(encode_memory(Memory()), v=version))
    entry = entry_of("decision", Hold(None, None, Reason.WATCHING, ""), NOW_MS)
    assert entry_or_none(changed(encode_entry(entry), v=version)) is None


def test_decode_memory_refusal_names_both_versions() -> None:
    with pytest.raises(ValueError, match="record version 7, this version of rheostat reads 3"):
        decode_memory(changed(encode_memory(Memory()), v=7))


@pytest.mark.parametrize(
    "field", ["owned", "externally_owned_until_ms", "moving_replicas", "rescued", "throttled", "preexisting_rates"]
)
def test_decode_memory_missing_field_is_refused(field: str) -> None:
    """To act without knowing what is ours would be to forget it."""
    with pytest.raises(ValueError, match=f"missing required field `{field}`"):
        decode_memory(changed(encode_memory(Memory()), **{field: ...}))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"not json",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"7",
        b"[" * 100_000,
        changed(encode_memory(Memory()), cleared_at_ms=10**400),
        changed(encode_memory(Memory()), listed=[["t", "0:x", ""]]),
        changed(encode_memory(Memory()), owned=[[1, "leader", None, -5, []]]),
        changed(encode_memory(Memory()), owned=[[1, "leader", "5", 5, []]]),
        changed(encode_memory(Memory()), owned=[[1, "leader", None]]),
        changed(encode_memory(Memory()), owned=[[1, "sideways", None, 5, [5]]]),
        changed(encode_memory(Memory()), owned=7),
        changed(encode_memory(Memory()), moving_replicas=[["t", 0, 3]]),
    ],
)
def test_decode_memory_malformed_record_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_memory(value)


@pytest.mark.parametrize(
    "value",
    [
        b"", b"not json", b"\xff\xfe", b"null", b"[]", b"7", b"{}", b'{"v": 3}', b'{"v": 3, "at_ms": 1, "new": 2}',
        b"[" * 100_000, ENTRY[:-1] + b', "inputs": {"deep": ' + b"[" * 40 + b"]" * 40 + b"}}", ENTRY.replace(b"5", b"1e999"),
    ],
)  # fmt: skip
def test_decode_entry_malformed_record_is_none(value: bytes) -> None:
    assert entry_or_none(value) is None


def test_seq_of_too_large_number_is_none() -> None:
    assert seq_of(ENTRY[:-1] + b', "seq": 9999999999999999999}') is None


DECISIONS: list[tuple[Decision, str]] = [
    (Hold(None, None, Reason.CLUSTER_NOT_SEEN, "a"), "hold"),
    (SetRate(1, L, 5 * MB, 20 * MB, Reason.STALLED_THROTTLE_BOUND, "b"), "set"),
    (RestoreRate(1, L, 20 * MB, None, Reason.MOVE_ENDED, "c"), "restore"),
    (ClearLists("orders", (L, F), Reason.MOVE_ENDED, "d"), "clear_lists"),
    (Relinquish(1, L, 5 * MB, None, NOW_MS, Reason.EXTERNAL_CHANGE, "e"), "relinquish"),
]


@pytest.mark.parametrize(("decision", "action"), DECISIONS)
def test_entry_of_every_decision_is_recorded(decision: Decision, action: str) -> None:
    entry = entry_of("intent", decision, NOW_MS, inputs={"w": 6.0}, failure="no right", dry_run=True)
    assert (entry.kind, entry.action, entry.reason, entry.text) == (
        "intent",
        action,
        decision.reason.value,
        decision.text,
    )
    read = entry_or_none(encode_entry(entry))
    assert read is not None
    assert (read.at_ms, read.inputs, read.failure, read.dry_run) == (NOW_MS, {"w": 6.0}, "no right", True)
    assert read.decision["text"] == decision.text


def test_keys_repeat_in_ring_and_separate_clusters() -> None:
    assert entry_key("entry", "lab", 7) == b"entry|lab|7"
    assert entry_key("entry", "lab", RING + 7) == entry_key("entry", "lab", 7)
    assert entry_key("entry", "lab", 7) != entry_key("entry", "prod", 7)
    assert memory_key("lab") == b"memory|lab"
    assert owned_key("lab", SOURCE) == b"owned|lab|1|leader"


@given(OWNED)
def test_owned_record_round_trip(ours: OwnedRate) -> None:
    assert decode_owned(encode_owned(SOURCE, ours)) == (SOURCE, ours)


def test_moving_record_round_trip() -> None:
    assert moving_key("lab", "orders") == b"seen|lab|orders"
    seen = {0: frozenset({1, 2, 3}), 7: frozenset({4})}
    assert decode_moving(encode_moving("orders", seen)) == {("orders", 0): {1, 2, 3}, ("orders", 7): {4}}


@pytest.mark.parametrize(
    ("decode", "value"),
    [
        *((decode, value) for decode in (decode_owned, decode_moving) for value in (b"", b"7", b"{}")),
        (decode_owned, b'{"v": 9, "owned": []}'),
        (decode_owned, b'{"v": 3, "owned": [1, "leader"]}'),
        (decode_moving, b'{"v": 9, "topic": "t", "moving_replicas": []}'),
        (decode_moving, b'{"v": 3, "topic": "t", "moving_replicas": [[0, 3]]}'),
    ],
)
def test_decode_side_and_topic_malformed_record_is_refused(decode: Callable[[bytes], object], value: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode(value)


def test_steering_entry_is_one_record_in_its_own_ring() -> None:
    changes = [SetRate(b, L, 5 * MB, 6 * MB, Reason.FOLLOWS_CLIENTS, f"broker {b}") for b in range(1, 6)]
    entry = steering_entry(changes, NOW_MS)
    assert ring_of(entry) == "steering"
    assert entry.text == "broker 1; broker 2; broker 3; and 2 more"
    assert entry.decision["rates"][4] == [5, "leader", 5 * MB, 6 * MB]
    assert entry_or_none(encode_entry(entry)) == entry
    assert ring_of(entry_of("intent", changes[0], NOW_MS)) == "entry"
    assert entry_key("steering", "lab", 7) != entry_key("entry", "lab", 7)


@given(st.integers(0, 10**12), st.text(max_size=60))
def test_seq_of_reads_number_without_decoding_the_rest(seq: int, text: str) -> None:
    found = Entry(1, "outcome", "set", "why", text, failure=text + '"seq": 7}', seq=seq)
    assert seq_of(encode_entry(found)) == seq
    other = json.dumps(dict(reversed(json.loads(encode_entry(found)).items()))).encode()
    assert seq_of(other) == seq, "of any writer"


@pytest.mark.parametrize("value", [b"", b"null", b'{"v": 99, "seq": "7"}', b'"seq": x}'])
def test_seq_of_malformed_record_is_none(value: bytes) -> None:
    assert seq_of(value) is None
