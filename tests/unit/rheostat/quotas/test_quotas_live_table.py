"""Tests the table of `rheostat quotas`, its exit code, and `--watch`."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from rheostat.errors import UnreachableError
from rheostat.quotas.live import exit_code, print_quotas, watch_quotas
from rheostat.quotas.what_if import ChosenTotal, choose_total, is_any_tenant_limited, what_if_json
from tuner.control.mutation_quota.default_quota import EVERY_PAIR
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.metering_trial import TRIAL_PER_S
from tuner.control.mutation_quota.model import MutationPolicy
from tuner.core.mutation_rates import Bound, MutationSource, SourcedRate
from tuner.core.operator_orders import Orders, QuotaTrial, QuotaTrialKind


def found(**changes: Any) -> dict[str, Any]:
    row = {
        "user": None, "client_id": "nightly", "demand_per_s": 4.25, "quota_per_s": 12.5, "quota_setpoint_per_s": 12.5,
        "tokens": 137.5, "throttled": False, "managed": True, "rule": 0, "reason": "standing_share",
    }  # fmt: skip
    return {
        "enabled": True, "pressure": 0.4, "total_text": "50.0 partitions/s in all", "holds": [], "tenants": [row],
        "quotas": [{"entity": "client-id 'nightly'", "rate_per_s": 12.5, "managed": True}],
        "what_if": None, "metering_left": False,
    } | changes  # fmt: skip


def told(what: dict[str, Any], width: int = 120) -> str:
    console = Console(width=width, record=True)
    with console.capture() as capture:
        print_quotas(what, console)
    return capture.get()


def test_table_shows_tenant_in_one_line_with_reason() -> None:
    [line] = [line for line in told(found()).splitlines() if line.strip().startswith("client-id nightly")]
    assert line.split() == [
        "client-id",
        "nightly",
        "4.25",
        "12.5",
        "12.5",
        "137.5",
        "yes",
        "standing",
        "share",
        "(rule",
        "1)",
    ]


def test_table_fits_eighty_columns() -> None:
    assert max(map(len, told(found(), 80).splitlines())) <= 80
    assert "137.5" in told(found(), 80)


def test_table_without_tenants_explains_kafka_metering() -> None:
    assert "Kafka meters mutations only for tenants with a quota" in told(found(tenants=[]))


def test_table_without_setting_says_quotas_not_managed() -> None:
    assert "tuner.mutation_quota is not set" in told(found(enabled=False))


@pytest.mark.parametrize(
    ("changes", "code"),
    [({}, 0), ({"pressure": 1.2}, 1), ({"pressure": None}, 0), ({"tenants": [{"throttled": True}]}, 1)],
)
def test_exit_code_reports_limited_tenant_or_exceeded_objective(changes: dict[str, Any], code: int) -> None:
    assert exit_code(found(**changes)) == code


def test_watch_continues_after_failed_refresh() -> None:
    console, looks = Console(width=120), iter([found(), None, found(total_text="60.0 partitions/s in all")])
    pauses = iter([None, None, None])

    def look() -> dict[str, Any]:
        seen = next(looks)
        if seen is None:
            raise UnreachableError("No broker answers")
        return seen

    def pause(_: float) -> None:
        if next(pauses, KeyboardInterrupt) is KeyboardInterrupt:
            raise KeyboardInterrupt

    with console.capture() as capture, pytest.raises(KeyboardInterrupt):
        watch_quotas(found(), look, console, pause)
    told = capture.get()
    assert told.count("client-id nightly") == 3
    assert told.index("The refresh failed; the table shows the previous state: No broker answers") < told.index(
        "60.0 partitions/s in all"
    )


NIGHTLY, OPS = Tenant(client_id="nightly"), Tenant(client_id="ops")


def answer(total: ChosenTotal, rates: dict[Tenant, float]) -> str:
    return told(found(what_if=what_if_json(rates, None, total, MutationPolicy())))


def test_what_if_lists_tenants_that_total_would_hold_back() -> None:
    text = answer(ChosenTotal(20.0, "option"), {NIGHTLY: 50.0, OPS: 2.0})
    assert "If the total were 20 partitions/s (as asked): 1 of 2 tenants would be held back." in text
    [line] = [line for line in text.splitlines() if "50.00" in line]
    assert line.split() == ["client-id", "nightly", "50.00", "18.00"]


def test_what_if_names_calibration_and_no_tenant_held_back() -> None:
    text = answer(ChosenTotal(60.0, "calibration"), {NIGHTLY: 50.0, OPS: 2.0})
    assert "(as calibrated): no tenant would be held back. All tenants together create and delete 52.00/s." in text


def test_what_if_without_books_says_that_tenants_are_unknown() -> None:
    text = " ".join(answer(ChosenTotal(60.0, "estimate"), {}).split())
    assert "which tenants would be held back is not known, because Kafka counts no tenant" in text


@pytest.mark.parametrize(("total_per_s", "relation"), [(5.0, "more than"), (60.0, "within")])
def test_what_if_without_tenants_compares_all_clients_with_total(total_per_s: float, relation: str) -> None:
    rate = SourcedRate(per_s=12.5, source=MutationSource.PARTITION_COUNT, bound=Bound.AT_LEAST)
    what_if = what_if_json({}, rate, ChosenTotal(total_per_s, "option"), MutationPolicy())
    assert what_if["all_clients"] == {"per_s": 12.5, "source": "partition_count", "bound": "at_least"}
    expected = f"at least 12.50/s (from the number of partitions), {relation} this total; which tenants"
    assert expected in " ".join(told(found(what_if=what_if)).split())


@pytest.mark.parametrize(
    ("asked", "calibrated", "estimated", "source"),
    [
        (5.0, 6.0, 7.0, "option"),
        (None, 6.0, 7.0, "calibration"),
        (None, None, 7.0, "estimate"),
        (None, None, None, None),
    ],
)
def test_total_is_asked_else_calibrated_else_estimated(
    asked: float | None, calibrated: float | None, estimated: float | None, source: str | None
) -> None:
    trial = QuotaTrial(QuotaTrialKind.CALIBRATE, 1, 2, "ops", calibrated)
    total = choose_total(asked, Orders(trials={trial.kind: trial}), estimated)
    assert (None if total is None else total.source) == source


def test_metering_quota_limits_no_tenant() -> None:
    assert not is_any_tenant_limited({EVERY_PAIR: TRIAL_PER_S})
    assert is_any_tenant_limited({NIGHTLY.entity: 5.0})


def test_leftover_of_measurement_is_reported_with_its_removal() -> None:
    assert "`rheostat quotas measure --clear` removes it" in " ".join(told(found(metering_left=True)).split())
