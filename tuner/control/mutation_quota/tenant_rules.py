"""Matches tenants with the operator's rules, and tracks each tenant's rate and whether its quota limits it.

While a tenant's bucket is empty, the tenant demands more than its rate, but its demand cannot be measured. The tenant is then
backlogged, and its demand counts as infinite. Otherwise its demand is the measured rate plus a quarter. Kafka does not count
refused requests per tenant, so the tokens in the bucket decide whether a tenant is backlogged.

If several rules match a tenant, the most specific rule applies, as in Kafka's order of precedence. The users of the rules are
compared first, then the client-ids. A name is more specific than a pattern, and a pattern is more specific than no value. Of
equally specific rules, the first in the list applies.

Invariant: a rule with a user or client-id does not match a tenant whose metrics lack that label.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from streaming.shared.contract import TenantSignal
from tuner.control.mutation_quota.default_quota import UNLIMITED_PER_S
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.model import MutationLimits, TenantRule
from tuner.control.mutation_quota.state import TenantState

# Kafka's mean of a tenant without mutations falls slowly. Below this rate the tenant counts as idle.
_IDLE_PER_S = 1e-3


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """The rule that applies, its index in the list, and the indexes of other rules that match too."""

    rule: TenantRule
    index: int
    also_matching: tuple[int, ...] = ()


def match_rule(tenant: Tenant, rules: Sequence[TenantRule]) -> RuleMatch | None:
    """Returns the rule that applies to the tenant; None if no rule matches."""
    matching = [
        index
        for index, rule in enumerate(rules)
        if _part_matches(rule.user, tenant.user) and _part_matches(rule.client_id, tenant.client_id)
    ]
    if not matching:
        return None
    best = min(matching, key=lambda index: (_specificity(rules[index]), index))
    return RuleMatch(rules[best], best, tuple(index for index in matching if index != best))


def _part_matches(pattern: str | None, part: str | None) -> bool:
    return pattern is None or (part is not None and _compile(pattern).fullmatch(part) is not None)


def _specificity(rule: TenantRule) -> tuple[int, int]:
    """Returns a sort key, the most specific rule first."""
    return _pattern_rank(rule.user), _pattern_rank(rule.client_id)


def _pattern_rank(pattern: str | None) -> int:
    if pattern is None:
        return 2
    return 0 if is_name(pattern) else 1


def is_name(pattern: str | None) -> bool:
    """Returns whether the pattern has no wildcard. None counts as a name."""
    return pattern is None or not ("*" in pattern or "?" in pattern)


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)


def update_tenant_state(
    state: TenantState, signal: TenantSignal, quota_per_s: float | None, limits: MutationLimits
) -> TenantState:
    """Returns the tenant's state after one more signal; the same state if the signal is not newer.

    Args:
        quota_per_s: the quota in force; None: none.
    """
    if signal.sampled_at_ms <= state.sampled_at_ms:
        return state
    since_s = (signal.sampled_at_ms - state.sampled_at_ms) / 1000 if state.sampled_at_ms else math.inf
    decayed = state.rate_per_s * math.exp(-since_s / limits.decay_age_s)
    backlogged = _is_backlogged(state, signal, quota_per_s, limits)
    measured = signal.mutation_rate_per_s or 0.0
    # Kafka's mean covers up to a minute, so it may be too low. A backlogged tenant uses at least its quota, unless it makes no
    # requests while its bucket refills. The operator may have set a very high quota, so it counts only up to the highest total.
    admitted = 0.0
    if backlogged and quota_per_s is not None and not _is_idle(signal):
        admitted = min(quota_per_s, limits.rate_per_s_max)
    rate = max(decayed, measured, admitted)
    is_active = backlogged or measured > _IDLE_PER_S
    is_first_signal = not state.sampled_at_ms
    return replace(
        state,
        rate_per_s=rate if rate > _IDLE_PER_S else 0.0,
        backlogged=backlogged,
        active_at_ms=signal.sampled_at_ms if is_active or is_first_signal else state.active_at_ms,
        sampled_at_ms=signal.sampled_at_ms,
    )


def _is_backlogged(state: TenantState, signal: TenantSignal, quota_per_s: float | None, limits: MutationLimits) -> bool:
    # An unlimited quota limits no tenant, even if its bucket still has negative tokens from an earlier, lower quota.
    if quota_per_s is None or quota_per_s >= UNLIMITED_PER_S:
        return False
    # After a raise of a tenant's quota, its bucket is not full yet. So an idle tenant counts as backlogged only while it has no
    # tokens left.
    idle_or_unknown = signal.mutation_rate_per_s is None or _is_idle(signal)
    if signal.tokens is None:
        return state.backlogged and not idle_or_unknown
    burst = quota_per_s * limits.samples * limits.window_s
    if signal.tokens <= (0.0 if idle_or_unknown else limits.bucket_empty_ratio * burst):
        return True
    return state.backlogged and signal.tokens < limits.bucket_refilled_ratio * burst


def _is_idle(signal: TenantSignal) -> bool:
    """Returns whether Kafka measured no mutation for a minute; False if the rate is unknown."""
    return signal.mutation_rate_per_s is not None and signal.mutation_rate_per_s <= _IDLE_PER_S


def demand_per_s(state: TenantState, limits: MutationLimits) -> float:
    """Returns the rate that the tenant could use, in partitions/s; infinite while it is backlogged."""
    return math.inf if state.backlogged else limits.demand_slack * state.rate_per_s
