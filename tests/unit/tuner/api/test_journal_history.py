"""The history of the journal: rates by kind of entry, marks, settings in force, fail-overs, bounds, decisions from the journal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from api_rig import RAISE
from tuner_cases import CLUSTER, NOW_MS, SOURCE, TARGET

from streaming.shared.contract import Side
from tuner.api import journal_history
from tuner.api.journal_history import JournalHistory, MarkKind
from tuner.control.throttle.decision import Decision, Hold, Reason, Relinquish, RestoreRate, SetRate
from tuner.control.throttle.objective import Mode, Objective
from tuner.control.throttle.order_events import OrderEvent
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.journal.entries import Entry, entry_of, order_entry, steering_entry
from tuner.journal.term_entries import begin_term_entry, follow_settings_entry, settings_in_force

MINUTE_MS = 60_000
LATER_MS = NOW_MS + 60 * MINUTE_MS
RESTORE = RestoreRate(*SOURCE, 50 * MB, None, Reason.MOVE_ENDED, "broker 1 leader throttle removed: the move has ended")
EXTERNAL = Relinquish(
    *SOURCE, 50 * MB, 7 * MB, LATER_MS, Reason.EXTERNAL_CHANGE, "broker 1 leader throttle: changed by another tool"
)


def number_of(entry: Entry) -> int:
    """Returns the id of the first decision of its millisecond."""
    return entry.at_ms * 2_000 + (entry.kind == "steering")


def term(holder: str, at_ms: int, ceiling: float = 60 * MB, objective: Objective | None = None) -> Entry:
    settings = settings_in_force(ThrottleLimits(rate_bytes_per_s_max=ceiling), objective)
    return begin_term_entry(holder, "0.9", settings, at_ms, dry_run=False)


def done(decision: Decision, at_ms: int, failure: str | None = None) -> Iterable[Entry]:
    yield entry_of("intent", decision, at_ms)
    yield entry_of("outcome", decision, at_ms + 11_000, failure=failure)


def history_of(*entries: Entry) -> JournalHistory:
    history = JournalHistory(CLUSTER)
    for offset, entry in enumerate(entries):
        history.add(entry, offset)
    history.read_entries = lambda offset, count: entries[offset : offset + count]
    return history


def rates(history: JournalHistory) -> list[float | None]:
    points = history.rates(1, Side.LEADER, NOW_MS - 1, LATER_MS, 100)
    return [None if point.bytes_per_s is None else point.bytes_per_s / MB for point in points]


def kinds(history: JournalHistory, broker: int | None = 1) -> list[MarkKind]:
    marks, _ = history.marks(broker, NOW_MS - 1, LATER_MS, 100)
    return [mark.kind for mark in marks]


def test_line_follows_intents_outcomes_ticks_and_removals() -> None:
    tick = steering_entry(
        [SetRate(*SOURCE, 50 * MB, 45 * MB, Reason.FOLLOWS_CLIENTS, "broker 1 leader")], NOW_MS + MINUTE_MS
    )
    history = history_of(*done(RAISE, NOW_MS), tick, *done(RESTORE, NOW_MS + 2 * MINUTE_MS))
    assert rates(history) == [10, 50, 45, 50, None]


def test_failed_write_and_dry_run_change_no_line() -> None:
    dry = entry_of("intent", RAISE, NOW_MS + MINUTE_MS, dry_run=True)
    assert rates(history_of(*done(RAISE, NOW_MS, failure="no answer"), dry)) == [10]


def test_external_change_has_the_new_rate_and_a_mark() -> None:
    history = history_of(*done(RAISE, NOW_MS), entry_of("decision", EXTERNAL, NOW_MS + MINUTE_MS))
    assert rates(history) == [10, 50, 7]
    assert kinds(history) == [MarkKind.DECISION, MarkKind.EXTERNAL_CHANGE]
    assert kinds(history, broker=3) == []


def test_term_of_another_tuner_is_a_fail_over_and_of_the_same_a_restart() -> None:
    history = history_of(term("a:1", NOW_MS), term("a:1", NOW_MS + 1), term("b:2", NOW_MS + 2), term("a:1", NOW_MS + 3))
    assert kinds(history) == [MarkKind.RESTART, MarkKind.RESTART, MarkKind.FAIL_OVER, MarkKind.FAIL_OVER]


def test_orders_mark_their_broker_or_all() -> None:
    pause = order_entry(OrderEvent("rheostat is paused, by order of kim"), NOW_MS)
    override = order_entry(OrderEvent("broker 3 follower throttle: 9 MB/s by order of kim", *TARGET), NOW_MS + 1)
    history = history_of(pause, override)
    assert (kinds(history, 1), kinds(history, 3)) == ([MarkKind.ORDER], [MarkKind.ORDER, MarkKind.ORDER])


def test_holds_are_no_marks() -> None:
    assert kinds(history_of(entry_of("decision", Hold(*SOURCE, Reason.PROGRESSING, "x: y"), NOW_MS))) == []


def test_settings_in_force_are_those_of_their_time() -> None:
    objective = Objective(latency_ms=30.0, mode=Mode.GENTLE)
    night = settings_in_force(ThrottleLimits(rate_bytes_per_s_max=90 * MB, schedule_rules="night"), Objective())
    history = history_of(
        term("a", NOW_MS, 60 * MB, objective), follow_settings_entry(night, NOW_MS + MINUTE_MS, dry_run=False)
    )
    shown = history.settings(NOW_MS + 1000, LATER_MS, 10)
    assert [(at_ms - NOW_MS, settings.text) for at_ms, settings in shown] == [
        (0, "ceiling 60.0 MB/s, objective 30 ms, mode gentle"),
        (MINUTE_MS, "ceiling 90.0 MB/s, objective 50% above the latency without a move, schedule night"),
    ]
    assert history.settings(NOW_MS - 10, NOW_MS - 1, 10) == []


@pytest.mark.parametrize(
    "body", [None, "x", {}, {"rate_bytes_per_s_max": "9"}, {"rate_bytes_per_s_max": 9, "latency_ms": [1]}]
)
def test_forged_settings_are_left_out(body: object) -> None:
    forged = replace(term("a", NOW_MS), decision={"settings": body, "holder": 7})
    history = history_of(forged)
    assert history.settings(0, LATER_MS, 10) == []
    assert kinds(history) == [MarkKind.RESTART]


def test_marks_that_do_not_fit_are_counted_and_fail_overs_stay() -> None:
    decisions = [entry for number in range(50) for entry in done(RAISE, NOW_MS + number * MINUTE_MS)]
    history = history_of(term("a", NOW_MS), *decisions)
    marks, left_out = history.marks(1, NOW_MS, LATER_MS, 10)
    assert (len(marks), left_out) == (10, 41)
    assert marks[0].kind is MarkKind.RESTART
    assert marks[-1].at_ms == NOW_MS + 49 * MINUTE_MS


def test_journal_of_a_year_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_history, "_INDEX_MAX", 100)
    history = JournalHistory(CLUSTER)
    step_ms = 365 * 86_400_000 // 1000
    for number in range(1000):
        history.add(entry_of("intent", RAISE, NOW_MS - number * step_ms), number)
    assert len(history._index_ms) <= 100
    assert history.first_ms == NOW_MS - 999 * step_ms


def test_decision_is_found_in_the_journal_by_its_id() -> None:
    entries = [entry for number in range(30) for entry in done(RAISE, NOW_MS + number * MINUTE_MS)]
    history = history_of(*entries)
    wanted = entries[20]
    row = history.row(number_of(wanted))
    assert row is not None
    assert row.entry.at_ms == wanted.at_ms
    assert row.acts[0].outcome is not None
    assert history.row(number_of(wanted)) is row  # Read once only.
    assert history.row(number_of(wanted) + 2_000) is None


def test_steering_tick_is_found_by_its_odd_id() -> None:
    tick = steering_entry([RAISE], NOW_MS)
    history = history_of(entry_of("intent", RAISE, NOW_MS), tick)
    row = history.row(number_of(tick))
    assert row is not None
    assert row.entry.kind == "steering"


def test_missing_ticks_of_a_wrapped_ring_are_told() -> None:
    first = replace(steering_entry([RAISE], NOW_MS), seq=5)
    assert history_of(first).ticks_since_ms == NOW_MS
    assert history_of(replace(first, seq=1)).ticks_since_ms is None


def test_decisions_of_one_millisecond_keep_their_own_ids() -> None:
    other = SetRate(3, Side.LEADER, 10 * MB, 20 * MB, Reason.STALLED_THROTTLE_BOUND, "broker 3 leader throttle: why")
    history = history_of(entry_of("intent", RAISE, NOW_MS), entry_of("intent", other, NOW_MS))
    ids = {broker: history.marks(broker, NOW_MS, LATER_MS, 10)[0][0].number for broker in (1, 3)}
    rows = {broker: history.row(number) for broker, number in ids.items()}
    assert {broker: row.entry.decision["broker"] for broker, row in rows.items() if row is not None} == {1: 1, 3: 3}


def test_decision_after_the_clock_was_set_back_is_found_by_its_id() -> None:
    later, earlier = entry_of("intent", RAISE, LATER_MS), entry_of("intent", RESTORE, NOW_MS)
    history = history_of(later, earlier)
    (mark,), _ = history.marks(1, NOW_MS, NOW_MS + 1, 10)
    row = history.row(mark.number)
    assert row is not None
    assert row.entry.action == "restore"


def test_marks_of_one_broker_are_bounded_with_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_history, "_DECISION_MARKS_MAX", 10)
    raises = [replace(RAISE, broker=number % 7) for number in range(40)]
    history = history_of(*(entry_of("intent", each, NOW_MS + number) for number, each in enumerate(raises)))
    marks = {broker: history.marks(broker, NOW_MS - 1, LATER_MS, 100)[0] for broker in range(8)}
    assert sorted(mark.at_ms - NOW_MS for each in marks.values() for mark in each) == list(range(30, 40))
    assert [mark.at_ms - NOW_MS for mark in marks[3]] == [31, 38]
    assert marks[7] == []
