"""Computes the records that replace the journal's unreadable records. Does no I/O.

- The tuner's memory (everything that it manages), and records of single rates, lists and moves: a new memory record with everything
    readable replaces all of them.
- The head of a plan, which has the operator's orders for that plan: the newest readable head is written again, but paused, because
  the unreadable head may be an order to stop.
- Any other record: the newest readable record of its key is written again. If there is none, a tombstone deletes the key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rheostat.journal.scan import JournalScan
from tuner.core.reassignment_plan import DesiredPlanState
from tuner.journal.entries import encode_memory, memory_key
from tuner.journal.plan_records import decode_head, encode_head
from tuner.journal.unreadable import KEY_BYTES_SHOWN, UnreadableRecord

_MEMORY_KINDS = ("memory", "owned", "seen", "listed")  # The whole memory, and records of single rates, moves and lists.
# Only the tuner writes records of these kinds. A running tuner knows their content and writes them again with its next change.
_TUNER_KINDS = (*_MEMORY_KINDS, "quota", "quotas", "plan-requested", "plan-state")


@dataclass(frozen=True, slots=True)
class RepairRecord:
    """A record to write.

    Attributes:
        value: the value of the record; None for a tombstone, which deletes the key.
        is_tuner_record: whether only tuners write such records. If so, the repair must not write the record while a tuner is
            active.
        text: what the record does, for the operator.
    """

    key: bytes
    value: bytes | None
    cluster: str
    is_tuner_record: bool
    text: str


def plan_repair(scan: JournalScan) -> list[RepairRecord]:
    """Returns the records that replace all unreadable records in force, in the order in which they have to be written."""
    repairs: list[RepairRecord] = []
    for cluster in sorted({record.cluster for record in scan.in_force.values()}):
        in_force = [record for record in scan.in_force.values() if record.cluster == cluster]
        memory_records = [record for record in in_force if record.kind in _MEMORY_KINDS]
        if memory_records:
            repairs += _repair_memory(scan, cluster, memory_records)
        repairs += [_repair_key(scan, record) for record in in_force if record.kind not in _MEMORY_KINDS]
    return repairs


def _repair_memory(scan: JournalScan, cluster: str, unreadable: list[UnreadableRecord]) -> Iterator[RepairRecord]:
    state = scan.states[cluster]
    memory, key = state.whole_memory, memory_key(cluster)
    sides = ", ".join(f"broker {broker} {side}" for broker, side in sorted(memory.owned)) or "none"
    content = (
        f"managed throttles: {sides}; topics with managed throttled replicas: {len(memory.listed)}. Everything else that rheostat "
        "has set stays as it is: compare with `kafka-configs --describe`"
    )
    yield RepairRecord(
        key,
        encode_memory(memory, state.memory_writer),
        cluster,
        is_tuner_record=True,
        text=f"{_shown(key)}: a new record with all managed settings that can be read is written; {content}",
    )
    # A reader ignores these records after the new memory, so deleting them only cleans up.
    for record in unreadable:
        if record.kind != "memory":
            text = f"{_shown(record.key)}: deleted, because the new record has all managed settings that are known"
            yield RepairRecord(record.key, None, cluster, is_tuner_record=True, text=text)


def _repair_key(scan: JournalScan, record: UnreadableRecord) -> RepairRecord:
    value = scan.readable.get(record.key)
    text = "the newest readable record of this key is written again"
    if value is None:
        text = "deleted, as no record of this key can be read"
        if record.kind == "plan":
            text += "; running steps of this plan keep their throttle and end by themselves"
    elif record.kind == "plan":
        head = decode_head(value)
        if head.desired is DesiredPlanState.RUNNING:
            value = encode_head(replace(head, desired=DesiredPlanState.PAUSED))
            text = "the newest readable order about this plan is written again, paused: `rheostat reassign resume` continues it"
    text = f"{_shown(record.key)}: {text}"
    return RepairRecord(record.key, value, record.cluster, is_tuner_record=record.kind in _TUNER_KINDS, text=text)


def _shown(key: bytes) -> str:
    """Returns the key for the operator, shortened and with control characters escaped."""
    return repr(key[:KEY_BYTES_SHOWN])
