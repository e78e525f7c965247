"""The route of a broker's week: history, copies, forecast, baseline, capacity, changes; what it waits for, and its refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from api_rig import MEMORY, RAISE, Rig
from tuner_cases import CLUSTER, NOW_MS, broker_signal, live, observation
from week_cases import HOUR_MS, MB, PERIOD_MS, broker_profile, by_hour, change_event, history_week

from streaming.shared.contract import BrokerProfile, ChangedMeasure, LoadForecast
from tuner.api import week_routes
from tuner.api.response_models import LatencyLimitBody
from tuner.api.week_store import SLOTS
from tuner.api.week_texts import event_text
from tuner.control.throttle.objective import Capacity, Objective
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.latency_limit import LatencySource

PROFILE = broker_profile(CLUSTER, 1, NOW_MS)
EVENT = change_event(CLUSTER, 1, NOW_MS)


def rig_with(profile: BrokerProfile | None = PROFILE, days: float = 7.0) -> Rig:
    rig = Rig()
    rig.cycle()
    for period in history_week(CLUSTER, (1,), NOW_MS, days):
        rig.weeks.add(period, NOW_MS)
    if profile is not None:
        rig.weeks.profiles = {1: profile}
    rig.weeks.events = (EVENT, replace(EVENT, broker=2))
    return rig


def week_of(rig: Rig, broker: int = 1) -> Any:
    answer = rig.get(f"/api/v1/brokers/{broker}/week")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_week_has_history_copies_and_changes() -> None:
    week = week_of(rig_with())
    assert (week["waits_for"], week["period_s"]) == (None, 600)
    assert len(week["client_in_bytes_per_s"]) == len(week["produce_p99_ms"]) == SLOTS - 1
    assert week["client_in_bytes_per_s"][0] == pytest.approx(30 * MB * by_hour(week["start_ms"]), rel=1e-6)
    assert len(week["copies"]) == 14
    assert {copy["end_ms"] - copy["start_ms"] for copy in week["copies"]} == {3 * HOUR_MS}
    (event,) = week["events"]
    assert event["text"] == (
        "Broker 1: produce latency (p99) without copies has changed from 8.00 to 14.5 ms since 2023-11-13 16:13:20 UTC."
    )


def test_forecast_has_its_error_by_step_and_says_its_model() -> None:
    week = week_of(rig_with())
    forecast = week["forecast"]["client_in"]
    assert len(forecast["bytes_per_s"]) == len(forecast["error_bytes_per_s"]) == 8 * 24
    assert [forecast["error_bytes_per_s"][step] for step in (0, 4, 12, 20)] == [1 * MB, 2 * MB, 3 * MB, 4 * MB]
    assert forecast["error_bytes_per_s"][-1] == 4 * MB  # The longest horizon whose error is known.
    assert "made 10 min ago from 7 d of history" in week["forecast_text"]
    assert "hour yesterday, and a forecast 12 h ahead was wrong by 3.00 MB/s on average" in week["forecast_text"]


def test_past_hours_have_the_baseline_of_their_hour_of_the_week() -> None:
    rig = rig_with()
    rig.board.objective = Objective(tolerance=0.5)
    week = week_of(rig)
    baseline = week["baseline"]
    assert baseline["start_ms"] <= week["start_ms"] < baseline["start_ms"] + HOUR_MS
    expected = 8.0 * by_hour(baseline["start_ms"])
    assert baseline["p99_ms"][0] == pytest.approx(expected, abs=0.01)
    assert baseline["p99_ms_max"][0] == pytest.approx(max(1.5 * expected, expected + 5.0), abs=0.01)


def test_baseline_of_an_hour_that_the_profile_lacks_is_unknown() -> None:
    week = week_of(rig_with(replace(PROFILE, quiet_p99_ms=(8.0, None, 9.0)), days=0.5))
    assert week["baseline"]["p99_ms"][-4:] == [None, 8.0, None, 9.0]
    assert week["baseline"]["p99_ms_max"][-3:] == [30.0, None, 30.0]


def test_capacity_is_told_with_its_source_and_age() -> None:
    rig = rig_with()
    week = week_of(rig)
    assert week["capacity_in"] == {"bytes_per_s": 110 * MB, "source": "learned", "seen_at_ms": NOW_MS - 3 * HOUR_MS}
    assert "110 MB/s in (seen 3 h ago), 900 MB/s out (seen 1 d 2 h ago)" in week["capacity_text"]
    rig.board.capacity_by_broker = {1: Capacity(in_bytes_per_s=5 * MB, out_bytes_per_s=6 * MB)}
    week = week_of(rig)
    assert week["capacity_out"] == {"bytes_per_s": 6 * MB, "source": "settings", "seen_at_ms": None}
    assert week["capacity_text"] == "Capacity by tuner.capacity: 5.00 MB/s in, 6.00 MB/s out."


def test_link_speed_is_the_capacity_until_one_is_learned() -> None:
    rig = rig_with(None)
    rig.cycle(brokers=[replace(broker_signal(1), link_speed_bytes_per_s=125 * MB)])
    week = week_of(rig)
    assert week["capacity_in"] == {"bytes_per_s": 125 * MB, "source": "link", "seen_at_ms": None}
    assert week["capacity_text"].startswith(
        "Speed of the link, from the metrics of the machine: 125 MB/s. Disks may be"
    )
    rig.weeks.profiles = {1: PROFILE}
    week = week_of(rig)
    assert week["capacity_in"]["source"] == "learned"
    assert week["capacity_text"].endswith("The speed of the link is 125 MB/s.")


def test_outdated_profile_says_that_it_is_not_used() -> None:
    week = week_of(rig_with(replace(PROFILE, made_at_ms=NOW_MS - 4 * HOUR_MS)))
    assert "It is too old, so the tuner and plans do not use it" in week["forecast_text"]


def test_broker_without_profile_says_what_it_waits_for() -> None:
    week = week_of(rig_with(None))
    assert (week["forecast"], week["baseline"], week["capacity_in"]) == (None, None, None)
    assert week["forecast_text"].startswith("No forecast: `rheostat learn` has not published")
    assert week["capacity_text"].startswith("Capacity: not learned from the history yet")
    assert week["latency_limit"]["p99_ms_max"] == 30.0


def test_forecast_without_values_names_no_model() -> None:
    week = week_of(rig_with(replace(PROFILE, client_in=LoadForecast(), client_out=LoadForecast())))
    assert week["forecast_text"] == "Forecast made 10 min ago from 7 d of history."


def test_empty_history_says_when_it_begins() -> None:
    rig = Rig()
    rig.cycle()
    week = week_of(rig)
    assert week["waits_for"].startswith("The history is empty. It begins about ten minutes after the stream starts")
    assert (week["start_ms"], week["client_in_bytes_per_s"], week["copies"]) == (None, [], [])
    assert week_of(rig_with(), broker=2)["waits_for"].startswith(
        "The history of the last week has no values of broker 2."
    )


def test_unknown_broker_is_refused_unless_it_has_a_history() -> None:
    rig = rig_with()
    assert rig.get("/api/v1/brokers/99/week").status_code == 404
    for period in history_week(CLUSTER, (99,), NOW_MS, 0.1):
        rig.weeks.add(period, NOW_MS)
    assert week_of(rig, 99)["start_ms"] is not None


def test_unreadable_history_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(week_routes, "_READ_S_MAX", 0.01)
    rig = rig_with()
    rig.weeks.mark_unreadable("the history topic rheostat.history cannot be read: no answer")
    answer = rig.get("/api/v1/brokers/1/week")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json() == {"detail": "the history topic rheostat.history cannot be read: no answer"}
    assert rig.get("/api/v1/brokers/99/week").status_code == 404


def test_unusual_value_of_a_tenant_is_one_sentence() -> None:
    event = replace(
        EVENT,
        measure=ChangedMeasure.MUTATION_RATE,
        is_unusual=True,
        broker=None,
        user="ann",
        client_id="etl",
        since_ms=0,
    )
    assert event_text(event) == (
        "Tenant user ann, client-id etl: unusual mutation rate at 1970-01-01 00:00:00 UTC: 14.5 partitions/s, instead of the "
        "usual 8.00 partitions/s."
    )


def test_objective_from_the_history_is_described_and_shown() -> None:
    rig = Rig()
    rig.board.objective = Objective(tolerance=0.5)
    learned = BrokerBaseline(p99_ms=40.0, is_learned=True)
    seen = observation(live(), [], [broker_signal(1)])
    rig.observers.record_cycle(replace(seen, baselines={1: learned}), MEMORY, (RAISE,))
    limit = rig.get("/api/v1/brokers/1").json()["latency_limit"]
    assert limit == {"p99_ms_max": 60.0, "source": "history", "baseline_ms": 40.0}
    sources = LatencyLimitBody.model_json_schema()["properties"]["source"]["enum"]
    assert sources == [source.value for source in LatencySource]
    card = rig.get("/page/brokers").text
    assert "objective 60 ms (40 ms without copies at this hour, according to the history)" in card


def test_changes_of_tenants_are_on_the_card_of_the_controller() -> None:
    rig = rig_with()
    assert "Tenant user" not in rig.get("/page/controller").text
    tenant = replace(EVENT, measure=ChangedMeasure.MUTATION_RATE, broker=None, user="<b>ann</b>")
    rig.weeks.events = (EVENT, tenant)
    card = rig.get("/page/controller").text
    assert "Tenant user &lt;b&gt;ann&lt;/b&gt;: mutation rate has changed from 8.00 to 14.5 partitions/s since" in card
    assert "produce latency" not in card


def test_answer_is_small_and_periods_align() -> None:
    answer = rig_with().get("/api/v1/brokers/1/week")
    assert len(answer.content) < 60_000
    assert answer.json()["start_ms"] % PERIOD_MS == 0
