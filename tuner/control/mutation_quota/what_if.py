"""Computes which tenants a given total rate would hold back, and the share of each tenant, before any quota is set.

The total is shared in the same way as by the mutation quota controller: by weighted max–min fairness, with the guaranteed rates and
weights of the operator's rules. The rates of exempt tenants are subtracted first, because no quota limits these tenants.

Invariant: a tenant is held back if and only if its share is below its rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.max_min_share import Claim, share_max_min
from tuner.control.mutation_quota.model import MutationPolicy, TenantRule
from tuner.control.mutation_quota.tenant_rules import match_rule
from tuner.control.mutation_quota.tenant_status import guaranteed_per_s


@dataclass(frozen=True, slots=True)
class WhatIfShare:
    """One tenant under the total.

    Attributes:
        rate_per_s: partitions/s that the tenant creates and deletes now.
        share_per_s: partitions/s that the tenant may create and delete under the total; for an exempt tenant its rate.
        rule: index of the rule that applies; None: no rule.
    """

    tenant: Tenant
    rate_per_s: float
    share_per_s: float
    is_exempt: bool
    rule: int | None

    @property
    def is_held_back(self) -> bool:
        return self.share_per_s < self.rate_per_s


def share_total(rates_per_s: Mapping[Tenant, float], total_per_s: float, policy: MutationPolicy) -> list[WhatIfShare]:
    """Returns the share of each tenant, the busiest first.

    Args:
        rates_per_s: partitions/s that each tenant creates and deletes.
    """
    tenants = sorted(rates_per_s, key=lambda tenant: (-rates_per_s[tenant], tenant.key))
    matches = {tenant: match_rule(tenant, policy.rules) for tenant in tenants}
    rules = {tenant: match.rule if match is not None else TenantRule() for tenant, match in matches.items()}
    exempt_per_s = math.fsum(rates_per_s[tenant] for tenant in tenants if rules[tenant].exempt)
    limited: Sequence[Tenant] = [tenant for tenant in tenants if not rules[tenant].exempt]
    claims = [
        Claim(rates_per_s[tenant], rules[tenant].weight, guaranteed_per_s(rules[tenant], policy.limits))
        for tenant in limited
    ]
    shares = dict(zip(limited, share_max_min(max(0.0, total_per_s - exempt_per_s), claims).shares, strict=True))
    return [
        WhatIfShare(
            tenant,
            rates_per_s[tenant],
            shares.get(tenant, rates_per_s[tenant]),
            is_exempt=rules[tenant].exempt,
            rule=match.index if (match := matches[tenant]) is not None else None,
        )
        for tenant in tenants
    ]
