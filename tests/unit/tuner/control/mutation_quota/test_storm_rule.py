"""The storm rule: when a storm begins and ends, whom it names, and which quota would end it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from mutation_rig import START_MS

from streaming.shared.contract import ControllerSignal, TenantSignal
from tuner.control.mutation_quota.storm import Storm, StormState, quota_command, watch_storm
from tuner.core.controller import ClusterWideMeasures
from tuner.core.controller_pressure import Measure
from tuner.core.mutation_rates import MutationRates, TenantRate, mutation_rates

LATE = ClusterWideMeasures(apply_lag_ms=2_400.0)
IDLE = ClusterWideMeasures(apply_lag_ms=300.0, forwarding_busy_ratio=0.1)


def rates(*tenants: tuple[str, float], **fields: Any) -> MutationRates:
    known: dict[str, Any] = {
        "active": 1.0, "idle_ratio": 0.9, "metadata_records_per_s": 150.0, "create_requests_per_s": 10.0,
        "delete_requests_per_s": 5.0, "partitions_created_per_s": 80.0, "partitions_deleted_per_s": 20.0,
        "topics_created_per_s": 20.0, "topics_deleted_per_s": 5.0,
    }  # fmt: skip
    signal = ControllerSignal("c", 100, START_MS + 500, START_MS, 6, 1.0, **(known | fields))
    accounts = [
        TenantSignal("c", 100, START_MS + 500, START_MS, 6, 1.0, None, name, per_s, 1e20) for name, per_s in tenants
    ]
    found = mutation_rates({100: signal}, {}, accounts, START_MS)
    assert found is not None
    return found


def watched(*looks: tuple[float, MutationRates | None, ClusterWideMeasures]) -> list[Storm | None]:
    """The storm after each look: seconds, rates and measures."""
    state, storms = StormState(), []
    for at_s, one, measures in looks:
        state = watch_storm(state, one, measures, {}, START_MS + round(at_s * 1000))
        storms.append(state.storm)
    return storms


def test_storm_begins_after_ten_seconds_and_ends_after_thirty() -> None:
    storms = watched(
        (0, rates(), LATE), (5, rates(), LATE), (10, rates(), LATE), (15, rates(), IDLE), (20, rates(), LATE),
        (45, rates(), IDLE), (50, rates(), IDLE), (55, rates(), LATE),
    )  # fmt: skip
    assert [storm is not None for storm in storms] == [False, False, True, True, True, True, False, False]
    first = storms[2]
    assert first is not None
    assert (first.since_ms, first.pressure.measure, first.mutations_per_s) == (START_MS, Measure.APPLY_LAG, 100.0)


def test_interrupted_pressure_is_no_storm() -> None:
    assert watched((0, rates(), LATE), (5, rates(), IDLE), (10, rates(), LATE), (15, rates(), LATE))[-1] is None


def test_storm_without_signals_ends_after_a_window() -> None:
    looks = [(at_s, rates(), LATE) for at_s in (0, 10)]
    storms = watched(*looks, (20, None, ClusterWideMeasures()), (40, None, ClusterWideMeasures()))
    assert [storm is not None for storm in storms] == [False, True, True, False]


@pytest.mark.parametrize(
    ("fields", "measures", "measure"),
    [
        ({"idle_ratio": 0.1}, IDLE, Measure.IDLE),
        ({"event_queue_time_mean_ms": 700.0}, IDLE, Measure.QUEUE),
        ({}, LATE, Measure.APPLY_LAG),
        ({}, replace(IDLE, forwarding_busy_ratio=0.6), Measure.FORWARDING),
        ({}, IDLE, None),
        # A light load has another cause, whatever the pressure.
        (
            {
                "partitions_created_per_s": 3.0,
                "partitions_deleted_per_s": 0.0,
                "create_requests_per_s": 2.0,
                "delete_requests_per_s": 1.0,
            },
            LATE,
            None,
        ),
        # Creations and deletions in balance leave the number of partitions as it is.
        (
            {
                "partitions_created_per_s": 1.0,
                "partitions_deleted_per_s": 0.0,
                "create_requests_per_s": 20.0,
                "delete_requests_per_s": 20.0,
            },
            LATE,
            Measure.APPLY_LAG,
        ),
        # A quota refuses nearly all requests.
        (
            {
                "partitions_created_per_s": 1.0,
                "partitions_deleted_per_s": 0.0,
                "create_requests_per_s": 20.0,
                "mutations_rejected_per_s": 22.0,
            },
            LATE,
            None,
        ),
        # A restart writes most of the records.
        ({"metadata_records_per_s": 2_000.0}, LATE, None),
        # Each of a tenant's balanced requests writes many records, as measured on a real cluster. Forwarding has no other cause.
        (
            {
                "partitions_created_per_s": 0.6,
                "partitions_deleted_per_s": 0.3,
                "topics_created_per_s": 0.2,
                "topics_deleted_per_s": 0.1,
                "create_requests_per_s": 22.7,
                "delete_requests_per_s": 22.5,
                "metadata_records_per_s": 259.0,
            },
            replace(LATE, forwarding_busy_ratio=0.76),
            Measure.FORWARDING,
        ),
        ({"metadata_records_per_s": 2_000.0}, replace(LATE, forwarding_busy_ratio=0.4), None),
        ({"metadata_records_per_s": None}, LATE, Measure.APPLY_LAG),
        ({"partitions_created_per_s": None}, LATE, None),
    ],
)
def test_storm_needs_pressure_caused_by_mutations(
    fields: dict[str, Any], measures: ClusterWideMeasures, measure: Measure | None
) -> None:
    storm = watched((0, rates(**fields), measures), (10, rates(**fields), measures))[-1]
    assert (storm.pressure.measure if storm is not None else None) == measure


def test_storm_subtracts_the_lag_of_the_idle_cluster() -> None:
    # 1,100 ms at an idle baseline of 400: 700 of the allowed 600.
    state = watch_storm(StormState(), rates(), ClusterWideMeasures(apply_lag_ms=1_100.0), {"apply_lag_ms": 400.0}, 0)
    assert state.high_since_ms == 0
    below = watch_storm(StormState(), rates(), ClusterWideMeasures(apply_lag_ms=990.0), {"apply_lag_ms": 400.0}, 0)
    assert below.high_since_ms is None


@pytest.mark.parametrize(
    ("tenants", "named"),
    [
        ([], []),
        ([("etl", 90.0), ("calm", 5.0)], ["etl"]),
        ([("a", 30.0), ("b", 30.0), ("c", 20.0), ("d", 10.0)], ["a", "b"]),
        ([(f"t{n}", 10.0) for n in range(8)], []),
        ([("idle", 0.0)], []),
    ],
)
def test_fewest_tenants_with_half_of_mutations_are_named(tenants: list[tuple[str, float]], named: list[str]) -> None:
    storm = watched((0, rates(*tenants), LATE), (10, rates(*tenants), LATE))[-1]
    assert storm is not None
    assert [tenant.client_id for tenant in storm.tenants] == named


def test_quota_halves_the_bearable_rate_and_keeps_what_any_controller_sustains() -> None:
    loud = {"partitions_created_per_s": 800.0}
    storm = watched((0, rates(**loud), LATE), (10, rates(**loud), LATE))[-1]
    assert storm is not None
    assert storm.quota_per_s == round(820.0 / 2.4 / 2)
    quiet = watched((0, rates(), LATE), (10, rates(), LATE))[-1]
    assert quiet is not None
    assert quiet.quota_per_s == 25.0


@pytest.mark.parametrize(
    ("rate_per_s", "pressure", "tenants", "quota_per_s"),
    [
        (
            1000.0,
            1.5,
            [("a", 500.0), *((f"t{n}", 125.0) for n in range(4))],
            25.0,
        ),  # The others alone take half of the rate.
        (1000.0, 1.5, [("a", 800.0), ("b", 200.0)], 133.0),
        (900.0, 1.2, [("a", 290.0), ("b", 290.0), ("c", 320.0)], 43.0),  # Two of them are named.
        (900.0, 1.2, [(name, 180.0) for name in "abcde"], 25.0),
    ],
)
def test_quota_of_the_named_tenants_ends_the_storm(
    rate_per_s: float, pressure: float, tenants: list[tuple[str, float]], quota_per_s: float
) -> None:
    loud = rates(
        *tenants, partitions_created_per_s=rate_per_s, partitions_deleted_per_s=0.0, metadata_records_per_s=None
    )
    measures = ClusterWideMeasures(apply_lag_ms=1_000.0 * pressure)
    storm = watched((0, loud, measures), (10, loud, measures))[-1]
    assert storm is not None
    assert storm.mutations_per_s == rate_per_s
    assert storm.quota_per_s == quota_per_s
    assert len(storm.commands) == len(storm.tenants)
    named = {tenant.client_id for tenant in storm.tenants}
    rate_after = sum(min(per_s, storm.quota_per_s) if name in named else per_s for name, per_s in tenants)
    assert rate_after * pressure / rate_per_s < 1


def test_storm_names_the_next_tenants_once_the_first_are_limited() -> None:
    def named(*tenants: tuple[str, float]) -> list[str | None]:
        per_s = sum(rate for _, rate in tenants)
        loud = rates(
            *tenants, partitions_created_per_s=per_s, partitions_deleted_per_s=0.0, metadata_records_per_s=None
        )
        measures = ClusterWideMeasures(apply_lag_ms=2.0 * per_s)  # A pressure of 4 at 2,000 mutations/s.
        storm = watched((0, loud, measures), (10, loud, measures))[-1]
        return [tenant.client_id for tenant in storm.tenants] if storm is not None else []

    assert named(("a", 1000.0), ("b", 900.0), ("c", 100.0)) == ["a"]
    assert named(("a", 25.0), ("b", 900.0), ("c", 100.0)) == ["b"]
    assert named(("a", 25.0), ("b", 25.0), ("c", 100.0)) == []


HEAD = "kafka-configs --bootstrap-server $BOOTSTRAP --alter"


@pytest.mark.parametrize(
    ("tenant", "entity"),
    [
        (None, "--entity-type clients --entity-default"),
        ((None, "etl"), "--entity-type clients --entity-name etl"),
        (("alice", None), "--entity-type users --entity-name alice"),
        (("alice", "etl"), "--entity-type users --entity-name alice --entity-type clients --entity-name etl"),
    ],
)
def test_command_names_the_entity_of_the_tenant(tenant: tuple[str | None, str | None] | None, entity: str) -> None:
    rate = None if tenant is None else TenantRate(user=tenant[0], client_id=tenant[1], per_s=1.0, tokens=None)
    assert quota_command(rate, 25.0) == f"{HEAD} {entity} --add-config controller_mutation_rate=25"


def test_command_quotes_hostile_client_id() -> None:
    odd = "x'; rm -rf / #"
    command = quota_command(TenantRate(user=None, client_id=odd, per_s=1.0, tokens=None), 25.0)
    assert odd in shlex.split(command)
