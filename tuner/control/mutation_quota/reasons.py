"""What one tenant is to have, and which of the three it is: its share, what it wants, or its floor; in a word and in a sentence."""

from __future__ import annotations

from tuner.control.mutation_quota.decision import RATE_DIGITS, QuotaReason
from tuner.control.mutation_quota.max_min_share import Sharing
from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.tenant_rules import demand_per_s
from tuner.control.mutation_quota.tenant_status import TenantStatus, guaranteed_per_s


def compute_setpoint(
    place: TenantStatus, fair: float, standing: float, sharing: Sharing, limits: MutationLimits
) -> tuple[float, QuotaReason]:
    """
    Args:
        fair: its part of ``sharing``.
        standing: its standing share.
    """
    floor = limits.tenant_rate_per_s_min if sharing.guarantees_cut else guaranteed_per_s(place.of, limits)
    backlogged, want = place.state.backlogged, demand_per_s(place.state, limits)
    most, stands = round(max(fair, floor), RATE_DIGITS), round(standing, RATE_DIGITS)
    if stands > most or (stands == most and not backlogged):
        return stands, QuotaReason.STANDING_SHARE
    # What it would have if nothing were promised to it.
    plain = min(want, place.of.weight * sharing.rate_per_weight)
    if sharing.guarantees_cut or most > round(plain, RATE_DIGITS):
        return most, QuotaReason.AT_GUARANTEED_RATE
    return most, QuotaReason.FAIR_SHARE if plain < want else QuotaReason.DEMAND_MET


def explain_setpoint(place: TenantStatus, wanted: float, reason: QuotaReason, sharing: Sharing) -> str:
    stands = "no quota" if place.current_per_s is None else f"{place.current_per_s:g}/s"
    does = "held back" if place.state.backlogged else f"does {place.state.rate_per_s:.2f}/s"
    promised = place.of.rate_per_s_min
    floor = "the least that anybody has" if promised is None else f"the {promised:g}/s that it was promised"
    why = {
        QuotaReason.FAIR_SHARE: f"; its share by weight {place.of.weight:g} × {sharing.rate_per_weight:.2f}/s",
        QuotaReason.DEMAND_MET: ", and may do a quarter more",
        QuotaReason.STANDING_SHARE: "; its standing share",
        QuotaReason.AT_GUARANTEED_RATE: "; floors are more than there is, and cut alike"
        if sharing.guarantees_cut
        else f"; {floor}",
    }[reason]
    won = ""
    if place.rule is not None:
        also = f", before {', '.join(str(n + 1) for n in place.rule.also_matching)}" if place.rule.also_matching else ""
        won = f" (rule {place.rule.place + 1}{also})"
    return f"{place.tenant}: {stands} → {wanted:g}/s: {does}{why}{won}"
