"""What takes the place of the journal's unreadable records: values only, nothing is read or written here.

What is rheostat's own    one memory, of all that can be read of it, takes the place of unreadable memories, rates, lists and moves.
A plan's head             the newest readable one, paused: the one that cannot be read may have said that the plan is to stop.
Any other record          the newest readable one of its key, or a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rheostat.journal.scan import Scan
from tuner.core.reassignment_plan import DesiredPlanState
from tuner.journal.entries import encode_memory, memory_key
from tuner.journal.plan_records import decode_head, encode_head
from tuner.journal.unreadable import KEY_BYTES_SHOWN, Unreadable

_OF_MEMORY = ("memory", "owned", "seen", "listed")
# Only a tuner writes these: it knows better what they are to say, and writes them again with its next change.
_OF_A_TUNER = (*_OF_MEMORY, "quota", "quotas", "plan-requested", "plan-state")


@dataclass(frozen=True, slots=True)
class Mending:
    """One record that is to be written."""

    key: bytes
    value: bytes | None  # None: a tombstone.
    cluster: str
    of_a_tuner: bool  # Only a tuner writes this record: not to be written while one acts.
    text: str


def mendings(scan: Scan) -> list[Mending]:
    """The records that mend all that is in force, in the order in which they are to be written."""
    made: list[Mending] = []
    for cluster in sorted({each.cluster for each in scan.in_force.values()}):
        here = [each for each in scan.in_force.values() if each.cluster == cluster]
        memory = [each for each in here if each.kind in _OF_MEMORY]
        if memory:
            made += _memory(scan, cluster, memory)
        made += [_same_key(scan, each) for each in here if each.kind not in _OF_MEMORY]
    return made


def _memory(scan: Scan, cluster: str, unreadable: list[Unreadable]) -> Iterator[Mending]:
    known = scan.remembered[cluster]
    memory, key = known.whole_memory, memory_key(cluster)
    sides = ", ".join(f"broker {broker} {side}" for broker, side in sorted(memory.owned)) or "none"
    what = (
        f"throttles that it says are rheostat's own: {sides}; topics with throttled replicas of its own: {len(memory.listed)}. "
        "What else rheostat has set stays as it is: compare with `kafka-configs --describe`"
    )
    yield Mending(
        key,
        encode_memory(memory, known.memory_by),
        cluster,
        True,
        f"{_shown(key)}: a memory of all that can be read is written; {what}",
    )
    # The memory is newer than these: for a tuner their place is taken.
    for each in unreadable:
        if each.kind != "memory":
            yield Mending(
                each.key, None, cluster, True, f"{_shown(each.key)}: deleted, as the memory holds what is known"
            )


def _same_key(scan: Scan, each: Unreadable) -> Mending:
    value, text = scan.readable.get(each.key), "the newest readable record of this key is written again"
    if value is None:
        text = "deleted, as no record of this key can be read"
        if each.kind == "plan":
            text += "; what this plan has under way keeps its throttle and ends by itself"
    elif each.kind == "plan":
        head, _ = decode_head(value)
        if head.desired is DesiredPlanState.RUNNING:
            value, text = (
                encode_head(replace(head, desired=DesiredPlanState.PAUSED)),
                (
                    "the newest readable word about this plan is written again, paused: `rheostat reassign resume` lets it go on"
                ),
            )
    return Mending(each.key, value, each.cluster, each.kind in _OF_A_TUNER, f"{_shown(each.key)}: {text}")


def _shown(key: bytes) -> str:
    return repr(key[:KEY_BYTES_SHOWN])
