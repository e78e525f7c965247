"""Finds a storm: creations and deletions of topics that overload the controller, whether a mutation quota exists or not.

There is a storm if all of this is true for ``_STARTS_AFTER_S``:

- The pressure on the controller is at least 1, measured against ``STORM_OBJECTIVE``.
- Mutations are more than a light load. Below that, the pressure has another cause.
- Mutations write a good part of the metadata log. A restart of a broker, or a reassignment, writes thousands of other records. If
    the third condition is not met, only the time that brokers spend on forwarding mutations is used as pressure, because it has no
    other cause. This matters if a tenant deletes as much as it creates: then only its requests are known, and each request writes
    many records.

A storm ends when the pressure or the mutations have been lower for ``_ENDS_AFTER_S``. Pure: the caller keeps the state.

The tenants that cause the storm are known only from Kafka's quota accounts, which exist only if a mutation quota has been set.
Without them, the suggested command limits every client-id, which also makes Kafka keep the accounts.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from streaming.shared.contract import ControllerSignal
from tuner.control.mutation_quota.model import MutationLimits
from tuner.core.controller import ClusterWideMeasures, ControllerObjective
from tuner.core.controller_pressure import IdleBaselines, Pressure, forwarding_pressure, worst_pressure
from tuner.core.mutation_rates import MutationRates, TenantRate

# Idle ratio and queue time: the same as the defaults of the objective. Apply lag: an idle controller writes a record every 500 ms
# (metadata.max.idle.interval.ms), so the lag is up to 500 ms while all nodes are up to date. With twice as much they fall behind.
# Forwarding: a broker forwards one request at a time. If it is busy half of the time, a request takes twice as long as alone (M/M/1
# queue).
STORM_OBJECTIVE = ControllerObjective(apply_lag_ms_max=1_000.0, forwarding_busy_ratio_max=0.5)
# A creation writes a record for each partition, and others for the topic and its settings.
_RECORD_RATIO_MIN = 0.25
_STARTS_AFTER_S = 10.0  # Two signals, because many harmless requests keep the controller busy for a moment.
_ENDS_AFTER_S = 30.0  # One window of signals.
_NAMED_RATIO_MIN = 0.5  # The named tenants cause at least this share of the mutations.
_TENANTS_NAMED_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """A storm in progress.

    Attributes:
        tenants: the tenants that cause most of the mutations; empty: Kafka does not tell.
        quota_per_s: partitions/s to which a quota should limit each of these tenants, or every client-id if none is named. The
            tenants that are not named keep their rates.
    """

    since_ms: int
    pressure: Pressure
    mutations_per_s: float
    tenants: tuple[TenantRate, ...]
    quota_per_s: float

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that limit the storm: one for each named tenant, or one for every client-id."""
        return tuple(quota_command(tenant, self.quota_per_s) for tenant in self.tenants or (None,))


@dataclass(frozen=True, slots=True, kw_only=True)
class StormState:
    """The state of the detection between two calls.

    Attributes:
        high_since_ms: since when the pressure and the mutations have been high; None: they are not.
        high_until_ms: when both were last high; None: never.
        storm: None: there is no storm.
    """

    high_since_ms: int | None = None
    high_until_ms: int | None = None
    storm: Storm | None = None


def watch_storm(
    state: StormState,
    rates: MutationRates | None,
    cluster_wide: ClusterWideMeasures,
    baselines: IdleBaselines,
    now_ms: int,
) -> StormState:
    """Returns the state after the newest signals. Without signals a storm lasts no longer than ``_ENDS_AFTER_S``."""
    pressure = _storm_pressure(rates, cluster_wide, baselines) if rates is not None else None
    mutations_per_s = _mutations_per_s(rates) if rates is not None else None
    if pressure is None or rates is None or mutations_per_s is None:
        until_ms = state.high_until_ms
        is_over = until_ms is None or now_ms - until_ms >= _ENDS_AFTER_S * 1000
        return StormState() if is_over else replace(state, high_since_ms=state.high_since_ms if state.storm else None)
    since_ms = state.high_since_ms if state.high_since_ms is not None else now_ms
    if state.storm is None and now_ms - since_ms < _STARTS_AFTER_S * 1000:
        return StormState(high_since_ms=since_ms, high_until_ms=now_ms)
    tenants = _culprits(rates)
    storm = Storm(
        since_ms=since_ms,
        pressure=pressure,
        mutations_per_s=mutations_per_s,
        tenants=tenants,
        quota_per_s=_quota_per_s(mutations_per_s, pressure, tenants, rates.accounted_per_s),
    )
    return StormState(high_since_ms=since_ms, high_until_ms=now_ms, storm=storm)


def quota_command(tenant: TenantRate | None, per_s: float) -> str:
    """Returns the command of Kafka that limits a tenant; None: that limits every client-id."""
    entity = "--entity-type clients --entity-default"
    if tenant is not None:
        parts = []
        if tenant.user is not None:
            parts.append(f"--entity-type users --entity-name {shlex.quote(tenant.user)}")
        if tenant.client_id is not None:
            parts.append(f"--entity-type clients --entity-name {shlex.quote(tenant.client_id)}")
        entity = " ".join(parts) or entity
    return (
        f"kafka-configs --bootstrap-server $BOOTSTRAP --alter {entity} --add-config controller_mutation_rate={per_s:g}"
    )


def _storm_pressure(
    rates: MutationRates, cluster_wide: ClusterWideMeasures, baselines: IdleBaselines
) -> Pressure | None:
    """Returns the pressure of a storm; None: there is none."""
    limits = MutationLimits()
    mutations_per_s = _mutations_per_s(rates)
    if mutations_per_s is None or mutations_per_s < limits.light_load_ratio * limits.rate_per_s_safe:
        return None
    if _write_much_of_the_log(rates.controller, mutations_per_s):
        pressure = worst_pressure(rates.controller, cluster_wide, STORM_OBJECTIVE, baselines)
    else:
        pressure = forwarding_pressure(cluster_wide, STORM_OBJECTIVE)
    return pressure if pressure is not None and pressure.ratio >= 1 else None


def _write_much_of_the_log(signal: ControllerSignal, mutations_per_s: float) -> bool:
    """Returns whether mutations write a good part of the metadata log; True if its records are not counted."""
    records_per_s = signal.metadata_records_per_s
    topics_per_s = (signal.topics_created_per_s or 0.0) + (signal.topics_deleted_per_s or 0.0)
    return not records_per_s or (mutations_per_s + topics_per_s) / records_per_s >= _RECORD_RATIO_MIN


def _mutations_per_s(rates: MutationRates) -> float | None:
    """Returns a lower bound of the mutations per second; None: not measured.

    A tenant that deletes as much as it creates keeps the number of partitions constant. Each answered request that no quota refused
    is at least one mutation. Kafka counts the refused topics, which are no fewer than the refused requests.
    """
    if rates.mutations is None:
        return None
    requests_per_s = sum(request.rate.per_s for request in rates.requests.values())
    return max(rates.mutations.per_s, requests_per_s - (rates.controller.mutations_rejected_per_s or 0.0))


def _culprits(rates: MutationRates) -> tuple[TenantRate, ...]:
    """Returns the fewest tenants that together cause half of the mutations; empty if that takes too many tenants."""
    total, named = rates.accounted_per_s, 0.0
    for count, tenant in enumerate(rates.tenants[:_TENANTS_NAMED_MAX], 1):
        named += tenant.per_s
        if total and named >= _NAMED_RATIO_MIN * total:
            return rates.tenants[:count]
    return ()


def _quota_per_s(
    mutations_per_s: float, pressure: Pressure, tenants: Sequence[TenantRate], accounted_per_s: float | None
) -> float:
    """Returns the quota of each named tenant, so that all tenants together halve the rate at which the pressure would be 1.

    It is at least a rate that any controller sustains. If the other tenants alone overload the controller, the storm continues, and
    the busiest of them are named next.

    Args:
        accounted_per_s: the rate of all tenants in Kafka's accounts, which gives the share of the tenants that are not named.
    """
    named = sum(tenant.per_s for tenant in tenants)
    others_ratio = 1 - named / accounted_per_s if tenants and accounted_per_s else 0.0
    bearable_per_s = mutations_per_s / pressure.ratio / 2 - others_ratio * mutations_per_s
    return float(max(MutationLimits().rate_per_s_safe, round(bearable_per_s / max(1, len(tenants)))))
