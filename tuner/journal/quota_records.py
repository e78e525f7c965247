"""Mutation quotas on record, all JSON, in the journal's topic.

quota     key ``quota|<cluster>|<entity>``: one quota of ours; a tombstone once it is ours no more. The last one wins.
quotas    key ``quotas|<cluster>``: what is remembered beside them, less what the next signals say again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import msgspec

from streaming.shared.contract.quotas import EntityName, QuotaEntity
from streaming.shared.short_lists import join_names
from tuner.control.mutation_quota.decision import QuotaDecision, RestoreQuota, SetQuota, action_of
from tuner.control.mutation_quota.entity import DEFAULT
from tuner.control.mutation_quota.state import LearnedCost, MutationMemory, OwnedQuota, TotalRate
from tuner.journal.bodies import VERSION, QuotaBody, QuotasBody, decoded
from tuner.journal.entries import QUOTAS, Entry

_TEXTS = 3

Written = SetQuota | RestoreQuota


def state_key(cluster: str) -> bytes:
    return f"quotas|{cluster}".encode()


def owned_prefix(cluster: str) -> bytes:
    return f"quota|{cluster}|".encode()


def owned_key(cluster: str, entity: QuotaEntity) -> bytes:
    return owned_prefix(cluster) + json.dumps(entity_row(entity)).encode()


def entity_row(entity: QuotaEntity) -> dict[str, str | None]:
    """Kafka's own way to say it: a part that is not named is absent, and null is ``<default>``."""
    named = (("user", entity.user), ("client_id", entity.client_id))
    return {kind: name if isinstance(name, str) else None for kind, name in named if name is not None}


def entity_of(row: Mapping[str, str | None]) -> QuotaEntity:
    """Raises ValueError for a row that names neither a user nor a client-id."""

    def name(kind: str) -> EntityName | None:
        if kind not in row:
            return None
        found = row[kind]
        return DEFAULT if found is None else found

    if not row.keys() & {"user", "client_id"}:
        raise ValueError("a quota of no entity")
    return QuotaEntity(name("user"), name("client_id"))


def encode_owned(entity: QuotaEntity, owned: OwnedQuota | None) -> bytes | None:
    """None, which takes the record off the topic in time, once it is ours no more."""
    if owned is None:
        return None
    row = [owned.before_per_s, owned.setpoint_per_s, list(owned.possible_per_s)]
    return json.dumps({"v": VERSION, "entity": entity_row(entity), "owned": row}).encode()


def encode_state(memory: MutationMemory) -> bytes:
    body = {
        "v": VERSION,
        "total": None if memory.total is None else asdict(memory.total),
        "cost": None if memory.cost is None else asdict(memory.cost),
        "externally_owned_until_ms": [
            [entity_row(entity), until] for entity, until in memory.externally_owned_until_ms.items()
        ],
        "idle_baselines_ms": dict(memory.idle_baselines_ms),
        "orders_at_ms": memory.orders_at_ms,
    }
    return json.dumps(body).encode()


def state_worth_a_record(memory: MutationMemory, saved: MutationMemory | None) -> bool:
    """What is learned of the cost goes on record with what follows from it."""
    if saved is None:
        return memory != MutationMemory()
    return (memory.total, memory.externally_owned_until_ms, memory.orders_at_ms) != (
        saved.total,
        saved.externally_owned_until_ms,
        saved.orders_at_ms,
    )


class RecoveredQuotas:
    """What the records say, one after the other."""

    def __init__(self, cluster: str) -> None:
        self._state_key, self._prefix = state_key(cluster), owned_prefix(cluster)
        self._state = MutationMemory()
        self._owned: dict[bytes, tuple[QuotaEntity, OwnedQuota]] = {}

    @property
    def memory(self) -> MutationMemory:
        return replace(self._state, owned=dict(self._owned.values()))

    def take(self, key: bytes, value: bytes | None) -> None:
        """
        Raises:
            ValueError: not a record of a version we read. To act without knowing what is ours would be to forget it.
        """
        if key != self._state_key and not key.startswith(self._prefix):
            return
        if value is None:
            self._owned.pop(key, None)
        elif key == self._state_key:
            self._state = decode_state(value)
        else:
            self._owned[key] = decode_owned(value)


def decode_owned(value: bytes) -> tuple[QuotaEntity, OwnedQuota]:
    """
    Raises:
        ValueError: not a record of a version we read.
    """
    body = decoded(value, QuotaBody)
    before, wanted, may_stand = body.owned
    return entity_of(body.entity), OwnedQuota(before, wanted, tuple(may_stand))


def decode_state(value: bytes) -> MutationMemory:
    """Return what is remembered beside the quotas of ours.

    Raises:
        ValueError: not a record of a version we read.
    """
    body = decoded(value, QuotasBody)
    return MutationMemory(
        total=None if body.total is None else TotalRate(**msgspec.structs.asdict(body.total)),
        cost=None if body.cost is None else LearnedCost(**msgspec.structs.asdict(body.cost)),
        externally_owned_until_ms={entity_of(row): until for row, until in body.externally_owned_until_ms},
        idle_baselines_ms=body.idle_baselines_ms,
        orders_at_ms=body.orders_at_ms,
    )


# -- entries --------------------------------------------------------------------------------------------------------------


def decision_entry(decision: QuotaDecision, at_ms: int, *, dry_run: bool) -> Entry:
    """One that nothing is written for."""
    said = {key: value for key, value in asdict(decision).items() if key not in ("entity", "reason", "text")}
    entity = getattr(decision, "entity", None)
    if entity is not None:
        said["entity"] = entity_row(entity)
    return Entry(at_ms, "decision", action_of(decision), decision.reason.value, decision.text, said, dry_run=dry_run)


def quotas_entry(changes: Sequence[Written], at_ms: int, inputs: Mapping[str, Any], *, dry_run: bool) -> Entry:
    """All that a cycle writes, which belongs together and would be many, before it is written; the text names the first."""
    text = join_names((change.text for change in changes), _TEXTS, between="; ")
    rows = [[entity_row(c.entity), c.current_per_s, asked_per_s(c), c.reason.value] for c in changes]
    return Entry(
        at_ms, QUOTAS, action_of(changes[0]), changes[0].reason.value, text, {"quotas": rows}, inputs, dry_run=dry_run
    )


def failed_entry(failures: Mapping[QuotaEntity, str], at_ms: int) -> Entry:
    said = join_names((f"{entity}: {failure}" for entity, failure in failures.items()), _TEXTS, between="; ")
    rows = [entity_row(entity) for entity in failures]
    text = f"{len(failures)} quotas were not written"
    return Entry(at_ms, "outcome", "set_quota", "not_written", text, {"entities": rows}, failure=said)


def asked_per_s(change: Written) -> float | None:
    """What is to stand there; None: nothing."""
    return change.setpoint_per_s if isinstance(change, SetQuota) else change.value_per_s
