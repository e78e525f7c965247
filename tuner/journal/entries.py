"""The journal's records, all JSON.

entry    key ``entry|<cluster>|<seq mod RING>``: a decision, the intent to carry it out, its outcome, or what a person has
         ordered. The ring of keys lets compaction bound the topic to the last RING entries.
turn     key ``turn|<cluster>|<seq mod RING>``: the rates that the law wrote in one second; a ring of its own, so that
         the seconds of one day do not push the decisions of a month out.
quotas   key ``quotas-entry|<cluster>|<seq mod RING>``: the mutation quotas that a cycle writes; a ring of its own, too.
plans    key ``plan-entry|<cluster>|<seq mod RING>``: the steps of plans that a cycle asks for, and what came of others; as well.
memory   key ``memory|<cluster>``: what is ours and what we saw moving, and who says so; the last one wins.
owned    key ``owned|<cluster>|<broker>|<side>``: one rate of ours, newer than a memory that was written before it.
seen     key ``seen|<cluster>|<topic>``: what we saw moving of one topic, as much newer.
holder   key ``holder|<cluster>``: who writes this journal; written also to find out whether one still may.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from streaming.shared.short_lists import join_names
from tuner.control.throttle.decision import AddPairs, Decision, RemovePairs, SetRate, action_of
from tuner.control.throttle.order_events import OrderEvent
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import BrokerSide
from tuner.core.operator_orders import Orders
from tuner.journal import list_records
from tuner.journal.bodies import SEQ_MAX, VERSION, EntryBody, MemoryBody, OwnedBody, OwnedRow, SeenBody, decoded
from tuner.journal.list_records import listed_of, listed_row
from tuner.journal.order_records import orders_body, orders_of

RING = 100_000
TURN = "turn"
QUOTAS = "quotas"
STEPS, STEPS_OVER, PACE = "steps", "steps-over", "pace"
WAITS = "waits"  # The reason of an entry that tells of steps which are held back.
ORDER = "ordered"
_SEQ, _SEQ_CHARS_MAX = re.compile(rb'"seq": (\d+)\}\Z'), 32  # As ``encode_entry`` ends it.
RINGS = ("entry", "turn", "quotas-entry", "plan-entry")
_RING_OF = {TURN: "turn", QUOTAS: "quotas-entry", **dict.fromkeys((STEPS, STEPS_OVER, PACE), "plan-entry")}
_TURN_TEXTS = 3


@dataclass(frozen=True, slots=True)
class Entry:
    at_ms: int
    # "decision": nothing to do; "intent", "turn", "quotas", "steps": about to act; "outcome", "steps-over": acted.
    # "pace": how many steps at a time from now on.
    kind: str
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
        {f.name: getattr(decision, f.name) for f in fields(decision)},
        inputs or {},
        failure,
        dry_run,
    )


def turn_entry(changes: Sequence[SetRate], at_ms: int) -> Entry:
    """One second of the law; of many rates the text names the first."""
    text = join_names((change.text for change in changes), _TURN_TEXTS, between="; ")
    rates = [[c.broker, c.side.value, c.current_bytes_per_s, c.setpoint_bytes_per_s] for c in changes]
    return Entry(at_ms, TURN, action_of(changes[0]), changes[0].reason.value, text, {"rates": rates})


def order_entry(told: OrderEvent, at_ms: int) -> Entry:
    """What a person has said: their words themselves are kept by the newest alone (order_records.py)."""
    return Entry(at_ms, "decision", ORDER, ORDER, told.text, {"broker": told.broker, "side": told.side})


def lists_entry(
    kind: str,
    changes: Sequence[AddPairs | RemovePairs],
    at_ms: int,
    *,
    failures: Mapping[str, str] | None = None,
) -> Entry:
    """All that a cycle changes on the lists for one reason, which would be many; ``failures`` by topic."""
    failure = "; ".join(f"topic {topic}: {said}" for topic, said in (failures or {}).items()) or None
    first = changes[0]
    return Entry(
        at_ms,
        kind,
        action_of(first),
        first.reason.value,
        list_records.summary(changes),
        list_records.rows(changes),
        failure=failure,
    )


def ring_of(entry: Entry) -> str:
    return _RING_OF.get(entry.kind, "entry")


def entry_prefix(ring: str, cluster: str) -> bytes:
    return f"{ring}|{cluster}|".encode()


def entry_key(ring: str, cluster: str, seq: int) -> bytes:
    return entry_prefix(ring, cluster) + str(seq % RING).encode()


def memory_key(cluster: str) -> bytes:
    return f"memory|{cluster}".encode()


def holder_key(cluster: str) -> bytes:
    return f"holder|{cluster}".encode()


def encode_holder(holder: str) -> bytes:
    return json.dumps({"v": VERSION, "holder": holder}).encode()


def owned_prefix(cluster: str) -> bytes:
    return f"owned|{cluster}|".encode()


def owned_key(cluster: str, side: BrokerSide) -> bytes:
    return owned_prefix(cluster) + f"{side[0]}|{side[1].value}".encode()


def seen_prefix(cluster: str) -> bytes:
    return f"seen|{cluster}|".encode()


def seen_key(cluster: str, topic: str) -> bytes:
    return seen_prefix(cluster) + topic.encode()


def encode_entry(entry: Entry) -> bytes:
    # Not asdict, which would copy all that json only reads.
    return json.dumps({"v": VERSION, **{f.name: getattr(entry, f.name) for f in fields(entry)}}).encode()


def decode_entry(value: bytes) -> Entry | None:
    """None for what is not an entry of a version we read."""
    try:
        return read_entry(value)
    except ValueError:
        return None


def read_entry(value: bytes) -> Entry:
    """
    Raises:
        ValueError: not an entry of a version we read.
    """
    body = decoded(value, EntryBody)
    return Entry(
        body.at_ms,
        body.kind,
        body.action,
        body.reason,
        body.text,
        body.decision,
        body.inputs,
        body.failure,
        body.dry_run,
        body.seq,
    )


def seq_of(value: bytes) -> int | None:
    """The number of an entry, without reading the rest of it, as a tuner that takes over reads hundreds of thousands.

    None as ``decode_entry``, and above ``SEQ_MAX``: a tuner counts on from the largest.
    """
    found = _SEQ.search(value, max(0, len(value) - _SEQ_CHARS_MAX))
    if found is not None and (seq := int(found[1])) <= SEQ_MAX:
        return seq
    entry = decode_entry(value)
    return None if entry is None or entry.seq > SEQ_MAX else entry.seq


def encode_memory(memory: Memory, holder: str = "") -> bytes:
    """The judge's state is left out: after a restart it starts anew, from measurements. ``holder``: who writes it."""
    body = {
        "v": VERSION,
        "holder": holder,
        "owned": [_owned_row(side, owned) for side, owned in memory.owned.items()],
        "externally_owned_until_ms": [
            [b, s.value, until] for (b, s), until in memory.externally_owned_until_ms.items()
        ],
        "seen": [[topic, partition, sorted(brokers)] for (topic, partition), brokers in memory.seen.items()],
        "rescued": sorted(memory.rescued),
        "throttled": memory.throttled,
        "standing": [[broker, side.value, rate] for (broker, side), rate in memory.standing.items()],
        "standing_lists": None if memory.standing_lists is None else sorted(memory.standing_lists),
        "idle_lists": sorted(memory.idle_lists),
        "to_clear": sorted(memory.to_clear),
        "orders_at_ms": memory.orders_at_ms,
        "ordered": orders_body(memory.ordered),
        "ordered_until_ms": memory.ordered_until_ms,
        "swept_at_ms": memory.swept_at_ms,
        "late": [[broker, side.value, list(values)] for (broker, side), values in memory.late.items()],
        "late_until_ms": memory.late_until_ms,
        "listed": [listed_row(topic, pairs) for topic, pairs in memory.listed.items()],
    }
    return json.dumps(body).encode()


def written_by(memory: bytes) -> str:
    """Who wrote a memory's record; empty for a record of before that was kept. Raises ValueError as ``decode_memory``."""
    return decoded(memory, MemoryBody).holder


def encode_owned(side: BrokerSide, owned: OwnedRate) -> bytes:
    return json.dumps({"v": VERSION, "owned": _owned_row(side, owned)}).encode()


def decode_owned(value: bytes) -> tuple[BrokerSide, OwnedRate]:
    """Raises ValueError as ``decode_memory``."""
    return _owned(decoded(value, OwnedBody).owned)


def encode_seen(topic: str, seen: Mapping[int, frozenset[int]]) -> bytes:
    rows = [[partition, sorted(brokers)] for partition, brokers in seen.items()]
    return json.dumps({"v": VERSION, "topic": topic, "seen": rows}).encode()


def decode_seen(value: bytes) -> dict[tuple[str, int], frozenset[int]]:
    """Raises ValueError as ``decode_memory``."""
    body = decoded(value, SeenBody)
    return {(body.topic, partition): frozenset(brokers) for partition, brokers in body.seen}


def _owned_row(side: BrokerSide, owned: OwnedRate) -> list[Any]:
    broker, which = side
    row = [broker, which.value, owned.before_bytes_per_s, owned.setpoint_bytes_per_s, list(owned.may_stand)]
    return row if owned.goes_back_to_bytes_per_s is None else [*row, owned.goes_back_to_bytes_per_s]


def _owned(row: OwnedRow) -> tuple[BrokerSide, OwnedRate]:
    owned = OwnedRate(
        row.before_bytes_per_s, row.setpoint_bytes_per_s, tuple(row.may_stand), row.goes_back_to_bytes_per_s
    )
    return (row.broker, row.side), owned


def decode_memory(value: bytes) -> Memory:
    """
    Raises:
        ValueError: not a memory of a version we read. To act without knowing what is ours would be to forget it.
    """
    body = decoded(value, MemoryBody)
    return Memory(
        owned=dict(_owned(row) for row in body.owned),
        externally_owned_until_ms={(broker, side): until for broker, side, until in body.externally_owned_until_ms},
        seen={(topic, partition): frozenset(brokers) for topic, partition, brokers in body.seen},
        rescued=frozenset(body.rescued),
        throttled=body.throttled,
        standing={(broker, side): rate for broker, side, rate in body.standing},
        standing_lists=None if body.standing_lists is None else frozenset(body.standing_lists),
        idle_lists=frozenset(body.idle_lists),
        to_clear=frozenset(body.to_clear),
        orders_at_ms=body.orders_at_ms,
        # Of before this was kept only which were acknowledged is known, and not what they were.
        ordered=Orders(body.orders_at_ms) if body.ordered is None else orders_of(body.ordered),
        ordered_until_ms=body.ordered_until_ms,
        swept_at_ms=body.swept_at_ms,
        late={(broker, side): tuple(values) for broker, side, values in body.late},
        late_until_ms=body.late_until_ms,
        listed=dict(listed_of(row) for row in body.listed),
    )
