"""Reads the mutation rates of tenants from the metrics of the active controller. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from streaming.shared.contract import Metric, Sample
from tuner.control.mutation_quota.entity import Tenant


def is_active_controller(samples: Sequence[Sample]) -> bool:
    return any(s.name == Metric.ACTIVE_CONTROLLER and s.value == 1 for s in samples)


def tenant_rates_per_s(samples: Mapping[int, Sequence[Sample]]) -> dict[Tenant, float] | None:
    """Returns partitions/s by tenant, from Kafka's own mean over some seconds; None if no active controller answers."""
    active = next((each for _, each in sorted(samples.items()) if is_active_controller(each)), None)
    if active is None:
        return None
    return {
        tenant: sample.value
        for sample in active
        if sample.name == Metric.MUTATION_RATE and math.isfinite(sample.value)
        if (tenant := tenant_of(sample.labels)) is not None
    }


def tenant_of(labels: str) -> Tenant | None:
    """Returns the tenant of labels such as ``client_id=app,user=alice``; None if the labels name no tenant.

    Kafka quotes commas and equal signs in names, so the text can be split at them.
    """
    names = dict(part.split("=", 1) for part in labels.split(",") if "=" in part)
    user, client_id = unquote(names.get("user", "")) or None, unquote(names.get("client_id", "")) or None
    return None if user is None and client_id is None else Tenant(user, client_id)


@dataclass(frozen=True, slots=True)
class TenantMeasure:
    """The rates of one tenant over the measurement, in partitions/s."""

    tenant: Tenant
    last_per_s: float
    mean_per_s: float
    peak_per_s: float


def measure_tenants(readings: Iterable[Mapping[Tenant, float]]) -> list[TenantMeasure]:
    """Returns a row for each tenant, the busiest first. A tenant that is missing in a reading counts as idle at that time."""
    all_readings = list(readings)
    tenants = {tenant for reading in all_readings for tenant in reading}
    rows = [
        TenantMeasure(
            tenant,
            last_per_s=all_readings[-1].get(tenant, 0.0),
            mean_per_s=math.fsum(r.get(tenant, 0.0) for r in all_readings) / len(all_readings),
            peak_per_s=max(r.get(tenant, 0.0) for r in all_readings),
        )
        for tenant in tenants
    ]
    return sorted(rows, key=lambda row: (-row.mean_per_s, row.tenant.key))
