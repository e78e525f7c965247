"""Plan records: round trip, incomplete plans, and operator records that an older copy does not undo."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import (
    DesiredPlanState,
    OriginalTopic,
    PlanEnding,
    PlanHead,
    PlanPartition,
    PlanResult,
    PlanState,
    PlanThrottle,
    RequestedStep,
)
from tuner.journal.plan_book import PlanBook
from tuner.journal.plan_records import (
    PARTITIONS_PER_RECORD,
    decode_head,
    decode_state,
    encode_head,
    encode_parts,
    encode_requested,
    encode_state,
    head_key,
    part_key,
    requested_key,
    split_into_parts,
    state_key,
    tombstones,
)

HEAD = PlanHead(
    "p", "kim@desk", 5, 9, 1, DesiredPlanState.PAUSED, BatchLimits(2, 3, 4), "lee@desk", throttle=PlanThrottle(7.5),
    not_before_ms=99,
)  # fmt: skip
PARTS = {
    ("t", 0): PlanPartition((3, 4), (1, 2), 7.0, 0.5, OriginalTopic("6f1c", 3)),
    ("t|x", 1): PlanPartition((1,), (2,)),
}
ASKED = {("t", 0): RequestedStep((3, 1, 2), (1, 2), True, True, True)}
STATE = PlanState(
    9, PlanEnding.DONE, 11, {("t", 0): "gone"}, {("t", 1): "stopped"}, ("waits",), ("5 at a time",), 7, 3_000, PlanResult(2, 1, 9.0, 4.5)
)  # fmt: skip


def test_plan_records_round_trip() -> None:
    book = PlanBook("c")
    for key, value in (
        (part_key("c", "p", 0), encode_parts(PARTS)),
        (head_key("c", "p"), encode_head(HEAD)),
        (requested_key("c", "p", 0), encode_requested(ASKED)),
        (state_key("c", "p"), encode_state(STATE)),
    ):
        assert book.apply(key, value)
    (plan,) = book.plans
    assert (plan.head, plan.partitions, plan.requested, plan.state) == (HEAD, PARTS, ASKED, STATE)


def test_decode_parts_without_topics() -> None:
    book = PlanBook("c")
    book.apply(part_key("c", "p", 0), b'{"v": 3, "parts": [["t", 0, [3, 4], [1, 2], 7.0, 0.5]]}')
    book.apply(head_key("c", "p"), encode_head(HEAD))
    assert book.plans[0].partitions == {("t", 0): PlanPartition((3, 4), (1, 2), 7.0, 0.5)}


def test_decode_head_without_throttle_uses_the_ceiling() -> None:
    body = json.loads(encode_head(replace(HEAD, throttle=PlanThrottle(unthrottled=True))))
    assert body.pop("throttle") == [None, True]
    head = decode_head(json.dumps(body).encode())
    assert head.throttle == PlanThrottle()


def test_decode_head_without_a_start_begins_at_once() -> None:
    body = json.loads(encode_head(HEAD))
    assert body.pop("not_before_ms") == 99
    assert decode_head(json.dumps(body).encode()).not_before_ms == 0


@pytest.mark.parametrize("start", [-1, 10**18, "soon", None])
def test_decode_head_invalid_start_is_refused(start: object) -> None:
    body = json.loads(encode_head(HEAD)) | {"not_before_ms": start}
    with pytest.raises(ValueError, match=r"not_before_ms|malformed|invalid"):
        decode_head(json.dumps(body).encode())


@pytest.mark.parametrize("rate", [0, -5, 0.5, 1e300, float("inf"), float("nan"), "fast"])
def test_decode_head_invalid_rate_is_refused(rate: object) -> None:
    body = json.loads(encode_head(HEAD)) | {"throttle": [rate, False]}
    with pytest.raises(ValueError, match=r"throttle|malformed|invalid"):
        decode_head(json.dumps(body).encode())


def test_decode_state_without_pauses_and_result() -> None:
    body = json.loads(encode_state(STATE))
    for key in ("paused_since_ms", "paused_total_ms", "result"):
        del body[key]
    assert decode_state(json.dumps(body).encode()) == replace(STATE, paused_since_ms=0, paused_total_ms=0, result=None)


def test_plan_book_later_orders_keep_cancel_without_rollback() -> None:
    book = PlanBook("c")
    leave = replace(
        GIVEN, ordered_at_ms=20, desired=DesiredPlanState.CANCELLING, no_rollback=True, state_ordered_at_ms=20
    )
    limits = replace(GIVEN, ordered_at_ms=30, limits=BatchLimits(2))
    cancel = replace(GIVEN, ordered_at_ms=40, desired=DesiredPlanState.CANCELLING, state_ordered_at_ms=40)
    book.apply(part_key("c", "p", 0), encode_parts(PARTS))
    for head in (GIVEN, leave, limits, cancel):
        book.apply(head_key("c", "p"), encode_head(head))
    (plan,) = book.plans
    assert (plan.head.desired, plan.head.no_rollback) == (DesiredPlanState.CANCELLING, True)


def test_plan_book_large_plan_needs_all_parts() -> None:
    parts = {("t", n): PlanPartition((1,), (2,)) for n in range(2 * PARTITIONS_PER_RECORD + 1)}
    numbered = list(split_into_parts(parts))
    assert [len(some) for some in numbered] == [1000, 1000, 1]
    head = PlanHead("p", "kim@desk", 5, 5, 3)
    book = PlanBook("c")
    book.apply(head_key("c", "p"), encode_head(head))
    for number in (0, 2):
        book.apply(part_key("c", "p", number), encode_parts(numbered[number]))
        assert book.plans == ()
    book.apply(part_key("c", "p", 1), encode_parts(numbered[1]))
    assert book.plans[0].partitions == parts


def test_plan_book_ended_plan_keeps_head_and_state() -> None:
    book = PlanBook("c")
    book.apply(part_key("c", "p", 0), encode_parts(PARTS))
    book.apply(head_key("c", "p"), encode_head(HEAD))
    book.apply(state_key("c", "p"), encode_state(STATE))
    for key, value in tombstones("c", "p", 1).items():
        book.apply(key, value)
    (plan,) = book.plans
    assert (plan.is_active, plan.partitions, plan.requested) == (False, {}, {})


def test_plan_book_ignores_other_clusters_and_records() -> None:
    book = PlanBook("c")
    assert not book.apply(head_key("d", "p"), encode_head(HEAD))
    assert not book.apply(b"memory|c", b"{}")
    assert not book.apply(b"", None)
    assert book.plans == ()


def test_plan_book_ignores_the_tuners_own_records() -> None:
    book = PlanBook("c")
    book.apply(part_key("c", "p", 0), encode_parts(PARTS))
    book.apply(head_key("c", "p"), encode_head(HEAD))
    book.apply(requested_key("c", "p", 0), None)
    book.apply_operator_record(requested_key("c", "p", 0), encode_requested(ASKED))
    book.apply_operator_record(state_key("c", "p"), encode_state(STATE))
    book.apply_operator_record(part_key("c", "p", 0), None)
    (plan,) = book.plans
    assert (plan.requested, plan.state, plan.partitions) == ({}, PlanState(), PARTS)


GIVEN = PlanHead("p", "kim@desk", 5, 5, 1)
PAUSE = replace(GIVEN, ordered_at_ms=20, desired=DesiredPlanState.PAUSED, ordered_by="lee@desk", state_ordered_at_ms=20)
LIMITS = replace(GIVEN, ordered_at_ms=21, limits=BatchLimits(2), ordered_by="max@desk")


@pytest.mark.parametrize("words", [(PAUSE, LIMITS), (LIMITS, replace(PAUSE, ordered_at_ms=22, state_ordered_at_ms=22))])
def test_plan_book_merges_concurrent_orders(words: tuple[PlanHead, ...]) -> None:
    book = PlanBook("c")
    book.apply(part_key("c", "p", 0), encode_parts(PARTS))
    for head in (GIVEN, *words):
        book.apply(head_key("c", "p"), encode_head(head))
    (plan,) = book.plans
    assert (plan.head.desired, plan.head.limits, plan.head.ordered_by) == (
        DesiredPlanState.PAUSED,
        BatchLimits(2),
        "lee@desk",
    )
    assert (plan.head.ordered_at_ms, plan.head.state_ordered_at_ms) == (
        words[-1].ordered_at_ms,
        max(head.state_ordered_at_ms for head in words),
    )


def test_plan_book_head_without_state_time_is_refused() -> None:
    book = PlanBook("c")
    book.apply(part_key("c", "p", 0), encode_parts(PARTS))
    book.apply(head_key("c", "p"), encode_head(GIVEN))
    body = json.loads(encode_head(LIMITS))
    del body["state_ordered_at_ms"]
    with pytest.raises(ValueError, match="missing required field `state_ordered_at_ms`"):
        book.apply(head_key("c", "p"), json.dumps(body).encode())
    assert list(book.unreadable_plans) == ["p"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"{}", "missing required field `v`"),
        (b"[]", "Expected `object`"),
        (b"nonsense", "malformed"),
        (b'{"v": 3, "later": ' + b"[" * 100_000, "nested too deeply"),
        (encode_head(HEAD).replace(b"[2, 3, 4]", b"[0, 3, 4]"), "Expected `int` >= 1"),
        (encode_head(HEAD).replace(b'"part_records": 1', b'"part_records": 1000000000'), "part_records"),
        (encode_head(replace(HEAD, id="q")), "has the key of another plan"),
        (json.dumps({"v": 9}).encode(), "record version 9, this version of rheostat reads 3"),
    ],
)
def test_plan_book_unreadable_record_is_named(value: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        PlanBook("c").apply(head_key("c", "p"), value)


@pytest.mark.parametrize(
    ("key", "whole"),
    [
        (head_key("c", "p"), encode_head(HEAD)),
        (part_key("c", "p", 0), encode_parts(PARTS)),
        (requested_key("c", "p", 0), encode_requested(ASKED)),
        (state_key("c", "p"), encode_state(replace(STATE, ending=None))),
    ],
    ids=["head", "part", "asked", "state"],
)
def test_plan_book_unreadable_record_blocks_until_a_readable_one(key: bytes, whole: bytes | None) -> None:
    book = PlanBook("c")
    book.apply(part_key("c", "p", 0), encode_parts(PARTS))
    book.apply(head_key("c", "p"), encode_head(HEAD))
    with pytest.raises(ValueError, match="version 99"):
        book.apply(key, b'{"v": 99, "desired": "cancelling"}')
    assert book.plans == ()
    assert [plan.head for plan in book.known_plans] == [HEAD], "so that an operator can say a new word about it"
    assert "version 99" in book.unreadable_plans["p"]
    book.apply(key, whole)
    assert ([plan.id for plan in book.plans], book.unreadable_plans) == (["p"], {})


def test_plan_book_tombstone_removes_unreadable_head() -> None:
    book = PlanBook("c")
    with pytest.raises(ValueError, match="malformed"):
        book.apply_operator_record(head_key("c", "p"), b"x")
    book.apply_operator_record(head_key("c", "p"), None)
    assert book.unreadable_plans == {}


@pytest.mark.parametrize("key", [b"plan|c|p|7", b"plan-part|c|p|x", b"plan-part|c|p|999999999999", b"plan-state|c|p|0"])
def test_plan_book_unknown_key_is_ignored(key: bytes) -> None:
    book = PlanBook("c")
    assert not book.apply(key, b"nonsense")
    assert (book.unreadable_plans, book.parts_without_head) == ({}, {})


def test_plan_book_orders_plans_by_age() -> None:
    book = PlanBook("c")
    for name, given_at_ms in (("a", 30), ("b", 10), ("z", 20), ("c", 20)):
        book.apply(part_key("c", name, 0), encode_parts(PARTS))
        book.apply(head_key("c", name), encode_head(PlanHead(name, "kim@desk", given_at_ms, 40, 1)))
    assert [plan.id for plan in book.plans] == ["b", "c", "z", "a"]
