"""The journal's records: two kinds, both JSON.

entry    key ``entry|<cluster>|<seq mod RING>``: a decision, the intent to carry it out, or its outcome. The ring of keys
         lets compaction bound the topic to the last RING entries.
memory   key ``memory|<cluster>``: what is ours and what we saw moving; the last one wins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from streaming.contract import Side
from tuner.model.cluster import BrokerSide
from tuner.model.decision import Decision, action_of
from tuner.model.memory import Memory, Owned

RING = 100_000
VERSION = 1


@dataclass(frozen=True, slots=True)
class Entry:
    at_ms: int
    kind: str  # "decision" (nothing to do), "intent" (about to act), "outcome" (acted).
    action: str
    reason: str
    text: str
    decision: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    failure: str | None = None
    dry_run: bool = False
    seq: int = 0


def entry_of(
    kind: str,
    decision: Decision,
    at_ms: int,
    *,
    inputs: Mapping[str, Any] | None = None,
    failure: str | None = None,
    dry_run: bool = False,
) -> Entry:
    return Entry(
        at_ms,
        kind,
        action_of(decision),
        decision.reason.value,
        decision.text,
        asdict(decision),
        inputs or {},
        failure,
        dry_run,
    )


def entry_key(cluster: str, seq: int) -> bytes:
    return f"entry|{cluster}|{seq % RING}".encode()


def memory_key(cluster: str) -> bytes:
    return f"memory|{cluster}".encode()


def encode_entry(entry: Entry) -> bytes:
    return json.dumps({"v": VERSION, **asdict(entry)}).encode()


def decode_entry(value: bytes) -> Entry | None:
    """None for what is not an entry of a version we read."""
    try:
        body = json.loads(value)
        if body.pop("v") != VERSION:
            return None
        return Entry(**body)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def encode_memory(memory: Memory) -> bytes:
    """The judge's state is left out: after a restart it starts anew, from measurements."""
    body = {
        "v": VERSION,
        "owned": [
            [b, s.value, o.before_bytes_per_s, o.wanted_bytes_per_s, list(o.may_stand)]
            for (b, s), o in memory.owned.items()
        ],
        "theirs_until_ms": [[b, s.value, until] for (b, s), until in memory.theirs_until_ms.items()],
        "seen": [[topic, partition, sorted(brokers)] for (topic, partition), brokers in memory.seen.items()],
        "rescued": sorted(memory.rescued),
        "throttled": memory.throttled,
        "standing": [[broker, side.value, rate] for (broker, side), rate in memory.standing.items()],
        "standing_lists": None if memory.standing_lists is None else sorted(memory.standing_lists),
        "idle_lists": sorted(memory.idle_lists),
        "to_clear": sorted(memory.to_clear),
    }
    return json.dumps(body).encode()


def decode_memory(value: bytes) -> Memory:
    """
    Raises:
        ValueError: not a memory of a version we read. To act without knowing what is ours would be to forget it.
    """
    try:
        body = json.loads(value)
        if body["v"] != VERSION:
            raise ValueError(f"version {body['v']}, this program reads {VERSION}")
        owned: dict[BrokerSide, Owned] = {
            (b, Side(s)): Owned(before, wanted, tuple(may)) for b, s, before, wanted, may in body["owned"]
        }
        theirs: dict[BrokerSide, int] = {(b, Side(s)): until for b, s, until in body["theirs_until_ms"]}
        seen = {(topic, partition): frozenset(brokers) for topic, partition, brokers in body["seen"]}
        standing: dict[BrokerSide, int] = {(b, Side(s)): rate for b, s, rate in body["standing"]}
        return Memory(
            owned=owned,
            theirs_until_ms=theirs,
            seen=seen,
            rescued=frozenset(body["rescued"]),
            throttled=bool(body["throttled"]),
            standing=standing,
            standing_lists=None if body["standing_lists"] is None else frozenset(body["standing_lists"]),
            idle_lists=frozenset(body["idle_lists"]),
            to_clear=frozenset(body["to_clear"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a memory record of this version: {error!r}") from error
