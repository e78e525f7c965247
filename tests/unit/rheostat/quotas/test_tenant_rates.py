"""Tests how the rates of tenants are read from the active controller's metrics."""

from __future__ import annotations

import math

import pytest

from rheostat.quotas.measure.tenant_rates import TenantMeasure, measure_tenants, tenant_of, tenant_rates_per_s
from streaming.shared.contract import Metric, Sample
from tuner.control.mutation_quota.entity import Tenant

ACTIVE = Sample(Metric.ACTIVE_CONTROLLER, "", 1)
APP, OPS = Tenant("alice", "app"), Tenant("alice", "ops")


def rate(labels: str, per_s: float) -> Sample:
    return Sample(Metric.MUTATION_RATE, labels, per_s)


def test_rates_are_those_of_active_controller() -> None:
    stale = [Sample(Metric.ACTIVE_CONTROLLER, "", 0), rate("client_id=app,user=alice", 99.0)]
    active = [ACTIVE, rate("client_id=app,user=alice", 4.5), rate("client_id=ops,user=alice", math.nan)]
    assert tenant_rates_per_s({100: stale, 101: active}) == {APP: 4.5}
    assert tenant_rates_per_s({100: stale}) is None


@pytest.mark.parametrize(
    ("labels", "tenant"),
    [
        ("client_id=app,user=alice", APP),
        ("user=CN%3Da%2CO%3Db", Tenant("CN=a,O=b")),
        ("client_id=app", Tenant(client_id="app")),
        ("", None),
    ],
)
def test_tenant_is_read_from_quoted_labels(labels: str, tenant: Tenant | None) -> None:
    assert tenant_of(labels) == tenant


def test_measure_covers_tenants_that_come_and_go() -> None:
    rows = measure_tenants([{APP: 4.0}, {APP: 2.0, OPS: 9.0}])
    assert rows == [
        TenantMeasure(OPS, last_per_s=9.0, mean_per_s=4.5, peak_per_s=9.0),
        TenantMeasure(APP, last_per_s=2.0, mean_per_s=3.0, peak_per_s=4.0),
    ]
    assert measure_tenants([]) == []
