"""Any bytes in topics and files are read as a valid value or refused with the one documented error."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hostile import NESTED, records
from hypothesis import example, given, settings
from hypothesis import strategies as st
from replay_rig import FilmedRig
from tuner_cases import NOW_MS, SOURCE, broker_signal, move_signal, throttle

from streaming.shared.contract import (
    ContractError,
    ControllerSignal,
    TenantSignal,
    decode_signal,
    encode_signal,
)
from streaming.shared.contract.quotas import QuotaEntity
from tuner.api.decision_rows import decision_json
from tuner.api.decisions import DecisionFilter, DecisionStore
from tuner.control.log_dir.model import LogDirMemory
from tuner.control.mutation_quota.state import LearnedCost, MutationMemory, OwnedQuota, TotalRate
from tuner.control.throttle.objective import Objective
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.operator_orders import Orders, Override, Pause, QuotaTrial, QuotaTrialKind
from tuner.core.presence import TunerMode, TunerPresence
from tuner.core.reassignment_plan import (
    OriginalTopic,
    PlanEnding,
    PlanHead,
    PlanPartition,
    PlanResult,
    PlanState,
    RequestedStep,
)
from tuner.journal import (
    entries,
    list_records,
    log_dir_records,
    order_records,
    plan_records,
    presence_records,
    quota_records,
)
from tuner.journal.entries import Entry
from tuner.journal.plan_book import PlanBook
from tuner.journal.replayed_state import ReplayedState
from tuner.planning.plan_file import PlanFile, parse_current
from tuner.planning.plan_json import PlanFileError
from tuner.replay.recording import MissedSteps, decode_chunk, recorded_steps
from tuner.replay.replayer import NotReplayable, Replayer

EXAMPLES = 30
KIM = QuotaEntity(user="kim")


@dataclass(frozen=True)
class Kind:
    key: bytes
    whole: bytes
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes | None]


def _seen_again(found: dict[tuple[str, int], frozenset[int]]) -> bytes:
    topic = next((topic for topic, _ in found), "")
    return entries.encode_moving(topic, {partition: brokers for (_, partition), brokers in found.items()})


OWNED = OwnedRate(5, 9, (5, None, 9), 5)
ORDERS = Orders(
    NOW_MS,
    Pause(NOW_MS, "kim", released=True),
    5,
    {SOURCE: Override(5, NOW_MS, "kim"), (3, SOURCE[1]): Override(9, 1, "")},
    "lee",
    trials={QuotaTrialKind.CALIBRATE: QuotaTrial(QuotaTrialKind.CALIBRATE, 5, NOW_MS, "lee", 36.5)},
)
MEMORY = Memory(
    owned={SOURCE: OWNED}, externally_owned_until_ms={SOURCE: NOW_MS}, moving_replicas={("t", 0): frozenset({1, 2})}, rescued=frozenset({3}),
    throttled=True, preexisting_rates={SOURCE: 5}, preexisting_lists=frozenset({"t"}), idle_lists=frozenset({"u"}),
    brokers_to_clear=frozenset({4}), orders_at_ms=5, recorded_orders=ORDERS, orders_recorded_until_ms=5, cleared_at_ms=5, predecessor_writes={SOURCE: (5, None)},
    predecessor_writes_until_ms=5, listed={"t": throttle([(0, 1)], [(0, 3)])},
)  # fmt: skip
LOG_DIRS = LogDirMemory(owned={3: OwnedRate(None, 9, (None, 9))}, externally_owned_until_ms={3: 5})
QUOTAS = MutationMemory(
    TotalRate(5.0, 5, 5, 5.0, 5),
    LearnedCost(1.0, 1.0, 2.0, 0.1, 3),
    externally_owned_until_ms={KIM: NOW_MS},
    idle_baselines_ms={"idle": 1.0},
    orders_at_ms=5,
)
STATE = PlanState(
    5, PlanEnding.DONE, 6, {("t", 0): "gone"}, {("t", 1): "left"}, ("waits",), ("5 at a time",), 7, 8, PlanResult(2, 1, 9.0, 4.5)
)  # fmt: skip
ENTRY = Entry(
    NOW_MS, "intent", "set", "why", "text", {"broker": 1, "rates": [[1, "leader", 5, 6]]}, {"w": 6.0}, "no", True, 7
)  # fmt: skip
JOURNAL = {
    "memory": Kind(entries.memory_key("c"), entries.encode_memory(MEMORY, "h"), entries.decode_memory, entries.encode_memory),
    "owned": Kind(
        entries.owned_key("c", SOURCE), entries.encode_owned(SOURCE, OWNED), entries.decode_owned,
        lambda found: entries.encode_owned(*found),
    ),
    "seen": Kind(
        entries.moving_key("c", "t"), entries.encode_moving("t", {0: frozenset({1, 2})}), entries.decode_moving,
        _seen_again,
    ),
    "listed": Kind(
        list_records.listed_key("c", "t"), list_records.encode_listed("t", throttle([(0, 1)])), list_records.decode_listed,
        lambda found: list_records.encode_listed(*found),
    ),
    "orders": Kind(
        order_records.orders_key("c"), order_records.encode_orders(ORDERS), order_records.decode_orders,
        order_records.encode_orders,
    ),
    "quota": Kind(
        quota_records.owned_key("c", KIM), quota_records.encode_owned(KIM, OwnedQuota(5.0, 9.0, (5.0, None))) or b"",
        quota_records.decode_owned, lambda found: quota_records.encode_owned(*found),
    ),
    "quotas": Kind(
        quota_records.state_key("c"), quota_records.encode_state(QUOTAS), quota_records.decode_state, quota_records.encode_state
    ),
    "log-dir": Kind(
        log_dir_records.log_dir_prefix("c") + b"3", log_dir_records.encode_log_dir(3, LOG_DIRS) or b"", log_dir_records.decode_log_dir,
        lambda found: log_dir_records.encode_log_dir(
            next(iter((*found.owned, *found.externally_owned_until_ms)), 0), found
        ),
    ),
    "plan": Kind(
        plan_records.head_key("c", "p"), plan_records.encode_head(PlanHead("p", "kim", 5, 9, 1, ordered_by="lee", state_ordered_at_ms=9)),
        plan_records.decode_head, plan_records.encode_head,
    ),
    "plan-part": Kind(
        plan_records.part_key("c", "p", 0),
        plan_records.encode_parts({("t", 0): PlanPartition((3, 4), (1, 2), 7.0, 0.5, OriginalTopic("6f1c", 3))}),
        plan_records.decode_parts, plan_records.encode_parts,
    ),
    "plan-requested": Kind(
        plan_records.requested_key("c", "p", 0), plan_records.encode_requested({("t", 0): RequestedStep((3, 1, 2), (1, 2), True)}) or b"",
        plan_records.decode_requested, plan_records.encode_requested,
    ),
    "plan-state": Kind(
        plan_records.state_key("c", "p"), plan_records.encode_state(STATE), plan_records.decode_state, plan_records.encode_state
    ),
    "entry": Kind(entries.entry_key("entry", "c", 7), entries.encode_entry(ENTRY), entries.decode_entry, entries.encode_entry),
    "tuner": Kind(
        presence_records.presence_key("c", "h:1"),
        presence_records.encode_presence(TunerPresence("h:1", TunerMode.ACTIVE, 5, "1", 5e6, 1e6)),
        lambda value: presence_records.decode_presence(value, 0), presence_records.encode_presence,
    ),
}  # fmt: skip
HOSTILE = st.sampled_from(sorted(JOURNAL)).flatmap(
    lambda name: st.tuples(st.just(name), records(st.just(JOURNAL[name].whole)))
)


@pytest.mark.parametrize("kind", JOURNAL.values(), ids=JOURNAL)
def test_journal_record_round_trip(kind: Kind) -> None:
    found = kind.decode(kind.whole)
    assert kind.decode(kind.encode(found) or b"") == found


@given(HOSTILE)
@settings(max_examples=10 * EXAMPLES, deadline=None)
@example(("orders", JOURNAL["orders"].whole.replace(b'"leader", 5', b'"leader", Infinity')))
@example(("entry", NESTED[0]))
def test_journal_record_hostile_value_is_valid_or_refused(case: tuple[str, bytes]) -> None:
    kind, value = JOURNAL[case[0]], case[1]
    try:
        found = kind.decode(value)
    except ValueError:
        return
    again = kind.encode(found)
    assert again is None or kind.decode(again) == found


@given(st.lists(HOSTILE, min_size=1, max_size=6))
@settings(max_examples=3 * EXAMPLES, deadline=None)
def test_replayed_state_hostile_records_are_read_to_the_end(cases: list[tuple[str, bytes]]) -> None:
    found = ReplayedState("c")
    for offset, (name, value) in enumerate(cases):
        found.apply(JOURNAL[name].key, value, offset)
    assert found.unreadable.keys() <= {kind.key for kind in JOURNAL.values()}
    assert all(each.text() and each.effect for each in found.unreadable.values())
    assert entries.decode_memory(entries.encode_memory(found.whole_memory)) == found.whole_memory
    assert isinstance(found.plans, PlanBook)
    assert found.plans.parts_without_head.keys() <= {"p"}
    assert (found.orders, found.quotas, found.memory_writer, found.superseded_orders) is not None


ENTRIES = [
    entries.encode_entry(entry)
    for entry in (
        ENTRY,
        Entry(
            NOW_MS,
            "outcome",
            "set",
            "why",
            "broker 1 leader throttle 5 → 6: why",
            {"broker": 1, "side": "leader"},
            failure="no",
        ),
        Entry(NOW_MS, "steering", "set", "follows_clients", "t", {"rates": [[1, "leader", 5, 6]]}),
        Entry(
            NOW_MS, "quotas", "set_quota", "fair_share", "t", {"quotas": [[{"user": "kim"}, None, 5.0, "fair_share"]]}
        ),
        Entry(NOW_MS, "intent", "add_pairs", "why", "topic t: why", {"topics": [["t", "0:1", ""]]}),
        Entry(NOW_MS, "decision", "clear_lists", "move_ended", "topic t: why", {"topic": "t"}, {"w": 1.0}),
    )
]


@given(st.lists(records(st.sampled_from(ENTRIES)), min_size=1, max_size=8))
@settings(max_examples=4 * EXAMPLES, deadline=None)
def test_decision_store_shows_hostile_entries(values: list[bytes]) -> None:
    decisions = DecisionStore()
    decisions.load_history([entry for value in values if (entry := entries.entry_or_none(value)) is not None])
    decisions.add([entries.decode_entry(ENTRIES[0])])
    for wanted in (
        DecisionFilter(),
        DecisionFilter(broker=1, side="leader", changes_only=True),
        DecisionFilter(from_ms=NOW_MS),
    ):
        for turns in (False, True):
            rows, _ = decisions.page(wanted, 50, steering_ticks=turns)
            assert json.dumps([decision_json(row) for row in rows])


SIGNALS = (
    broker_signal(1, leader=9e6),
    move_signal(*SOURCE),
    ControllerSignal("c", 100, NOW_MS, NOW_MS, 6, 1.0, active=1.0, queue_depth_mean=0.5),
    TenantSignal("c", 100, NOW_MS, NOW_MS, 6, 1.0, user="kim", tokens=-3.0),
)


@given(records(st.sampled_from([encode_signal(signal) for signal in SIGNALS])))
@settings(max_examples=6 * EXAMPLES, deadline=None)
@example(encode_signal(SIGNALS[0]).replace(b'"sampled_at_ms": ', b'"sampled_at_ms": 1' + b"0" * 400))
def test_decode_signal_hostile_value_is_valid_or_refused(value: bytes) -> None:
    try:
        found = decode_signal(value)
    except ContractError:
        return
    assert decode_signal(encode_signal(found)) == found


@cache
def film() -> tuple[bytes, ...]:
    """Half a minute of a tuner that steers, as it records it."""
    rig = FilmedRig(objective=Objective(50.0))
    rig.goes_on(30)
    return tuple(rig.journal.records)


@given(st.data())
@settings(max_examples=EXAMPLES, deadline=None)
def test_recording_of_hostile_records_is_shown_as_far_as_possible(data: st.DataObject) -> None:
    lines = list(film())
    at = data.draw(st.integers(0, len(lines) - 1))
    lines[at] = data.draw(records(st.just(lines[at])))
    taken, missed = [], MissedSteps()
    for line in lines:
        try:
            taken.append(decode_chunk(line))
        except ValueError:
            missed.unreadable += 1
    with suppress(NotReplayable):
        list(Replayer().replay(recorded_steps(taken, missed)))


PLAN = json.dumps(
    {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}]}
).encode()
CURRENT = json.dumps(
    {
        "version": 1, "brokers": [1, 2, 3],
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [1, 2], "leader": 1, "isr": [1], "size_bytes": 5.0, "write_bytes_per_s": 1}
        ],
    }
).encode()  # fmt: skip


@given(records(st.sampled_from([PLAN, CURRENT])))
@settings(max_examples=2 * EXAMPLES, deadline=None)
def test_plan_file_hostile_value_is_valid_or_refused(value: bytes) -> None:
    text = value.decode(errors="replace")
    for parse in (lambda: PlanFile(text, "f").check({1, 2}, {("t", 0)}), lambda: parse_current(text, "f")):
        with suppress(PlanFileError):
            parse()
