"""Defines the decisions about mutation quotas. Each has a reason code, a sentence for people, and mostly an entity and a rate.

Rates are partitions/s.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tuner.control.mutation_quota.entity import QuotaEntity, Tenant

RATE_DIGITS = 3  # Decimal places of a quota. The smallest step, 0.001/s, is one partition in a quarter of an hour.


class QuotaReason(StrEnum):
    # An input is missing: nothing changes.
    QUOTAS_UNREADABLE = "quotas_unreadable"
    CONTROLLER_UNKNOWN = "controller_unknown"
    CONTROLLER_STALE = "controller_stale"
    PRESSURE_NOT_MEASURED = "pressure_not_measured"
    # The quota is not managed: it stays as it is.
    EXTERNALLY_OWNED = "externally_owned"
    PRESERVED = "preserved"
    EXEMPT = "exempt"
    WOULD_SHADOW_EXISTING = "would_shadow_existing"
    TOO_MANY_TENANTS = "too_many_tenants"
    # The total rate: why it stays or changes.
    WITHIN_OBJECTIVE = "within_objective"
    NOT_BINDING = "not_binding"
    SETTLING = "settling"
    AT_CAP = "at_cap"
    NEAR_KNOWN_LIMIT = "near_known_limit"  # A slightly higher total rate overloaded the controller before.
    HEADROOM_AVAILABLE = "headroom_available"
    FALLING_BEHIND = "falling_behind"
    NEAR_OBJECTIVE = "near_objective"
    OVER_OBJECTIVE = "over_objective"
    AT_MINIMUM = "at_minimum"
    HEARTBEAT_TIMEOUTS = "heartbeat_timeouts"
    OVER_CAP = "over_cap"
    INITIAL = "initial"
    PARTITIONS_NEAR_LIMIT = "partitions_near_limit"
    GUARANTEES_CUT = "guarantees_cut"
    # The quota of one tenant.
    FAIR_SHARE = "fair_share"  # The tenant could use more.
    DEMAND_MET = "demand_met"
    STANDING_SHARE = "standing_share"  # The tenant is idle or nearly idle, and may start without waiting.
    AT_GUARANTEED_RATE = "at_guaranteed_rate"  # The guaranteed rate is higher than the fair share.
    DEFAULT_SHARE = "default_share"
    # A quota stops being managed.
    TENANT_GONE = "tenant_gone"
    RELEASED = "released"
    EXTERNAL_CHANGE = "external_change"
    NOT_CONFIGURED = "not_configured"
    # An order of an operator.
    PAUSED = "paused"
    # An unlimited quota, set only so that Kafka meters.
    METERING_ENABLED = "metering_enabled"


@dataclass(frozen=True, slots=True)
class HoldQuota:
    """Tells why no quota is written for ``entity``. If ``entity`` is None, ``text`` says which quotas are meant."""

    entity: QuotaEntity | None
    reason: QuotaReason
    text: str


@dataclass(frozen=True, slots=True)
class TotalRateReport:
    """The total rate of all tenants and its reason. It causes no write by itself.

    Attributes:
        pressure: load of the controller; 1 is the objective.
    """

    rate_per_s: float
    pressure: float
    reason: QuotaReason
    text: str


@dataclass(frozen=True, slots=True)
class SetQuota:
    """Sets the quota of ``entity``. ``current_per_s`` is the present quota of this entity; None: it has none."""

    entity: QuotaEntity
    current_per_s: float | None
    setpoint_per_s: float
    reason: QuotaReason
    text: str


@dataclass(frozen=True, slots=True)
class RestoreQuota:
    """Restores the quota that was set before rheostat managed it. ``value_per_s`` None removes the quota."""

    entity: QuotaEntity
    current_per_s: float | None
    value_per_s: float | None
    reason: QuotaReason
    text: str


@dataclass(frozen=True, slots=True)
class RelinquishQuota:
    """Gives up a quota that another tool has changed. The quota is externally owned until ``until_ms``.

    Attributes:
        setpoint_per_s: the quota that rheostat had set.
        found_per_s: the quota that the other tool has set; None: the tool removed the quota.
    """

    entity: QuotaEntity
    setpoint_per_s: float
    found_per_s: float | None
    until_ms: int
    reason: QuotaReason
    text: str


@dataclass(frozen=True, slots=True)
class TenantShare:
    """One row of the tenant table, for the API and the terminal.

    Attributes:
        rate_per_s: the tenant's measured rate.
        backlogged: its quota limits it now.
        current_per_s: the quota in force; None: none.
        setpoint_per_s: the quota that it should have; None: its quota is not managed.
        rule: index of the tenant rule that applies; None: no rule matches.
    """

    tenant: Tenant
    rate_per_s: float
    backlogged: bool
    current_per_s: float | None
    setpoint_per_s: float | None
    reason: QuotaReason
    rule: int | None


QuotaDecision = HoldQuota | TotalRateReport | SetQuota | RestoreQuota | RelinquishQuota


def action_of(decision: QuotaDecision) -> str:
    """Returns the decision's action as one word, for metrics and the journal."""
    match decision:
        case HoldQuota():
            return "hold_quota"
        case TotalRateReport():
            return "total"
        case SetQuota():
            return "set_quota"
        case RestoreQuota():
            return "restore_quota"
        case RelinquishQuota():
            return "relinquish_quota"
