from __future__ import annotations

from learning.runtime.learn_counts import LearnCounts
from learning.runtime.learn_metrics import LearnCollector
from streaming.shared.contract.profiles import (
    STEPS_MAX,
    BrokerProfile,
    ChangedMeasure,
    ChangeEvent,
    LearnedCapacity,
    LoadForecast,
)

HOUR_MS = 3_600_000
START_MS = 400_000 * HOUR_MS
LOAD = LoadForecast(
    bytes_per_s=tuple(1e6 * step for step in range(STEPS_MAX)),
    error_bytes_per_s=(1.0, 4.0, 12.0, None, None),
    model="x",
)
PROFILE = BrokerProfile(
    cluster="c",
    broker=7,
    made_at_ms=START_MS,
    start_ms=START_MS,
    history_s=3600.0,
    client_in=LOAD,
    quiet_p99_ms=(10.0, 20.0),
    capacity_in=LearnedCapacity(bytes_per_s=60e6, seen_at_ms=START_MS - HOUR_MS),
)
CHANGE = ChangeEvent(
    cluster="c",
    measure=ChangedMeasure.CLIENT_LATENCY,
    is_unusual=False,
    before=1.0,
    after=2.0,
    since_ms=START_MS,
    found_at_ms=START_MS,
    broker=7,
)


def samples(now_ms: int, counts: LearnCounts) -> dict[tuple[str, tuple[str, ...]], float]:
    collector = LearnCollector({"c": counts}, lambda: now_ms / 1000)
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in collector.collect()
        for sample in family.samples
    }


def test_profile_is_shown_by_the_hour_of_now() -> None:
    found = samples(START_MS + HOUR_MS + 1, LearnCounts(profiles=(PROFILE,)))
    assert found["rheostat_forecast_bytes_per_second", ("c", "7", "in", "12h")] == 13e6
    assert found["rheostat_forecast_error_bytes_per_second", ("c", "7", "in", "12h")] == 12.0
    assert ("rheostat_forecast_error_bytes_per_second", ("c", "7", "in", "168h")) not in found
    assert found["rheostat_baseline_p99_seconds", ("c", "7")] == 0.02
    assert found["rheostat_learned_capacity_bytes_per_second", ("c", "7", "in")] == 60e6
    assert round(found["rheostat_learned_capacity_age_seconds", ("c", "7", "in")]) == 7200
    assert ("rheostat_forecast_bytes_per_second", ("c", "7", "out", "1h")) not in found


def test_event_is_shown_for_a_day() -> None:
    counts = LearnCounts(events=(CHANGE,))
    key = ("rheostat_change_point", ("c", "client_latency", "7", "", ""))
    assert samples(START_MS + 23 * HOUR_MS, counts)[key] == 1.0
    assert key not in samples(START_MS + 25 * HOUR_MS, counts)


def test_old_profile_shows_no_forecast() -> None:
    found = samples(START_MS + 10 * 24 * HOUR_MS, LearnCounts(profiles=(PROFILE,)))
    assert not [
        name for name, _ in found if name in ("rheostat_forecast_bytes_per_second", "rheostat_baseline_p99_seconds")
    ]


def test_left_out_brokers_and_tenants_are_counted() -> None:
    found = samples(START_MS, LearnCounts(brokers_left_out=3, tenants_left_out=5))
    assert found["rheostat_learn_left_out", ("c", "broker")] == 3.0
    assert found["rheostat_learn_left_out", ("c", "tenant")] == 5.0
