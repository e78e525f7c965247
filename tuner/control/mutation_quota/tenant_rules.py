"""Which rule a tenant falls under, what it does, and whether it is held back.

While a tenant's bucket is empty, its demand cannot be measured; it is only known to be higher than its rate. So a tenant either
has a demand that equals its measured rate, or it is backlogged and its demand has no bound. Kafka counts refused requests, not by
tenant; the tokens of the bucket tell it as well.

Rules win in Kafka's own order of precedence, with a pattern in the place of <default>: name before pattern before nothing, the
user's part before the client-id's; among equals the first one in the list.

Invariant: a rule that asks for a part which the tenant's books do not have does not fit it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from streaming.shared.contract import TenantSignal
from tuner.control.mutation_quota.default_quota import UNLIMITED_PER_S
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.model import MutationLimits, TenantRule
from tuner.control.mutation_quota.state import TenantState

_FORGOTTEN_PER_S = 1e-3  # What a mean over a minute still says of a partition an hour ago is nothing.


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """The rule that wins, and the others that fit too, each by its place in the list."""

    rule: TenantRule
    place: int
    also_matching: tuple[int, ...] = ()


def match_rule(tenant: Tenant, rules: Sequence[TenantRule]) -> RuleMatch | None:
    fits = [place for place, rule in enumerate(rules) if _fits(rule, tenant)]
    if not fits:
        return None
    won = min(fits, key=lambda place: (_rank(rules[place]), place))
    return RuleMatch(rules[won], won, tuple(place for place in fits if place != won))


def _fits(rule: TenantRule, tenant: Tenant) -> bool:
    return _part_fits(rule.user, tenant.user) and _part_fits(rule.client_id, tenant.client_id)


def _part_fits(pattern: str | None, part: str | None) -> bool:
    return pattern is None or (part is not None and _compiled(pattern).fullmatch(part) is not None)


def _rank(rule: TenantRule) -> tuple[int, int]:
    return _kind(rule.user), _kind(rule.client_id)


def _kind(pattern: str | None) -> int:
    return 2 if pattern is None else 0 if is_name(pattern) else 1


def is_name(pattern: str | None) -> bool:
    """It stands for no other letters than its own; where nothing is said, for none."""
    return pattern is None or not ("*" in pattern or "?" in pattern)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)


def update_tenant_state(
    state: TenantState, signal: TenantSignal, quota_per_s: float | None, limits: MutationLimits
) -> TenantState:
    """After one more signal of this tenant; the same again where it is not newer than the last.

    Args:
        quota_per_s: in force; None: none is.
    """
    if signal.sampled_at_ms <= state.sampled_at_ms:
        return state
    since_s = (signal.sampled_at_ms - state.sampled_at_ms) / 1000 if state.sampled_at_ms else math.inf
    kept = state.rate_per_s * math.exp(-since_s / limits.rate_memory_s)
    backlogged = _hungry(state, signal, quota_per_s, limits)
    done = signal.mutation_rate_per_s or 0.0
    # Kafka's mean spans up to a minute; who is held back does at least what it is let. But not who only waits for a debt to be
    # paid, nor is more let than any controller does: a person's quota may be any number.
    let = (
        min(quota_per_s, limits.rate_per_s_max)
        if backlogged and quota_per_s is not None and not _is_idle(signal)
        else 0.0
    )
    rate = max(kept, done, let)
    active = backlogged or done > _FORGOTTEN_PER_S
    return TenantState(
        rate if rate > _FORGOTTEN_PER_S else 0.0,
        backlogged,
        signal.sampled_at_ms if active or not state.sampled_at_ms else state.active_at_ms,
        signal.sampled_at_ms,
        state.written_at_ms,
        state.previous_write_at_ms,
    )


def _hungry(state: TenantState, signal: TenantSignal, quota_per_s: float | None, limits: MutationLimits) -> bool:
    # Tokens below nothing are of the quota that stood before one that holds nobody back.
    if quota_per_s is None or quota_per_s >= UNLIMITED_PER_S:
        return False
    # The bucket of a quota that was raised just now is not full yet: who does nothing is held back only by a debt.
    idle = signal.mutation_rate_per_s is None or _is_idle(signal)
    if signal.tokens is None:
        return state.backlogged and not idle
    burst = quota_per_s * limits.samples * limits.window_s
    if signal.tokens <= (0.0 if idle else limits.bucket_empty_ratio * burst):
        return True
    return state.backlogged and signal.tokens < limits.bucket_refilled_ratio * burst


def _is_idle(signal: TenantSignal) -> bool:
    """For a minute it has done nothing, as far as it is told."""
    return signal.mutation_rate_per_s is not None and signal.mutation_rate_per_s <= _FORGOTTEN_PER_S


def demand_per_s(state: TenantState, limits: MutationLimits) -> float:
    """What it could use; infinite where nobody knows."""
    return math.inf if state.backlogged else limits.demand_slack * state.rate_per_s
