"""Computes one tenant's quota and explains it with a reason code and a sentence.

The standing share is the quota that a tenant keeps while it is idle (allocation.py).
"""

from __future__ import annotations

from tuner.control.mutation_quota.decision import RATE_DIGITS, QuotaReason
from tuner.control.mutation_quota.max_min_share import Sharing
from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.tenant_rules import demand_per_s
from tuner.control.mutation_quota.tenant_status import TenantStatus, guaranteed_per_s


def compute_setpoint(
    status: TenantStatus, share_per_s: float, standing_per_s: float, sharing: Sharing, limits: MutationLimits
) -> tuple[float, QuotaReason]:
    """Returns the tenant's quota in partitions/s, and the reason.

    Args:
        share_per_s: the tenant's share in ``sharing``.
        standing_per_s: the tenant's standing share.
    """
    minimum = limits.tenant_rate_per_s_min if sharing.guarantees_cut else guaranteed_per_s(status.rule, limits)
    demand = demand_per_s(status.state, limits)
    share, standing = round(max(share_per_s, minimum), RATE_DIGITS), round(standing_per_s, RATE_DIGITS)
    if standing > share or (standing == share and not status.state.backlogged):
        return standing, QuotaReason.STANDING_SHARE
    # The share that the tenant's weight alone would give it. Only a guaranteed rate can lift the tenant's quota above this share.
    share_without_guarantee = min(demand, status.rule.weight * sharing.rate_per_weight)
    if sharing.guarantees_cut or share > round(share_without_guarantee, RATE_DIGITS):
        return share, QuotaReason.AT_GUARANTEED_RATE
    return share, QuotaReason.FAIR_SHARE if share_without_guarantee < demand else QuotaReason.DEMAND_MET


def explain_setpoint(status: TenantStatus, setpoint_per_s: float, reason: QuotaReason, sharing: Sharing) -> str:
    """Returns a sentence with the tenant, its old and new quota, its rate, the reason and the rule that applies."""
    current = "no quota" if status.current_per_s is None else f"{status.current_per_s:g}/s"
    rate = "backlogged" if status.state.backlogged else f"uses {status.state.rate_per_s:.2f}/s"
    guarantee = "the quota is the lowest quota that any tenant gets"
    if sharing.guarantees_cut:
        guarantee = (
            "all guaranteed rates are reduced by the same factor, because they add up to more than the total rate"
        )
    elif status.rule.rate_per_s_min is not None:
        guarantee = f"the quota is its guaranteed rate of {status.rule.rate_per_s_min:g}/s"
    why = {
        QuotaReason.FAIR_SHARE: f"its share by weight is {status.rule.weight:g} × {sharing.rate_per_weight:.2f}/s",
        QuotaReason.DEMAND_MET: "the quota is its demand plus 25 %",
        QuotaReason.STANDING_SHARE: "the quota is its standing share",
        QuotaReason.AT_GUARANTEED_RATE: guarantee,
    }[reason]
    rule = ""
    if status.match is not None:
        # Operators count the rules from 1.
        others = ", ".join(str(index + 1) for index in status.match.also_matching)
        precedence = f", which precedes rule {others}" if others else ""
        rule = f" (rule {status.match.index + 1} of tuner.mutation_quota.tenants{precedence})"
    return f"{status.tenant}: {current} → {setpoint_per_s:g}/s: {rate}; {why}{rule}"
