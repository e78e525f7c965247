"""Decides whether to set or remove the metering quota: an unlimited quota that only makes Kafka meter its tenants.

Kafka counts the mutations of a client only if some quota applies to it. Without any quota the controller has no tenants to share
among. The metering quota is set for every pair of user and client-id, the finest metering that Kafka has. Such a quota has
precedence over quotas for client-ids and for ``<default>`` users, so it is set only if no quota exists at all. It is off by
default: a managed ``<default>`` quota turns metering on as well.
"""

from __future__ import annotations

from tuner.control.mutation_quota.decision import QuotaReason, SetQuota
from tuner.control.mutation_quota.default_quota import EVERY_PAIR, UNLIMITED_PER_S
from tuner.control.mutation_quota.model import MutationPolicy, QuotaView
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.cluster import ClusterUnreadable


def decide_metering_quota(view: QuotaView, memory: MutationMemory, policy: MutationPolicy) -> SetQuota | None:
    """Returns the write of the metering quota; None if it is not needed.

    Args:
        memory: the state after external changes were relinquished.
    """
    if (
        not policy.enable_metering
        or policy.default_entity is not None
        or isinstance(view.quotas, ClusterUnreadable)
        or view.quotas
    ):
        return None
    # Another tool has removed the metering quota, or perhaps has: the change is not confirmed yet.
    if EVERY_PAIR in memory.externally_owned_until_ms or EVERY_PAIR in memory.unconfirmed:
        return None
    text = (
        f"{EVERY_PAIR}: no quota → {UNLIMITED_PER_S:g}/s: this quota limits no tenant, but makes Kafka count the mutations of "
        "each tenant (tuner.mutation_quota.measure)"
    )
    return SetQuota(EVERY_PAIR, None, UNLIMITED_PER_S, QuotaReason.METERING_ENABLED, text)
