"""Answers in `rheostat quotas` which tenants a total rate would hold back, on a cluster without quotas that limit them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streaming.shared.contract.quotas import QuotaEntity
from streaming.shared.units import count_text
from tuner.control.mutation_quota.default_quota import UNLIMITED_PER_S
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.model import MutationPolicy
from tuner.control.mutation_quota.what_if import share_total
from tuner.core.mutation_rates import Bound, MutationSource, SourcedRate
from tuner.core.operator_orders import Orders, QuotaTrialKind

_SOURCE_TEXTS = {
    "option": "as asked",
    "calibration": "as calibrated",
    "estimate": "as estimated now from the controller's load",
}


@dataclass(frozen=True, slots=True)
class ChosenTotal:
    """The total, in partitions/s, and its source: ``option``, ``calibration`` or ``estimate``."""

    per_s: float
    source: str


def choose_total(asked_per_s: float | None, orders: Orders, estimated_per_s: float | None) -> ChosenTotal | None:
    """Returns the assumed total; None if no total is known."""
    trial = orders.trials.get(QuotaTrialKind.CALIBRATE)
    if asked_per_s is not None:
        return ChosenTotal(asked_per_s, "option")
    if trial is not None and trial.total_per_s is not None:
        return ChosenTotal(trial.total_per_s, "calibration")
    return None if estimated_per_s is None else ChosenTotal(estimated_per_s, "estimate")


def is_any_tenant_limited(quotas: Mapping[QuotaEntity, float]) -> bool:
    """Whether a quota may limit a tenant; a quota that is only for metering does not."""
    return any(rate < UNLIMITED_PER_S for rate in quotas.values())


def rates_of(rows: Iterable[Mapping[str, Any]] | None) -> dict[Tenant, float]:
    """Returns partitions/s by tenant, from the rows of the report."""
    return {Tenant(row["user"], row["client_id"]): row["demand_per_s"] for row in rows or ()}


def what_if_json(
    rates_per_s: Mapping[Tenant, float], all_clients: SourcedRate | None, total: ChosenTotal, policy: MutationPolicy
) -> dict[str, Any]:
    """Returns the answer as one JSON object; ``rate_source`` is null if Kafka counts no tenant.

    Args:
        all_clients: the rate of all clients together, which may be known even if Kafka counts no tenant; None if not measured.
    """
    return {
        "total_per_s": total.per_s,
        "total_source": total.source,
        "rate_source": MutationSource.QUOTA_ACCOUNTS.value if rates_per_s else None,
        "all_clients": None
        if all_clients is None
        else {"per_s": all_clients.per_s, "source": all_clients.source.value, "bound": all_clients.bound.value},
        "tenants": [
            {
                "user": share.tenant.user,
                "client_id": share.tenant.client_id,
                "rate_per_s": share.rate_per_s,
                "share_per_s": share.share_per_s,
                "held_back": share.is_held_back,
                "exempt": share.is_exempt,
                "rule": share.rule,
            }
            for share in share_total(rates_per_s, total.per_s, policy)
        ],
    }


def what_if_text(what_if: Mapping[str, Any]) -> str:
    """Returns the answer as a sentence."""
    condition = f"If the total were {what_if['total_per_s']:g} partitions/s ({_SOURCE_TEXTS[what_if['total_source']]})"
    rows = what_if["tenants"]
    if not rows:
        unknown = "which tenants would be held back is not known, because Kafka counts no tenant."
        return f"{condition}: {_all_clients_text(what_if)}{unknown}"
    held_back = sum(row["held_back"] for row in rows)
    if not held_back:
        used_per_s = sum(row["rate_per_s"] for row in rows)
        return f"{condition}: no tenant would be held back. All tenants together create and delete {used_per_s:.2f}/s."
    return f"{condition}: {held_back} of {count_text(len(rows), 'tenant')} would be held back."


_BOUND_TEXTS = {Bound.EXACT: "", Bound.AT_LEAST: "at least ", Bound.AT_MOST: "at most "}
_RATE_SOURCE_TEXTS = {
    MutationSource.PARTITION_COUNT: "from the number of partitions",
    MutationSource.TOPIC_COUNT: "from the number of topics",
    MutationSource.REQUEST_COUNT: "from the number of requests",
    MutationSource.QUOTA_ACCOUNTS: "from Kafka's quota accounts",
}


def _all_clients_text(what_if: Mapping[str, Any]) -> str:
    """Returns a text about the rate of all clients together, and its source; empty if the rate was not measured."""
    rate = what_if["all_clients"]
    if rate is None:
        return ""
    bound, source = _BOUND_TEXTS[Bound(rate["bound"])], _RATE_SOURCE_TEXTS[MutationSource(rate["source"])]
    relation = "more than" if rate["per_s"] > what_if["total_per_s"] else "within"
    return f"all clients create and delete {bound}{rate['per_s']:.2f}/s ({source}), {relation} this total; "
