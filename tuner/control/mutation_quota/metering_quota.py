"""Kafka counts the mutations of those only for whom some quota stands. Where none does, the law has nobody to share among.

A quota so high that it holds nobody back switches the counting on. It stands for every pair of user and client-id, which is as
finely as Kafka can count; as this comes before the quotas of client-ids and of ``<default>`` users, it is put only where no quota
stands at all. A setting, off unless asked for: where the law has a default to keep, that one switches it on as well.
"""

from __future__ import annotations

from tuner.control.mutation_quota.decision import QuotaReason, SetQuota
from tuner.control.mutation_quota.default_quota import EVERY_PAIR, UNLIMITED_PER_S
from tuner.control.mutation_quota.model import MutationPolicy, QuotaView
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.cluster import NotSeen


def decide_metering_quota(view: QuotaView, memory: MutationMemory, policy: MutationPolicy) -> SetQuota | None:
    """
    Args:
        memory: as it is once what somebody changed is let go of.
    """
    if (
        not policy.enable_metering
        or policy.default_entity is not None
        or isinstance(view.quotas, NotSeen)
        or view.quotas
    ):
        return None
    # Who takes it away wants it away, also before that is certain.
    if EVERY_PAIR in memory.externally_owned_until_ms or EVERY_PAIR in memory.unconfirmed:
        return None
    text = (
        f"{EVERY_PAIR}: no quota → {UNLIMITED_PER_S:g}/s: holds nobody back, and lets Kafka count what each tenant does "
        "(tuner.mutation_quota.measure)"
    )
    return SetQuota(EVERY_PAIR, None, UNLIMITED_PER_S, QuotaReason.METERING_ENABLED, text)
