"""Finds the journal's records that this version cannot read, and tells which of them are in force.

A record is in force until a later record with the same key replaces it. A record of the tuner's memory (kind "memory": all settings
that the tuner manages) also replaces all earlier records of single rates ("owned"), lists ("listed") and moves ("seen").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.journal import entries, list_records, order_records, plan_records, presence_records, quota_records
from tuner.journal.bodies import OlderRecordError
from tuner.journal.replayed_state import ReplayedState
from tuner.journal.topic_reader import JournalRecord
from tuner.journal.unreadable import UnreadableRecord, cluster_of, kind_of

# The decoder of each kind of record; the kind is the beginning of the key. A decoder raises ValueError for an unreadable record.
_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(entries.RINGS, entries.decode_entry),
    "memory": entries.decode_memory,
    "owned": entries.decode_owned,
    "seen": entries.decode_moving,
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
_REPLACED_BY_MEMORY = ("owned", "seen", "listed")


@dataclass(slots=True)
class JournalScan:
    """The result of a scan.

    Attributes:
        unreadable: all unreadable records, in the order in which they were read.
        in_force: the unreadable records in force, by key.
        readable: the newest readable value of each key in ``in_force``, if there is one.
        states: the state that a tuner would recover from the readable records, by cluster.
    """

    unreadable: list[UnreadableRecord] = field(default_factory=list)
    in_force: dict[bytes, UnreadableRecord] = field(default_factory=dict)
    readable: dict[bytes, bytes] = field(default_factory=dict)
    states: dict[str, ReplayedState] = field(default_factory=dict)


def scan_records(records: Iterable[JournalRecord]) -> JournalScan:
    """Scans all records of a journal, and then all records of its orders topic."""
    scan, newest_readable = JournalScan(), dict[bytes, bytes]()
    for record in records:
        decode = _DECODERS.get(kind_of(record.key))
        cluster = cluster_of(record.key)
        if decode is None or not cluster:
            continue  # No version of rheostat writes such a key.
        state = scan.states.setdefault(cluster, ReplayedState(cluster))
        state.apply(record.key, record.value, record.offset)
        scan.in_force.pop(record.key, None)
        if record.value is None:
            newest_readable.pop(record.key, None)
            continue
        unreadable = _value_fault(decode, record) or _key_fault(state, record)
        if unreadable is not None:
            scan.unreadable.append(unreadable)
            scan.in_force[record.key] = unreadable
            continue
        newest_readable[record.key] = record.value
        if kind_of(record.key) == "memory":
            _drop_replaced(scan.in_force, cluster)
    scan.readable = {key: newest_readable[key] for key in scan.in_force if key in newest_readable}
    return scan


def _value_fault(decode: Callable[[bytes], Any], record: JournalRecord) -> UnreadableRecord | None:
    """Returns the record as unreadable; None if its value can be decoded."""
    value = record.value or b""
    try:
        decode(value)
    except ValueError as error:
        is_older = isinstance(error, OlderRecordError)
        return UnreadableRecord(
            record.key, record.offset, len(value), str(error), topic=record.topic, is_older=is_older
        )
    return None


def _key_fault(state: ReplayedState, record: JournalRecord) -> UnreadableRecord | None:
    """Returns the record as unreadable if its value contradicts its key, which ``ReplayedState`` checks; otherwise None."""
    if record.key not in state.unreadable:
        return None
    why = state.unreadable[record.key].why
    return UnreadableRecord(record.key, record.offset, len(record.value or b""), why, topic=record.topic)


def _drop_replaced(in_force: dict[bytes, UnreadableRecord], cluster: str) -> None:
    for key, record in list(in_force.items()):
        if record.cluster == cluster and record.kind in _REPLACED_BY_MEMORY:
            del in_force[key]
