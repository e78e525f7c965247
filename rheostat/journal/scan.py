"""The journal's records that this version cannot read, and which of them are in force.

A record is in force until a later one has its key. A memory takes the place of all rates, lists and moves that came before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.journal import entries, list_records, order_records, plan_records, presence_records, quota_records
from tuner.journal.replayed_state import ReplayedState
from tuner.journal.topic_reader import JournalRecord
from tuner.journal.unreadable import Unreadable, kind_of

# By the kind that a key begins with: what reads the record, and raises ValueError where it cannot.
_READERS: Mapping[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(entries.RINGS, entries.read_entry),
    "memory": entries.decode_memory,
    "owned": entries.decode_owned,
    "seen": entries.decode_seen,
    "listed": list_records.decode_listed,
    "orders": order_records.decode_orders,
    "quota": quota_records.decode_owned,
    "quotas": quota_records.decode_state,
    "plan": plan_records.decode_head,
    "plan-part": plan_records.decode_parts,
    "plan-requested": plan_records.decode_requested,
    "plan-state": plan_records.decode_state,
    presence_records.KIND: lambda value: presence_records.decode_presence(value, 0),
}
_BEFORE_A_MEMORY = ("owned", "seen", "listed")


@dataclass(slots=True)
class Scan:
    """What one reading of the journal found."""

    unreadable: list[Unreadable] = field(default_factory=list)  # All, in the order of the topic.
    in_force: dict[bytes, Unreadable] = field(default_factory=dict)  # Of these, the newest record of its key.
    readable: dict[bytes, bytes] = field(default_factory=dict)  # By key, of those in force: the newest readable value.
    remembered: dict[str, ReplayedState] = field(default_factory=dict)  # By cluster: what a tuner would know.


def scanned(records: Iterable[JournalRecord]) -> Scan:
    """Read all records of a journal, then those of its orders' topic."""
    scan, newest = Scan(), dict[bytes, bytes]()
    for record in records:
        read = _READERS.get(kind_of(record.key))
        cluster = Unreadable(record.key, None, 0, "").cluster
        if read is None or not cluster:
            continue  # No part of rheostat reads it.
        known = scan.remembered.setdefault(cluster, ReplayedState(cluster))
        known.take(record.key, record.value, record.offset)
        scan.in_force.pop(record.key, None)
        if record.value is None:
            newest.pop(record.key, None)
            continue
        why = _why_unreadable(read, record.value)
        if why is None and record.key in known.unreadable:  # A tuner also compares the value with the key.
            why = known.unreadable[record.key].why
        if why is not None:
            found = Unreadable(record.key, record.offset, len(record.value), why, topic=record.topic)
            scan.unreadable.append(found)
            scan.in_force[record.key] = found
            continue
        newest[record.key] = record.value
        if kind_of(record.key) == "memory":
            _supersede(scan.in_force, cluster)
    scan.readable = {key: newest[key] for key in scan.in_force if key in newest}
    return scan


def _why_unreadable(read: Callable[[bytes], Any], value: bytes) -> str | None:
    try:
        read(value)
    except ValueError as error:
        return str(error)
    return None


def _supersede(in_force: dict[bytes, Unreadable], cluster: str) -> None:
    for key in [key for key, each in in_force.items() if each.cluster == cluster and each.kind in _BEFORE_A_MEMORY]:
        del in_force[key]
