"""The route and the page of a broker's history: ranges, resolution, what was in force, marks, notes, size, refusals, hostile names."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from api_rig import Rig
from tuner_cases import CLUSTER, NOW_MS, SOURCE
from week_cases import history_week

from streaming.shared.contract import Side
from tuner.api import broker_history_routes
from tuner.api.broker_history_views import RANGE_MS_MAX, HistoryRange, time_range
from tuner.control.throttle.decision import Reason, RestoreRate, SetRate
from tuner.control.throttle.objective import Objective
from tuner.control.throttle.order_events import OrderEvent
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.journal.entries import Entry, entry_of, order_entry, steering_entry
from tuner.journal.term_entries import begin_term_entry, settings_in_force

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
HOSTILE = "<img src=x onerror=alert(1)>\u202e" + "名" * 249


def number_of(entry: Entry) -> int:
    """Returns the id of the first decision of its millisecond."""
    return entry.at_ms * 2_000 + (entry.kind == "steering")


def settings_entry(at_ms: int, ceiling: float, latency_ms: float | None = None) -> Entry:
    objective = Objective(latency_ms=latency_ms) if latency_ms is not None else None
    settings = settings_in_force(ThrottleLimits(rate_bytes_per_s_max=ceiling), objective)
    return begin_term_entry(f"host:{at_ms}", "0.9", settings, at_ms, dry_run=False)


def rig_with(*entries: Entry, days: float = 7.0) -> Rig:
    rig = Rig()
    rig.cycle()
    for period in history_week(CLUSTER, (1,), NOW_MS, days):
        rig.weeks.add(period, NOW_MS)
    for offset, each in enumerate(entries):
        rig.journal.add(each, offset)
    return rig


def history_of(rig: Rig, query: str = "", broker: int = 1) -> Any:
    answer = rig.get(f"/api/v1/brokers/{broker}/history{query}")
    assert answer.status_code == 200, answer.text
    assert len(answer.content) <= 50_000
    return answer.json()


def change(at_ms: int, to: float = 50 * MB) -> list[Entry]:
    decision = SetRate(*SOURCE, 10 * MB, round(to), Reason.STALLED_THROTTLE_BOUND, "broker 1 leader throttle: up")
    return [entry_of("intent", decision, at_ms), entry_of("outcome", decision, at_ms + 11_000)]


def test_last_day_has_measurements_throttle_and_what_was_in_force() -> None:
    since_ms = NOW_MS - 2 * HOUR_MS
    rig = rig_with(
        settings_entry(NOW_MS - 3 * DAY_MS, 40 * MB, 20.0), *change(since_ms), settings_entry(NOW_MS - HOUR_MS, 90 * MB)
    )
    history = history_of(rig)
    assert (history["from_ms"], history["to_ms"]) == (NOW_MS - DAY_MS, NOW_MS)
    assert history["measured"]["step_ms"] == 600_000
    assert 143 <= sum(value is not None for value in history["measured"]["produce_p99_ms"]) <= 145
    assert history["throttles"]["leader"] == {
        "times_ms": [since_ms, since_ms + 11_000], "bytes_per_s": [10 * MB, 50 * MB],
    }  # fmt: skip
    assert [(each["rate_bytes_per_s_max"], each["latency_ms"]) for each in history["in_force"]] == [
        (40 * MB, 20.0), (90 * MB, None),
    ]  # fmt: skip
    assert [mark["kind"] for mark in history["marks"]] == ["decision", "fail_over"]
    assert history["marks"][0]["id"] == number_of(change(since_ms)[0])


def test_five_weeks_have_longer_steps_and_ask_for_older_weeks() -> None:
    rig = rig_with(days=34)
    history = history_of(rig, f"?from_ms={NOW_MS - 34 * DAY_MS}")
    assert history["measured"]["step_ms"] == 3 * HOUR_MS
    assert rig.weeks.wants_older
    assert any("weeks before the last one" in note for note in history["notes"])
    rig.weeks.mark_older_read()
    assert not any("weeks before" in note for note in history_of(rig, f"?from_ms={NOW_MS - 34 * DAY_MS}")["notes"])


def test_busy_journal_of_a_year_fits_into_fifty_kilobytes() -> None:
    ticks = []
    for number in range(4_000):
        rates = [
            SetRate(1, side, 10 * MB, 10 * MB + number * 1000 + 1, Reason.FOLLOWS_CLIENTS, "x: y") for side in Side
        ]
        ticks.append(steering_entry(rates, NOW_MS - 365 * DAY_MS + number * (365 * DAY_MS // 4_000)))
    named = [order_entry(OrderEvent(HOSTILE, 1, Side.LEADER), NOW_MS - number * HOUR_MS) for number in range(700)]
    settings = [settings_entry(NOW_MS - number * HOUR_MS, 40 * MB + number) for number in range(700)]
    rig = rig_with(*ticks, *change(NOW_MS - HOUR_MS), *named, *settings, days=34)
    history = history_of(rig, f"?from_ms={NOW_MS - 35 * DAY_MS}")
    assert len(history["marks"]) == 50
    assert history["marks_left_out"] > 600
    assert len(history["throttles"]["leader"]["times_ms"]) > 100


def test_page_tells_range_figures_and_marks_without_javascript() -> None:
    rig = rig_with(
        settings_entry(NOW_MS - 3 * HOUR_MS, 40 * MB), *change(NOW_MS - HOUR_MS),
        order_entry(OrderEvent(HOSTILE), NOW_MS - 2 * HOUR_MS),
    )  # fmt: skip
    html = rig.get("/page/broker/1").text
    text = " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())
    assert "<img" not in html
    assert "throttle, leader 10.0 MB/s 50.0 MB/s 50.0 MB/s" in text
    assert "ceiling 40.0 MB/s 40.0 MB/s 40.0 MB/s" in text
    assert "order of an operator" in text
    assert f'href="/decisions/{number_of(change(NOW_MS - HOUR_MS)[0])}"' in html


def test_page_says_that_a_throttle_was_removed() -> None:
    end = RestoreRate(*SOURCE, 50 * MB, None, Reason.MOVE_ENDED, "broker 1 leader throttle removed")
    ended = [entry_of("intent", end, NOW_MS - 1000), entry_of("outcome", end, NOW_MS)]
    rig = rig_with(*change(NOW_MS - HOUR_MS), *ended)
    text = " ".join(re.sub(r"<[^>]*>", " ", rig.get("/page/broker/1").text).split())
    assert "throttle, leader 10.0 MB/s 50.0 MB/s removed" in text


def test_empty_history_says_so() -> None:
    rig = Rig()
    rig.cycle()
    history = history_of(rig)
    assert set(history["measured"]["produce_p99_ms"]) == {None}
    assert (history["marks"], history["in_force"]) == ([], [])
    assert "no event about this broker" in rig.get("/page/broker/1").text


def test_journal_that_cannot_be_read_leaves_measurements_and_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_history_routes, "_READ_S_MAX", 0.0)
    rig = rig_with()
    rig.journal.mark_unreadable("the journal rheostat.journal cannot be read: no answer")
    history = history_of(rig)
    assert "The journal rheostat.journal cannot be read: no answer." in history["notes"]
    assert any(value is not None for value in history["measured"]["produce_p99_ms"])


def test_removed_broker_keeps_its_history_and_an_unknown_one_is_named() -> None:
    rig = rig_with()
    for period in history_week(CLUSTER, (44,), NOW_MS, 1):
        rig.weeks.add(period, NOW_MS)
    assert history_of(rig, broker=44)["broker"] == 44
    answer = rig.get("/api/v1/brokers/45/history")
    assert (answer.status_code, "45" in answer.json()["detail"]) == (404, True)


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "expected"),
    [
        (None, None, (NOW_MS - DAY_MS, NOW_MS)),
        (NOW_MS - HOUR_MS, None, (NOW_MS - HOUR_MS, NOW_MS)),
        (0, 2**53, (NOW_MS - RANGE_MS_MAX, NOW_MS)),
        (NOW_MS + HOUR_MS, NOW_MS + DAY_MS, (NOW_MS - 60_000, NOW_MS)),  # A browser whose clock is ahead.
        (NOW_MS, NOW_MS - HOUR_MS, (NOW_MS - HOUR_MS - 60_000, NOW_MS - HOUR_MS)),
        (0, 1, (NOW_MS - RANGE_MS_MAX, NOW_MS - RANGE_MS_MAX + 60_000)),
    ],
)
def test_any_range_becomes_one_that_the_history_may_have(
    from_ms: int | None, to_ms: int | None, expected: tuple[int, int]
) -> None:
    assert time_range(from_ms, to_ms, NOW_MS) == HistoryRange(*expected)


@pytest.mark.parametrize("query", ["?from_ms=-1", "?from_ms=x", f"?to_ms={2**53 + 1}", "?form_ms=1"])
def test_invalid_range_is_refused(query: str) -> None:
    assert rig_with().get(f"/api/v1/brokers/1/history{query}").status_code == 422


def test_shell_of_the_broker_is_open_and_its_data_needs_a_token() -> None:
    rig = rig_with()
    assert "History of broker 1" in rig.get("/brokers/1", None).text
    assert rig.get("/page/broker/1", None).status_code == 401
    assert rig.get("/api/v1/brokers/1/history", None).status_code == 401


def test_answer_is_shared_for_five_seconds_and_follows_the_journal() -> None:
    rig = rig_with(*change(NOW_MS - 60_000))
    rig.clock.now_s = (NOW_MS // 5_000) * 5
    first = history_of(rig)
    rig.journal.add(steering_entry([SetRate(1, Side.LEADER, 50 * MB, 40 * MB, Reason.FOLLOWS_CLIENTS, "x")], NOW_MS), 2)
    rig.clock.now_s += 4
    assert history_of(rig) == first
    rig.clock.now_s += 1
    later = history_of(rig)
    assert later["to_ms"] == first["to_ms"] + 5_000
    assert later["throttles"]["leader"]["bytes_per_s"][-1] == 40 * MB
    rig.journal.add(change(NOW_MS)[0], 3)  # It has the rate before the change.
    assert history_of(rig)["throttles"]["leader"]["bytes_per_s"][-1] == 10 * MB
