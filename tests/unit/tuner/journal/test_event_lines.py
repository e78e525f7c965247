"""One line per event: on the page, in the log and in the event stream, however many throttles it concerns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from api_rig import WELL, Rig, entry
from loop_rig import raised
from structlog.testing import capture_logs
from tuner_cases import NOW_MS, F, L

from tuner.api.decision_rows import decision_json
from tuner.api.decisions import DecisionFilter, DecisionStore
from tuner.control.throttle.decision import (
    AddPairs,
    AllowSteering,
    ClearLists,
    Decision,
    Hold,
    Reason,
    RestoreRate,
    SetRate,
)
from tuner.control.throttle.order_events import OrderEvent
from tuner.core.throttle_limits import MB
from tuner.journal.entries import CONCURRENCY, STEP_OUTCOMES, STEPS, Entry, lists_entry, order_entry
from tuner.journal.event_lines import group_by_event

SIDES = [(broker, side) for broker in range(1, 6) for side in (L, F)]
ENDED: list[Decision] = [
    *(
        ClearLists(topic, (L, F), Reason.MOVE_ENDED, f"topic {topic}: its move has ended")
        for topic in ("orders", "audit")
    ),
    *(
        RestoreRate(
            b,
            s,
            5 * MB,
            None,
            Reason.MOVE_ENDED,
            f"broker {b} {s} throttle 5.00 MB/s removed: the move has ended; gone",
        )
        for b, s in SIDES[:-1]
    ),
    RestoreRate(
        5, F, 5 * MB, 9 * MB, Reason.MOVE_ENDED, "broker 5 follower throttle 5.00 MB/s → 9.00 MB/s: the move has ended"
    ),
]
TEXT = (
    "the move has ended: remove the throttles of broker 1 (leader, follower), broker 2 (leader, follower), "
    "broker 3 (leader, follower), broker 4 (leader, follower), broker 5 (leader); restore broker 5 follower to 9.00 MB/s; "
    "clear the throttled-replica lists of topics audit, orders"
)


def rows(decisions: DecisionStore, wanted: DecisionFilter | None = None) -> list[dict[str, Any]]:
    return [decision_json(row) for row in decisions.page(wanted or DecisionFilter(), 100)[0]]


def test_decision_rows_end_of_move_is_one_row() -> None:
    decisions = DecisionStore()
    for number, decision in enumerate(ENDED):
        decisions.add([entry("intent", decision, NOW_MS + 20 * number)])
        assert rows(decisions)[0]["outcome"] == "in_progress"
        decisions.add([entry("outcome", decision, NOW_MS + 20 * number + 9)])
    (row,) = rows(decisions)
    assert (row["text"], row["records"], row["outcome"]) == (TEXT, 12, "done")
    assert (row["broker"], row["side"], row["topics"]) == (None, None, ["orders", "audit"])
    assert row["outcome_at_ms"] == NOW_MS + 20 * 11 + 9
    assert len(row["rates"]) == 10
    assert row["rates"][-1] == {
        "broker": 5,
        "side": "follower",
        "before_bytes_per_s": 5 * MB,
        "after_bytes_per_s": 9 * MB,
    }
    assert rows(decisions, DecisionFilter(broker=4)) == [row]
    assert rows(decisions, DecisionFilter(broker=9)) == []


def test_decision_rows_failure_is_named_and_retry_is_new_row() -> None:
    decisions = DecisionStore()
    for decision in ENDED[2:5]:
        decisions.add([entry("intent", decision)])
    decisions.add(
        [entry("outcome", ENDED[2]), entry("outcome", ENDED[3], failure="refused"), entry("outcome", ENDED[4])]
    )
    (row,) = rows(decisions)
    assert (row["outcome"], row["failure"]) == (
        "failed",
        "1 of 3: broker 1 follower throttle 5.00 MB/s removed: refused",
    )
    decisions.add([entry("intent", ENDED[3], NOW_MS + 5000), entry("outcome", ENDED[3], NOW_MS + 5001)])
    again, before = rows(decisions)
    assert (again["outcome"], again["text"], before) == ("done", ENDED[3].text, row)


def test_decision_rows_without_throttle_are_not_grouped() -> None:
    side, topic = {"broker": 1, "side": "leader"}, {"topic": "orders"}
    strange = [
        ("clear_lists", side),
        ("clear_lists", {**side, "broker": 2}),
        ("restore", topic),
        ("restore", {"topic": "t"}),
    ]
    decisions = DecisionStore()
    decisions.add([Entry(NOW_MS, "intent", action, "move_ended", "it ends", said) for action, said in strange])
    assert [row["text"] for row in rows(decisions)] == ["it ends"] * 4


def test_decision_rows_two_ends_are_two_rows() -> None:
    decisions = DecisionStore()
    decisions.add([entry("intent", ENDED[2]), entry("intent", ENDED[3], NOW_MS + 16_000)])
    assert [row["records"] for row in rows(decisions)] == [1, 1]


def test_decision_rows_same_reason_shares_a_line() -> None:
    why = "somebody has changed it; left alone for 1 h"
    same = [Hold(b, s, Reason.EXTERNALLY_OWNED, f"broker {b} {s} throttle: {why}") for b, s in SIDES[:3]]
    decisions = DecisionStore()
    decisions.add([entry("decision", each) for each in [*same, WELL]])
    well, shared = rows(decisions)
    assert shared["text"] == f"broker 1 leader throttle, broker 1 follower throttle, broker 2 leader throttle: {why}"
    assert (well["text"], well["records"], shared["records"]) == (WELL.text, 1, 3)


def test_decision_store_full_drops_oldest_events() -> None:
    decisions = DecisionStore(entries_max=12)
    for decision in ENDED:
        decisions.add([entry("intent", decision)])
    decisions.add([entry("decision", WELL, NOW_MS + 20_000)])
    assert [row["records"] for row in rows(decisions)] == [1]


def test_decision_store_loads_same_events_after_restart() -> None:
    record = [entry("intent", decision, NOW_MS + 20 * number) for number, decision in enumerate(ENDED)]
    first, again = DecisionStore(), DecisionStore()
    first.add(record)
    # As the journal gives it back: sides are words there.
    again.load_history([Entry(**json.loads(json.dumps({n: getattr(e, n) for n in e.__slots__}))) for e in record])
    assert rows(again) == rows(first)


def test_observers_group_related_actions_into_one_event() -> None:
    rig = Rig()
    box = rig.observers.hub.subscribe(lambda: None)
    assert box is not None
    rig.observers.record_actions([(decision, None) for decision in ENDED])
    rig.observers.record_actions([(ENDED[2], None), (ENDED[3], "refused")])
    told = [
        json.loads(line.removeprefix("data: "))
        for line in box.drain().decode().splitlines()
        if line.startswith("data: ")
    ]
    assert told[0] == {"text": TEXT, "failure": None}
    assert told[1]["failure"] == "1 of 2: broker 1 follower throttle 5.00 MB/s removed: refused"
    assert len(told) == 2
    assert (rig.board.actuations, rig.board.failures) == (14, 1)
    rig.cycle(*ENDED)
    assert [row["text"] for row in rig.get("/status").json()["last_decisions"]] == [TEXT]


def test_loop_end_of_move_is_one_log_line() -> None:
    rig = raised()
    with capture_logs() as told:
        rig.end_the_move()
        rig.end_the_move()
    ended = [line for line in told if line.get("reason") == "move_ended"]
    assert [line["event"] for line in ended] == [
        "the move has ended: remove the throttles of broker 1 (leader), broker 3 (follower); clear the throttled-replica lists "
        "of topic orders"
    ]
    assert (ended[0]["throttles"], ended[0]["topics"]) == (["1 leader", "3 follower"], ["orders"])
    assert rig.throttles.rates == {}


def order(side: Any) -> Entry:
    return order_entry(OrderEvent(f"broker 3 {side} throttle: 5.00 MB/s by order of kim", 3, side), NOW_MS)


PAIRS = AddPairs("t", ((0, 1),), (), Reason.MOVE_FOUND, "on the lists")
RAISE = SetRate(
    1, L, MB, 2 * MB, Reason.STALLED_THROTTLE_BOUND, "broker 1 leader throttle 1.00 MB/s → 2.00 MB/s: stalled"
)
STEER = AllowSteering(1, L, MB, Reason.FOLLOWS_CLIENTS, "broker 1 leader throttle: follows the clients")


@pytest.mark.parametrize(
    ("record", "outcome"),
    [
        (Entry(NOW_MS, STEPS, "reassign", "due", "plan p: t-0 to [1, 3]"), "started"),
        (Entry(NOW_MS, STEP_OUTCOMES, "reassign", "ended", "plan p: t-0 reached"), "done"),
        (Entry(NOW_MS, STEP_OUTCOMES, "reassign", "deferred", "1 step waits: t-0: no room"), "waiting"),
        (Entry(NOW_MS, STEP_OUTCOMES, "reassign", "not_accepted", "1 step was refused", failure="refused"), "failed"),
        (Entry(NOW_MS, CONCURRENCY, "concurrency", "grows", "12 at a time"), "done"),
        (entry("decision", WELL), "no_change"),
        (entry("decision", WELL, dry_run=True), "no_change"),
        (entry("decision", STEER), "started"),
        (entry("decision", STEER, dry_run=True), "dry_run"),
        (entry("intent", RAISE, dry_run=True), "dry_run"),
        (entry("intent", RAISE), "in_progress"),
        (lists_entry("intent", [PAIRS], NOW_MS), "in_progress"),
        (order(L), "recorded"),
    ],
)
def test_decision_rows_outcome_by_kind_of_record(record: Entry, outcome: str) -> None:
    decisions = DecisionStore()
    decisions.add([record])
    assert [row["outcome"] for row in rows(decisions)] == [outcome]


def test_group_by_event_order_for_both_sides_is_one() -> None:
    assert [len(some) for some in group_by_event([order(L), order(F)])] == [2]
