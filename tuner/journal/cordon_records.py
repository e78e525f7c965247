"""Encodes and decodes the records of cordons in the journal's topic, and their entries.

cordon   key ``cordon|<cluster>|<broker>``: the entries of ``cordoned.log.dirs`` that rheostat has added on one broker, and the plan
         that ordered them; a tombstone once rheostat manages no entry.
"""

from __future__ import annotations

import json
from typing import Any

from tuner.control.cordon.decision import CordonDecision, cordon_action
from tuner.control.cordon.model import CordonMemory, OwnedCordon
from tuner.journal.bodies import VERSION, CordonBody, decode_body
from tuner.journal.entries import Entry


def cordon_prefix(cluster: str) -> bytes:
    return f"cordon|{cluster}|".encode()


def changed_cordons(cluster: str, memory: CordonMemory, recorded: CordonMemory) -> dict[bytes, bytes | None]:
    """Returns the records that differ from the recorded memory; None as value removes a record."""
    return {
        cordon_prefix(cluster) + str(broker).encode(): encode_cordon(broker, memory.owned.get(broker))
        for broker in sorted({*memory.owned, *recorded.owned})
        if memory.owned.get(broker) != recorded.owned.get(broker)
    }


def encode_cordon(broker: int, owned: OwnedCordon | None) -> bytes | None:
    """Returns the record of a broker; None, a tombstone, if rheostat manages nothing there."""
    if owned is None:
        return None
    body = {
        "v": VERSION,
        "broker": broker,
        "plan": owned.plan,
        "directories": list(owned.directories),
        "found": list(owned.found),
        "was_set": owned.was_set,
        "is_written": owned.is_written,
        "missing_since_ms": owned.missing_since_ms,
    }
    return json.dumps(body).encode()


def decode_cordon(value: bytes) -> tuple[int, OwnedCordon]:
    """Returns the broker, and the entries that rheostat manages there. Raises ValueError as ``decode_body``."""
    body = decode_body(value, CordonBody)
    owned = OwnedCordon(
        body.plan,
        tuple(body.directories),
        tuple(body.found),
        body.was_set,
        body.is_written,
        body.missing_since_ms,
    )
    return body.broker, owned


class RecoveredCordons:
    """Rebuilds the memory of cordons from its records."""

    def __init__(self, cluster: str) -> None:
        self._prefix = cordon_prefix(cluster)
        self._by_key: dict[bytes, tuple[int, OwnedCordon]] = {}

    @property
    def memory(self) -> CordonMemory:
        return CordonMemory(dict(self._by_key.values()))

    def apply(self, key: bytes, value: bytes | None) -> bool:
        """Applies one record. Returns whether it is a record of a cordon.

        Raises:
            ValueError: as ``decode_body``. A tuner must not act without the record, as it would not know what it manages.
        """
        if not key.startswith(self._prefix):
            return False
        if value is None:
            self._by_key.pop(key, None)
        else:
            self._by_key[key] = decode_cordon(value)
        return True


def cordon_entry(
    kind: str, decision: CordonDecision, at_ms: int, *, failure: str | None = None, dry_run: bool = False
) -> Entry:
    """Returns the entry of a decision.

    Args:
        kind: "decision", "intent" or "outcome".
    """
    names = ("broker", "plan", "found", "directories", "entries")
    body: dict[str, Any] = {}
    for name in names:
        if hasattr(decision, name):
            value = getattr(decision, name)
            body[name] = list(value) if isinstance(value, tuple) else value
    return Entry(
        at_ms,
        kind,
        action=cordon_action(decision),
        reason=decision.reason.value,
        text=decision.text,
        decision=body,
        failure=failure,
        dry_run=dry_run,
    )
