"""Finds a storm: creations and deletions of topics that overload the controller, whether a mutation quota exists or not.

A storm begins when both conditions have been true for ``_STARTS_AFTER_S``:

- Mutations are more than a light load. With fewer mutations, the pressure on the controller has another cause.
- The pressure on the controller is at least 1, measured against ``STORM_OBJECTIVE``.

A storm ends when one of the conditions has been false for ``_ENDS_AFTER_S``.

The pressure counts all measures of ``STORM_OBJECTIVE`` only if at least a quarter of the records in the metadata log come from
mutations. Otherwise a restart of a broker or a reassignment, which write thousands of records, may cause the pressure. Then only
the time counts that brokers spend on forwarding mutations, because it has no other cause. If a tenant deletes as much as it
creates, only its requests are known, and a request writes many records. Such a storm is found by the forwarding time.

The module is pure: the caller keeps the state. The tenants that cause the storm are known only from Kafka's quota accounts, which
exist only if a mutation quota has been set. Without accounts, the suggested command limits every client-id; Kafka then keeps
accounts.
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

# - Idle ratio and queue time: the defaults of the objective.
# - Apply lag: an idle controller writes a record every 500 ms (metadata.max.idle.interval.ms), so the lag of a node that is up to
#   date is at most 500 ms. A node with a lag of 1,000 ms falls behind.
# - Forwarding: a broker forwards one request at a time. If the broker is busy half of the time, a request takes twice as long as at
#   an idle broker (M/M/1 queue).
STORM_OBJECTIVE = ControllerObjective(apply_lag_ms_max=1_000.0, forwarding_busy_ratio_max=0.5)
# Lowest part of the log's records that come from mutations. A creation writes a record for each partition, and further records for
# the topic and its settings, which are not counted as mutations.
_RECORD_RATIO_MIN = 0.25
# The time of two signals, because a burst of harmless requests keeps the controller busy for a moment.
_STARTS_AFTER_S = 10.0
_ENDS_AFTER_S = 30.0  # One window of signals.
_NAMED_RATIO_MIN = 0.5  # The named tenants cause at least this share of the mutations.
_TENANTS_NAMED_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """A storm in progress.

    Attributes:
        tenants: the tenants that cause at least half of the mutations; empty: not known, or too many.
        quota_per_s: partitions/s to which a quota should limit each of ``tenants``, or every client-id if ``tenants`` is empty. The
            other tenants keep their rates.
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
        high_since_ms: since when both conditions of a storm have been true; None: they are not both true.
        high_until_ms: when both conditions were last true; None: never.
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
    """Returns Kafka's command that limits the tenant, or every client-id if ``tenant`` is None."""
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
    """Returns the pressure if both conditions of a storm are true, else None."""
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
    """Returns whether at least a quarter of the log's records come from mutations; True if the records are not counted."""
    records_per_s = signal.metadata_records_per_s
    topics_per_s = (signal.topics_created_per_s or 0.0) + (signal.topics_deleted_per_s or 0.0)
    return not records_per_s or (mutations_per_s + topics_per_s) / records_per_s >= _RECORD_RATIO_MIN


def _mutations_per_s(rates: MutationRates) -> float | None:
    """Returns a lower bound of the mutations per second; None: not measured.

    A tenant that deletes as much as it creates keeps the number of partitions constant. Its requests still count: each request that
    no quota refused is at least one mutation. Kafka counts refused topics, not refused requests. A request has at least one topic,
    so requests − refused topics is a lower bound.
    """
    if rates.mutations is None:
        return None
    requests_per_s = sum(request.rate.per_s for request in rates.requests.values())
    return max(rates.mutations.per_s, requests_per_s - (rates.controller.mutations_rejected_per_s or 0.0))


def _culprits(rates: MutationRates) -> tuple[TenantRate, ...]:
    """Returns the fewest tenants that together cause half of the mutations; empty if more than three are needed."""
    total, named = rates.accounted_per_s, 0.0
    for count, tenant in enumerate(rates.tenants[:_TENANTS_NAMED_MAX], 1):
        named += tenant.per_s
        if total and named >= _NAMED_RATIO_MIN * total:
            return rates.tenants[:count]
    return ()


def _quota_per_s(
    mutations_per_s: float, pressure: Pressure, tenants: Sequence[TenantRate], accounted_per_s: float | None
) -> float:
    """Returns the quota of each named tenant. It limits all tenants together to half of the rate at which the pressure is 1.

    The quota is at least the rate that any controller sustains. If the tenants without a quota overload the controller alone, the
    storm continues, and the busiest of these tenants are named next.

    Args:
        accounted_per_s: the rate of all tenants in Kafka's accounts, which gives the share of the tenants that are not named.
    """
    named = sum(tenant.per_s for tenant in tenants)
    others_ratio = 1 - named / accounted_per_s if tenants and accounted_per_s else 0.0
    bearable_per_s = mutations_per_s / pressure.ratio / 2 - others_ratio * mutations_per_s
    return float(max(MutationLimits().rate_per_s_safe, round(bearable_per_s / max(1, len(tenants)))))
