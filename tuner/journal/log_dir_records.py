"""Encodes and decodes the records of log directory throttles in the journal's topic, and their entries.

log-dir   key ``log-dir|<cluster>|<broker>``: the managed limit of one broker, and until when a limit of another owner is left
          alone; a tombstone once the broker has neither a managed nor an externally owned limit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tuner.control.log_dir.decision import LogDirDecision, LogDirReason, SetLogDirRate, log_dir_action
from tuner.control.log_dir.model import LogDirMemory
from tuner.control.throttle.state import OwnedRate
from tuner.journal.bodies import VERSION, LogDirBody, decode_body
from tuner.journal.entries import STEERING, Entry

# The reasons of changes after the first change of a copy. Entries of these changes have their own ring (entries.py), so that they
# do not displace entries of other decisions.
_STEERED = frozenset(
    {
        LogDirReason.CLIENTS_WELL,
        LogDirReason.CLIENTS_WAIT,
        LogDirReason.HANDLERS_BUSY,
        LogDirReason.STALE_DECAY,
        LogDirReason.AT_MINIMUM,
    }
)


def log_dir_prefix(cluster: str) -> bytes:
    return f"log-dir|{cluster}|".encode()


def changed_log_dirs(cluster: str, memory: LogDirMemory, recorded: LogDirMemory) -> dict[bytes, bytes | None]:
    """Returns the records that differ from the recorded state; None as value removes a record."""
    brokers = {*memory.owned, *memory.externally_owned_until_ms, *recorded.owned, *recorded.externally_owned_until_ms}
    return {
        log_dir_prefix(cluster) + str(broker).encode(): encode_log_dir(broker, memory)
        for broker in sorted(brokers)
        if _state_of(broker, memory) != _state_of(broker, recorded)
    }


def encode_log_dir(broker: int, memory: LogDirMemory) -> bytes | None:
    """Returns the record of a broker; None, a tombstone, if there is nothing to remember."""
    owned, until_ms = _state_of(broker, memory)
    if owned is None and until_ms is None:
        return None
    row = None
    if owned is not None:
        row = [owned.before_bytes_per_s, owned.setpoint_bytes_per_s, list(owned.possible_rates)]
    body = {"v": VERSION, "broker": broker, "owned": row, "externally_owned_until_ms": until_ms}
    return json.dumps(body).encode()


def _state_of(broker: int, memory: LogDirMemory) -> tuple[OwnedRate | None, int | None]:
    return memory.owned.get(broker), memory.externally_owned_until_ms.get(broker)


class RecoveredLogDirs:
    """Rebuilds the state of the log directory throttles from its records."""

    def __init__(self, cluster: str) -> None:
        self._prefix = log_dir_prefix(cluster)
        self._by_key: dict[bytes, LogDirMemory] = {}

    @property
    def memory(self) -> LogDirMemory:
        memory = LogDirMemory()
        for broker_memory in self._by_key.values():
            memory = replace(
                memory,
                owned={**memory.owned, **broker_memory.owned},
                externally_owned_until_ms={
                    **memory.externally_owned_until_ms,
                    **broker_memory.externally_owned_until_ms,
                },
            )
        return memory

    def apply(self, key: bytes, value: bytes | None) -> bool:
        """Applies one record. Returns whether it is a record of a log directory throttle.

        Raises:
            ValueError: as ``decode_body``. A tuner must not act without the record, as it would not know what it manages.
        """
        if not key.startswith(self._prefix):
            return False
        if value is None:
            self._by_key.pop(key, None)
        else:
            self._by_key[key] = decode_log_dir(value)
        return True


def decode_log_dir(value: bytes) -> LogDirMemory:
    """Returns the state of one broker. Raises ValueError as ``decode_body``."""
    body = decode_body(value, LogDirBody)
    owned, until_ms = {}, {}
    if body.owned is not None:
        before, setpoint, possible = body.owned
        owned[body.broker] = OwnedRate(
            before_bytes_per_s=before, setpoint_bytes_per_s=setpoint, possible_rates=tuple(possible)
        )
    if body.externally_owned_until_ms is not None:
        until_ms[body.broker] = body.externally_owned_until_ms
    return LogDirMemory(owned=owned, externally_owned_until_ms=until_ms)


def log_dir_entry(
    kind: str,
    decision: LogDirDecision,
    at_ms: int,
    *,
    inputs: Mapping[str, Any] | None = None,
    failure: str | None = None,
    dry_run: bool = False,
) -> Entry:
    """Returns the entry of a decision.

    Args:
        kind: "decision", "intent" or "outcome". The intent of a change for which ``is_steered`` is true becomes a steering entry.
    """
    names = ("broker", "current_bytes_per_s", "setpoint_bytes_per_s", "value_bytes_per_s", "managed_bytes_per_s")
    return Entry(
        at_ms,
        STEERING if kind == "intent" and is_steered(decision) else kind,
        action=log_dir_action(decision),
        reason=decision.reason.value,
        text=decision.text,
        decision={name: getattr(decision, name) for name in names if hasattr(decision, name)},
        inputs=inputs or {},
        failure=failure,
        dry_run=dry_run,
    )


def is_steered(decision: LogDirDecision) -> bool:
    """Returns whether the decision is a further change of a managed limit, which has an outcome entry only if it fails."""
    return isinstance(decision, SetLogDirRate) and decision.reason in _STEERED
