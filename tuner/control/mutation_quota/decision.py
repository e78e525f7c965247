"""Decisions about mutation quotas as values: for whom, how much, and why, in a word for machines and a sentence for people.

Rates are partitions/s.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tuner.control.mutation_quota.entity import QuotaEntity, Tenant

RATE_DIGITS = 3  # After the point; a thousandth of a partition/s is a partition in a quarter of an hour.


class QuotaReason(StrEnum):
    # Not knowing: hold.
    QUOTAS_UNREADABLE = "quotas_unreadable"
    CONTROLLER_UNKNOWN = "controller_unknown"
    CONTROLLER_STALE = "controller_stale"
    PRESSURE_NOT_MEASURED = "pressure_not_measured"
    # Nothing of ours: hold.
    EXTERNALLY_OWNED = "externally_owned"
    PRESERVED = "preserved"
    EXEMPT = "exempt"
    WOULD_SHADOW_EXISTING = "would_shadow_existing"
    TOO_MANY_TENANTS = "too_many_tenants"
    # The total: hold, or why it changes.
    WITHIN_OBJECTIVE = "within_objective"
    NOT_BINDING = "not_binding"
    SETTLING = "settling"
    AT_CAP = "at_cap"
    NEAR_KNOWN_LIMIT = "near_known_limit"
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
    # One tenant.
    FAIR_SHARE = "fair_share"  # It could use more.
    DEMAND_MET = "demand_met"
    STANDING_SHARE = "standing_share"  # It does little or nothing, and may begin at once.
    AT_GUARANTEED_RATE = (
        "at_guaranteed_rate"  # What it was promised, or the least that anybody has, is more than its share.
    )
    DEFAULT_SHARE = "default_share"
    # Taking back.
    TENANT_GONE = "tenant_gone"
    RELEASED = "released"
    EXTERNAL_CHANGE = "external_change"
    NOT_CONFIGURED = "not_configured"
    # A person's word.
    PAUSED = "paused"
    # Not to hold anybody back, but so that Kafka counts.
    METERING_ENABLED = "metering_enabled"


@dataclass(frozen=True, slots=True)
class HoldQuota:
    entity: QuotaEntity | None  # None: all of it.
    reason: QuotaReason
    text: str


@dataclass(frozen=True, slots=True)
class TotalRateReport:
    """What all may have now, and why; nothing is written for it."""

    rate_per_s: float
    pressure: float
    reason: QuotaReason
    text: str


@dataclass(frozen=True, slots=True)
class SetQuota:
    entity: QuotaEntity
    current_per_s: float | None  # What stands under this very entity; None: nothing.
    setpoint_per_s: float
    reason: QuotaReason
    text: str


@dataclass(frozen=True, slots=True)
class RestoreQuota:
    """Its reason ended: what stood before stands again; None removes it."""

    entity: QuotaEntity
    current_per_s: float | None
    value_per_s: float | None
    reason: QuotaReason
    text: str


@dataclass(frozen=True, slots=True)
class RelinquishQuota:
    """Somebody else changed what we had set: theirs from now on."""

    entity: QuotaEntity
    setpoint_per_s: float
    found_per_s: float | None
    until_ms: int
    reason: QuotaReason
    text: str


@dataclass(frozen=True, slots=True)
class TenantShare:
    """How one tenant stands, for whoever looks: a row of the table."""

    tenant: Tenant
    rate_per_s: float  # What it does.
    backlogged: bool  # Held back now.
    current_per_s: float | None  # The quota in force; None: none is.
    setpoint_per_s: float | None  # None: not ours to set.
    reason: QuotaReason
    rule: int | None  # Which of the rules won, by its place; None: none fits.


QuotaDecision = HoldQuota | TotalRateReport | SetQuota | RestoreQuota | RelinquishQuota


def action_of(decision: QuotaDecision) -> str:
    """One word, for metrics and the journal."""
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
