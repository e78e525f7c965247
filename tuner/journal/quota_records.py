"""Encodes and decodes the records of mutation quotas in the journal's topic, and their entries.

quota     key ``quota|<cluster>|<entity>``: one managed quota; a tombstone once it is no longer managed.
quotas    key ``quotas|<cluster>``: the rest of what the tuner remembers, without values that the next signals repeat.
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
from tuner.journal.bodies import VERSION, QuotaBody, QuotasBody, decode_body
from tuner.journal.entries import QUOTAS, Entry

_TEXTS_MAX = 3

QuotaWrite = SetQuota | RestoreQuota


def state_key(cluster: str) -> bytes:
    return f"quotas|{cluster}".encode()


def owned_prefix(cluster: str) -> bytes:
    return f"quota|{cluster}|".encode()


def owned_key(cluster: str, entity: QuotaEntity) -> bytes:
    return owned_prefix(cluster) + json.dumps(entity_row(entity)).encode()


def entity_row(entity: QuotaEntity) -> dict[str, str | None]:
    """Returns the entity as a JSON object. As in Kafka's API, an absent part has no key, and the default entity is
    ``<default>``."""
    named = (("user", entity.user), ("client_id", entity.client_id))
    return {kind: name if isinstance(name, str) else None for kind, name in named if name is not None}


def entity_of(row: Mapping[str, str | None]) -> QuotaEntity:
    """Returns the entity of a row. Raises ValueError if the row names neither a user nor a client-id."""

    def name(kind: str) -> EntityName | None:
        if kind not in row:
            return None
        value = row[kind]
        return DEFAULT if value is None else value

    if not row.keys() & {"user", "client_id"}:
        raise ValueError("a quota of no entity")
    return QuotaEntity(name("user"), name("client_id"))


def encode_owned(entity: QuotaEntity, owned: OwnedQuota | None) -> bytes | None:
    """Returns the record; None, a tombstone, once the quota is no longer managed."""
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


def is_state_changed(memory: MutationMemory, saved: MutationMemory | None) -> bool:
    """Returns whether the state record has to be written. A new cost estimate alone is no reason."""
    if saved is None:
        return memory != MutationMemory()
    return (memory.total, memory.externally_owned_until_ms, memory.orders_at_ms) != (
        saved.total,
        saved.externally_owned_until_ms,
        saved.orders_at_ms,
    )


class RecoveredQuotas:
    """Rebuilds the mutation quota memory from its records."""

    def __init__(self, cluster: str) -> None:
        self._state_key, self._prefix = state_key(cluster), owned_prefix(cluster)
        self._state = MutationMemory()
        self._owned: dict[bytes, tuple[QuotaEntity, OwnedQuota]] = {}

    @property
    def memory(self) -> MutationMemory:
        return replace(self._state, owned=dict(self._owned.values()))

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Applies one record.

        Raises:
            ValueError: as ``decode_body``. A tuner must not act without the record, as it would not know what it manages.
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
    """Returns a managed quota and its entity. Raises ValueError as ``decode_body``."""
    body = decode_body(value, QuotaBody)
    before, setpoint, possible_values = body.owned
    return entity_of(body.entity), OwnedQuota(before, setpoint, tuple(possible_values))


def decode_state(value: bytes) -> MutationMemory:
    """Returns the tuner's memory without the managed quotas. Raises ValueError as ``decode_body``."""
    body = decode_body(value, QuotasBody)
    return MutationMemory(
        total=None if body.total is None else TotalRate(**msgspec.structs.asdict(body.total)),
        cost=None if body.cost is None else LearnedCost(**msgspec.structs.asdict(body.cost)),
        externally_owned_until_ms={entity_of(row): until for row, until in body.externally_owned_until_ms},
        idle_baselines_ms=body.idle_baselines_ms,
        orders_at_ms=body.orders_at_ms,
    )


# -- entries --------------------------------------------------------------------------------------------------------------


def decision_entry(decision: QuotaDecision, at_ms: int, *, dry_run: bool) -> Entry:
    """Returns the entry of a decision that writes no quota."""
    row = {key: value for key, value in asdict(decision).items() if key not in ("entity", "reason", "text")}
    entity = getattr(decision, "entity", None)
    if entity is not None:
        row["entity"] = entity_row(entity)
    return Entry(
        at_ms,
        "decision",
        action=action_of(decision),
        reason=decision.reason.value,
        text=decision.text,
        decision=row,
        dry_run=dry_run,
    )


def quotas_entry(changes: Sequence[QuotaWrite], at_ms: int, inputs: Mapping[str, Any], *, dry_run: bool) -> Entry:
    """Returns one entry for all quotas that a cycle is about to write. Its text names only the first quotas if there are many."""
    text = join_names((change.text for change in changes), _TEXTS_MAX, separator="; ")
    rows = [[entity_row(c.entity), c.current_per_s, requested_per_s(c), c.reason.value] for c in changes]
    return Entry(
        at_ms,
        QUOTAS,
        action=action_of(changes[0]),
        reason=changes[0].reason.value,
        text=text,
        decision={"quotas": rows},
        inputs=inputs,
        dry_run=dry_run,
    )


def failed_entry(failures: Mapping[QuotaEntity, str], at_ms: int) -> Entry:
    """Returns the entry about quotas that could not be written."""
    failure_text = join_names(
        (f"{entity}: {failure}" for entity, failure in failures.items()), _TEXTS_MAX, separator="; "
    )
    rows = [entity_row(entity) for entity in failures]
    text = f"{len(failures)} quotas were not written"
    return Entry(
        at_ms,
        "outcome",
        action="set_quota",
        reason="not_written",
        text=text,
        decision={"entities": rows},
        failure=failure_text,
    )


def requested_per_s(change: QuotaWrite) -> float | None:
    """Returns the quota that the change writes, in partitions/s; None if it removes the quota."""
    return change.setpoint_per_s if isinstance(change, SetQuota) else change.value_per_s
