"""The newest decisions: one row for a decision and its outcome, and the filters of the route."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from api_rig import RAISE, WELL, Rig, entry
from tuner_cases import NOW_MS, SOURCE, TARGET, L

from docs_build.reasons import SECTIONS
from tuner.api.decision_rows import decision_json
from tuner.api.decisions import DecisionFilter, DecisionStore, RecordedJournal
from tuner.control.throttle.decision import AddPairs, Reason, Relinquish, RestoreRate, SetRate, StartRate
from tuner.core.throttle_limits import MB
from tuner.journal.entries import Entry, lists_entry, steering_entry
from tuner.journal.kafka_journal import JournalError

PUT_BACK = RestoreRate(*SOURCE, 50 * MB, None, Reason.MOVE_ENDED, "broker 1 leader throttle: taken off")
LET_GO = Relinquish(*TARGET, 5 * MB, 9 * MB, NOW_MS, Reason.EXTERNAL_CHANGE, "theirs")
START = StartRate(2, L, 5 * MB, Reason.MOVE_FOUND, "a throttle for broker 2")


def rows(decisions: DecisionStore, wanted: DecisionFilter | None = None, **more: Any) -> list[dict[str, Any]]:
    return [decision_json(row) for row in decisions.page(wanted or DecisionFilter(), 100, **more)[0]]


def test_intent_and_outcome_are_one_row() -> None:
    decisions = DecisionStore()
    decisions.add([entry("intent", inputs={"move": {"remaining_bytes": 5}})])
    assert rows(decisions)[0]["outcome"] == "in_progress"
    decisions.add([entry("outcome", at_ms=NOW_MS + 9000)])
    only = rows(decisions)[0]
    assert (only["outcome"], only["outcome_at_ms"], only["at_ms"]) == ("done", NOW_MS + 9000, NOW_MS)
    assert (only["before_bytes_per_s"], only["after_bytes_per_s"]) == (10 * MB, 50 * MB)
    assert (only["broker"], only["side"], only["inputs"]) == (1, "leader", {"move": {"remaining_bytes": 5}})


def test_repeated_intent_has_its_own_outcome() -> None:
    decisions = DecisionStore()
    decisions.add([entry("intent"), entry("outcome", failure="refused"), entry("intent", at_ms=NOW_MS + 1)])
    decisions.add([entry("outcome", at_ms=NOW_MS + 2)])
    assert [(row["outcome"], row["failure"]) for row in rows(decisions)] == [("done", None), ("failed", "refused")]


def test_outcome_without_known_intent_is_its_own_row() -> None:
    decisions = DecisionStore()
    decisions.add([entry("outcome")])
    assert rows(decisions)[0]["outcome"] == "done"


@pytest.mark.parametrize(
    ("decision", "before", "after"),
    [
        (RAISE, 10 * MB, 50 * MB),
        (PUT_BACK, 50 * MB, None),
        (LET_GO, 5 * MB, 9 * MB),
        (START, None, 5 * MB),
        (WELL, None, None),
    ],
)
def test_row_has_rates_before_and_after(decision: Any, before: int | None, after: int | None) -> None:
    decisions = DecisionStore()
    decisions.add([entry("decision", decision)])
    only = rows(decisions)[0]
    assert (only["before_bytes_per_s"], only["after_bytes_per_s"]) == (before, after)


def test_row_of_list_changes_names_first_topics() -> None:
    pairs = [AddPairs(f"t{n}", ((0, 1),), (), Reason.MOVE_FOUND, "on the lists") for n in range(30)]
    decisions = DecisionStore()
    decisions.add([lists_entry("intent", pairs, NOW_MS)])
    assert rows(decisions)[0]["topics"] == [f"t{n}" for n in range(20)]


def test_steering_ticks_are_stored_and_shown_separately() -> None:
    change = SetRate(*SOURCE, 10 * MB, 11 * MB, Reason.FOLLOWS_CLIENTS, "10 → 11")
    decisions = DecisionStore(ticks_max=3)
    decisions.add([steering_entry([change], NOW_MS + n) for n in range(5)])
    decisions.add([entry("intent")])
    assert len(rows(decisions)) == 1
    turns = rows(decisions, steering_ticks=True)
    assert [row["at_ms"] for row in turns] == [NOW_MS + 4, NOW_MS + 3, NOW_MS + 2]
    assert turns[0]["rates"] == [
        {"broker": 1, "side": "leader", "before_bytes_per_s": 10 * MB, "after_bytes_per_s": 11 * MB}
    ]
    assert turns[0]["outcome"] == "started"
    assert rows(decisions, DecisionFilter(broker=1), steering_ticks=True) == turns
    assert rows(decisions, DecisionFilter(broker=2), steering_ticks=True) == []


def test_filter_returns_matching_rows_only() -> None:
    decisions = DecisionStore()
    decisions.add(
        [entry("intent", RAISE, NOW_MS), entry("decision", WELL, NOW_MS + 1), entry("decision", LET_GO, NOW_MS + 2)]
    )

    def found(**wanted: Any) -> list[int]:
        return [row["at_ms"] - NOW_MS for row in rows(decisions, DecisionFilter(**wanted))]

    assert found() == [2, 1, 0]
    assert found(broker=3) == [2, 1]
    assert found(broker=3, side="leader") == []
    assert found(side="leader") == [0]
    assert found(action="hold") == [1]
    assert found(reason="stalled_throttle_bound") == [0]
    assert found(from_ms=NOW_MS + 1) == [2, 1]
    assert found(to_ms=NOW_MS + 1) == [1, 0]
    assert found(changes_only=True) == [2, 0]
    assert found(broker=1, action="hold") == []


def test_pages_have_no_gap_or_duplicate_while_rows_arrive() -> None:
    decisions = DecisionStore()
    decisions.add([entry("decision", WELL, NOW_MS + n) for n in range(25)])
    seen, before = [], None
    while True:
        found, before = decisions.page(DecisionFilter(), 10, before=before)
        seen += [row.entry.at_ms - NOW_MS for row in found]
        decisions.add([entry("decision", WELL, NOW_MS + 100)])
        if before is None:
            break
    assert seen == list(range(24, -1, -1))


def test_full_store_keeps_newest_rows() -> None:
    decisions = DecisionStore(entries_max=10)
    decisions.add([entry("decision", WELL, NOW_MS + n) for n in range(25)])
    assert len(rows(decisions)) == 10
    ten = [row["id"] for row in rows(decisions)]
    assert ten == sorted(ten, reverse=True)
    assert decisions.row(ten[-1]) is not None
    decisions.add([entry("decision", WELL, NOW_MS + 25)])
    assert decisions.row(ten[-1]) is None


def test_loaded_history_follows_newer_rows_without_duplicates() -> None:
    decisions = DecisionStore()
    old = [entry("intent", RAISE, NOW_MS), entry("outcome", RAISE, NOW_MS + 5)]
    new = [entry("decision", WELL, NOW_MS + 50)]
    decisions.add(new)
    decisions.load_history([*old, *new])
    assert [(row["at_ms"] - NOW_MS, row["outcome"]) for row in rows(decisions)] == [(50, "no_change"), (0, "done")]
    decisions.load_history([*old, *new])  # A second term reads the same again.
    assert len(rows(decisions)) == 2
    assert rows(decisions)[1]["outcome"] == "done"


def test_row_ids_and_page_positions_survive_a_restart() -> None:
    """The next process reads what this one has put on record, from somewhere on, and numbers nothing again."""
    change = SetRate(*SOURCE, 10 * MB, 11 * MB, Reason.FOLLOWS_CLIENTS, "10 → 11")
    # Many of one cycle, with seconds of the law between them, and what came of some.
    record = [
        each
        for cycle in range(6)
        for at_ms in (NOW_MS + 5000 * cycle,)
        for each in (
            *(entry("intent", RAISE, at_ms) for _ in range(3)),
            *(entry("decision", WELL, at_ms) for _ in range(4)),
            steering_entry([change], at_ms),
            entry("outcome", RAISE, at_ms + 900),
            steering_entry([change], at_ms + 1000),
        )
    ]
    first = DecisionStore()
    for each in record:
        first.add([each])
    at = first.page(DecisionFilter(), 20)[1]
    first_ids = {turns: [row["id"] for row in rows(first, steering_ticks=turns)] for turns in (False, True)}
    assert len({*first_ids[False], *first_ids[True]}) == 6 * 9, "each has its own"
    again = DecisionStore()
    again.add([entry("decision", WELL, NOW_MS + 60_000)])  # Decided before the journal was read.
    again.load_history(record[10:])
    for turns, ids in first_ids.items():
        assert [row["id"] for row in rows(again, steering_ticks=turns)][0 if turns else 1 :] == ids[
            : 10 if turns else 35
        ]
    assert at is not None
    assert rows(again, before=at)[0] == rows(first, before=at)[0]


def test_row_ids_grow_despite_clock_set_back() -> None:
    decisions = DecisionStore()
    decisions.add([entry("decision", WELL, NOW_MS + at) for at in (0, 50, -9000, 60)])
    ids = [row["id"] for row in rows(decisions)]
    assert ids == sorted(set(ids), reverse=True)
    assert ids[0] < 2**53


def test_decision_refused_by_journal_is_not_shown() -> None:
    taken: list[Entry] = []

    def write(entries: Sequence[Entry] = (), **more: Any) -> None:
        if more.get("memory") == "refuse":
            raise JournalError("away")
        taken.extend(entries)

    decisions = DecisionStore()
    journal = RecordedJournal(write, decisions)
    journal.write([entry("intent")])
    with pytest.raises(JournalError):
        journal.write([entry("decision", WELL)], memory="refuse")
    assert len(taken) == len(rows(decisions)) == 1


def test_decisions_route_filters_pages_and_shows_one_row() -> None:
    rig = Rig()
    rig.cycle()
    rig.observers.decisions.add([entry("intent", RAISE, NOW_MS + n) for n in range(3)])
    found = rig.get("/api/v1/decisions?broker=1&limit=2&inputs=false").json()
    assert [row["at_ms"] - NOW_MS for row in found["decisions"]] == [2, 1]
    assert found["decisions"][0]["inputs"] is None
    rig.observers.decisions.add([entry("outcome", RAISE, NOW_MS + 9)])  # What came of it is told before the next cycle.
    again = rig.get("/api/v1/decisions?broker=1&limit=2&inputs=false").json()
    assert [row["outcome"] for row in again["decisions"]] == ["done", "in_progress"]
    rest = rig.get(f"/api/v1/decisions?broker=1&limit=2&before={found['next_before']}").json()
    assert [row["at_ms"] - NOW_MS for row in rest["decisions"]] == [0]
    assert rest["next_before"] is None
    one = rest["decisions"][0]["id"]
    assert rig.get(f"/api/v1/decisions/{one}").json()["id"] == one
    assert rig.get("/api/v1/decisions/99").status_code == 404


def test_list_has_the_inputs_of_few_throttles_and_the_decision_has_all() -> None:
    rig = Rig()
    rig.cycle()
    starts = [
        StartRate(broker, L, 5 * MB, Reason.MOVE_FOUND, f"broker {broker} leader throttle: started")
        for broker in range(40)
    ]
    rig.observers.decisions.add([replace(entry("intent", start), inputs={"drain": 1.0}) for start in starts])
    (row,) = rig.get("/api/v1/decisions").json()["decisions"]
    assert (row["records"], len(row["inputs"])) == (40, 3)
    assert len(rig.get(f"/api/v1/decisions/{row['id']}").json()["inputs"]) == 40


def test_reasons_route_lists_the_codes_of_the_reference_page() -> None:
    codes = Rig().get("/api/v1/reasons").json()
    assert codes == sorted({str(reason) for _, _, texts in SECTIONS for reason in texts})
    assert {"stalled_throttle_bound", "fair_share", "quota_full", "preferred_leader"} <= set(codes)
