"""Quotas of ours under ``<default>``: whom they would put out of force, and which of them nobody asks for any more.

Kafka takes the first quota in its order that fits a client. So one for every user comes before all that stand for client-ids,
whoever set those; and one that was ours by another setting comes before what the new one asks for.

Invariant: nothing that somebody set is put out of force by a quota for everybody.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuner.decide.mutation_ownership import put_back
from tuner.model.mutation import MutationPolicy
from tuner.model.mutation_decision import PutBackQuota, QuotaReason
from tuner.model.mutation_memory import MutationMemory
from tuner.model.quota_entity import DEFAULT, QuotaEntity, rank

EVERY_PAIR = QuotaEntity(DEFAULT, DEFAULT)
# Above what any controller does, and far from where a double loses a partition.
NOBODY_HELD_PER_S = 1e9


def made_void(
    entity: QuotaEntity, quotas: Mapping[QuotaEntity, float], memory: MutationMemory
) -> tuple[QuotaEntity, ...]:
    """Those that somebody set, also where they are ours for now, that come after it in Kafka's order."""
    ours = {e for e, owned in memory.owned.items() if owned.before_per_s is None}
    return tuple(sorted((e for e in quotas if e not in ours and rank(e) > rank(entity)), key=str))


def put_back_defaults(
    quotas: Mapping[QuotaEntity, float], memory: MutationMemory, policy: MutationPolicy
) -> list[PutBackQuota]:
    """What was the default by other settings, or has come to stand in somebody's way."""
    kept = policy.default_entity if policy.default_entity is not None else EVERY_PAIR if policy.measures else None
    return [
        put_back(entity, quotas, memory, QuotaReason.NOT_ASKED_FOR)
        for entity in memory.owned
        if DEFAULT in (entity.user, entity.client_id) and entity not in memory.doubted
        if entity != kept or made_void(entity, quotas, memory)
    ]
