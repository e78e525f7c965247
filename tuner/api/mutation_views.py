"""The JSON values and the sentences about mutation rates and storms."""

from __future__ import annotations

from typing import Any

from tuner.api.mutation_store import MutationSnapshot
from tuner.control.mutation_quota.storm import Storm
from tuner.core.mutation_rates import MutationRates, MutationRequestRate, SourcedRate, TenantRate

NOT_MEASURED = (
    "No active Kafka controller is measured, so the mutation rates are unknown. The controllers need the JMX agent, and "
    "`collector.endpoints` must name them; `rheostat doctor` checks both."
)
NO_ACCOUNTS = (
    "Kafka counts the partitions of each tenant only after a mutation quota has been set, and none is set. `rheostat quotas "
    "measure` lets Kafka count for a while, and limits no tenant."
)
SCATTERED = "Even the three busiest tenants together cause less than half of the mutations."


def mutations_json(snapshot: MutationSnapshot | None) -> dict[str, Any]:
    """Returns the mutation rates as JSON values; a value that was not measured is None."""
    rates = snapshot.rates if snapshot is not None else None
    signal = rates.controller if rates is not None else None
    wide = snapshot.cluster_wide if snapshot is not None and rates is not None else None
    return {
        "unknown_reason": NOT_MEASURED if rates is None else None,
        "observed_at_ms": snapshot.at_ms if snapshot is not None else None,
        "controller": signal.node if signal is not None else None,
        "mutations": _rate_json(rates.mutations if rates is not None else None),
        "partitions_created": _rate_json(rates.partitions_created if rates is not None else None),
        "partitions_deleted": _rate_json(rates.partitions_deleted if rates is not None else None),
        "topics_created": _rate_json(rates.topics_created if rates is not None else None),
        "topics_deleted": _rate_json(rates.topics_deleted if rates is not None else None),
        "requests": [_request_json(request) for request in rates.requests.values()] if rates is not None else [],
        "refused_requests_per_s": signal.mutations_rejected_per_s if signal is not None else None,
        "idle_ratio": signal.idle_ratio if signal is not None else None,
        "event_queue_ms": signal.event_queue_time_mean_ms if signal is not None else None,
        "requests_in_progress": signal.topic_requests_in_progress_mean if signal is not None else None,
        "apply_lag_ms": wide.apply_lag_ms if wide is not None else None,
        "forwarding_busy_ratio": wide.forwarding_busy_ratio if wide is not None else None,
        "accounted_per_s": rates.accounted_per_s if rates is not None else None,
        "tenants_total": rates.tenant_count if rates is not None else None,
        "tenants": [_tenant_json(tenant) for tenant in rates.tenants] if rates is not None else [],
        "tenants_unknown_reason": NO_ACCOUNTS if rates is not None and not rates.tenants else None,
        "storm": _storm_json(snapshot.storm, rates) if snapshot is not None and snapshot.storm is not None else None,
    }


def storm_text(storm: Storm) -> str:
    """Returns a text about the storm, and about the tenant that causes it if that tenant is known."""
    text = (
        f"Creations and deletions of topics overload the controller: {storm.mutations_per_s:.0f} partitions per second, and "
        f"{storm.pressure}."
    )
    if not storm.tenants:
        return text
    names = " and ".join(tenant_name(tenant) for tenant in storm.tenants)
    return f"{text} Most of these creations and deletions come from {names}."


def tenant_name(tenant: TenantRate) -> str:
    parts = [f'user "{tenant.user}"'] if tenant.user is not None else []
    parts += [f'client-id "{tenant.client_id}"'] if tenant.client_id is not None else []
    return ", ".join(parts)


def _rate_json(rate: SourcedRate | None) -> dict[str, Any] | None:
    return None if rate is None else {"per_s": rate.per_s, "source": rate.source.value, "bound": rate.bound.value}


def _request_json(request: MutationRequestRate) -> dict[str, Any]:
    return {
        "request": request.kind.value,
        "per_s": request.rate.per_s,
        "source": request.rate.source.value,
        "bound": request.rate.bound.value,
        "mean_ms": request.mean_ms,
        "old_ratio": request.old_ratio,
        "refused_from_version": request.refused_from_version,
    }


def _tenant_json(tenant: TenantRate) -> dict[str, Any]:
    return {"user": tenant.user, "client_id": tenant.client_id, "per_s": tenant.per_s, "tokens": tenant.tokens}


def _storm_json(storm: Storm, rates: MutationRates | None) -> dict[str, Any]:
    unknown_reason = None
    if not storm.tenants:
        unknown_reason = SCATTERED if rates is not None and rates.tenants else NO_ACCOUNTS
    return {
        "since_ms": storm.since_ms,
        "text": storm_text(storm),
        "mutations_per_s": storm.mutations_per_s,
        "pressure": storm.pressure.ratio,
        "measure": storm.pressure.measure.value,
        "tenants": [_tenant_json(tenant) for tenant in storm.tenants],
        "tenant_unknown_reason": unknown_reason,
        "quota_per_s": storm.quota_per_s,
        "commands": list(storm.commands),
    }
