"""Computes the records that replace the journal's unreadable ones; does no I/O.

What rheostat manages   one memory of everything that can be read replaces unreadable memories, rates, lists and moves.
The head of a plan      is written again, paused: the unreadable record may be the order to stop the plan.
Any other record        the newest readable record of its key is written again, or a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rheostat.journal.scan import JournalScan
from tuner.core.reassignment_plan import DesiredPlanState
from tuner.journal.entries import encode_memory, memory_key
from tuner.journal.plan_records import decode_head, encode_head
from tuner.journal.unreadable import KEY_BYTES_SHOWN, UnreadableRecord

_MEMORY_KINDS = ("memory", "owned", "seen", "listed")
# Only the tuner writes these. A running tuner knows their content, and writes them again with its next change.
_TUNER_KINDS = (*_MEMORY_KINDS, "quota", "quotas", "plan-requested", "plan-state")


@dataclass(frozen=True, slots=True)
class RepairRecord:
    """A record to write.

    Attributes:
        value: None: a tombstone.
        of_a_tuner: only the tuner writes such records; it must not be written while one acts.
        text: what the record does, for the operator.
    """

    key: bytes
    value: bytes | None
    cluster: str
    of_a_tuner: bool
    text: str


def plan_repair(scan: JournalScan) -> list[RepairRecord]:
    """Returns the records that replace all unreadable ones in force, in the order in which they have to be written."""
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
        True,
        f"{_shown(key)}: a memory of all that can be read is written; {content}",
    )
    # The new memory replaces these, too. Deleting them only cleans up.
    for record in unreadable:
        if record.kind != "memory":
            text = f"{_shown(record.key)}: deleted, as the memory holds what is known"
            yield RepairRecord(record.key, None, cluster, True, text)


def _repair_key(scan: JournalScan, record: UnreadableRecord) -> RepairRecord:
    value, text = scan.readable.get(record.key), "the newest readable record of this key is written again"
    if value is None:
        text = "deleted, as no record of this key can be read"
        if record.kind == "plan":
            text += "; steps of this plan that are under way keep their throttle and end by themselves"
    elif record.kind == "plan":
        head = decode_head(value)
        if head.desired is DesiredPlanState.RUNNING:
            value = encode_head(replace(head, desired=DesiredPlanState.PAUSED))
            text = "the newest readable order about this plan is written again, paused: `rheostat reassign resume` continues it"
    text = f"{_shown(record.key)}: {text}"
    return RepairRecord(record.key, value, record.cluster, record.kind in _TUNER_KINDS, text)


def _shown(key: bytes) -> str:
    return repr(key[:KEY_BYTES_SHOWN])
