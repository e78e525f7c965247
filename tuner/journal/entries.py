"""Encodes and decodes the journal's records, all JSON.

Each line names the kind, the record's key and its value.

entry         ``entry|<cluster>|<seq mod RING>``: a decision, the intent to carry it out, its outcome, an operator's order, or an
            entry about a leadership term (term_entries.py).
steering      ``steering|<cluster>|<seq mod RING>``: the rates that one steering tick wrote.
quotas-entry  ``quotas-entry|<cluster>|<seq mod RING>``: the mutation quotas that one cycle writes.
plan-entry    ``plan-entry|<cluster>|<seq mod RING>``: the plan steps that one cycle requests, and the outcomes of earlier steps.
memory        ``memory|<cluster>``: what the tuner remembers, such as the settings that it manages and the moving replicas.
owned         ``owned|<cluster>|<broker>|<side>``: one managed rate; updates the memory record that precedes it.
seen          ``seen|<cluster>|<topic>``: the moving replicas of one topic; updates the memory record that precedes it.
holder        ``holder|<cluster>``: the tuner that writes this journal. Writing it also proves that no other tuner has taken over.

The first four kinds are rings: after RING records the keys repeat, so that compaction bounds the topic. Each has its own ring, so
that one day of steering ticks does not displace a month of decisions. Every other key keeps its last record.
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
from tuner.control.throttle.state import Memory, OwnedRate, RateSince
from tuner.core.cluster import BrokerSide
from tuner.core.operator_orders import Orders
from tuner.journal import list_records
from tuner.journal.bodies import SEQ_MAX, VERSION, EntryBody, MemoryBody, MovingBody, OwnedBody, OwnedRow, decode_body
from tuner.journal.list_records import listed_of, listed_row
from tuner.journal.order_records import orders_body, orders_of

RING = 100_000
# Two kinds of entries. Other kinds, such as "decision", "intent" and "outcome", are listed in ``Entry``.
STEERING = "steering"
QUOTAS = "quotas"
STEPS = "steps"
STEP_OUTCOMES = "step-outcomes"
CONCURRENCY = "concurrency"
ORDER = "ordered"  # The action and the reason of an entry about an operator's order.
_SEQ = re.compile(rb'"seq": (\d+)\}\Z')  # The end of a record as ``encode_entry`` writes it.
_SEQ_CHARS_MAX = 32
RINGS = ("entry", "steering", "quotas-entry", "plan-entry")
_RING_OF = {
    STEERING: "steering",
    QUOTAS: "quotas-entry",
    **dict.fromkeys((STEPS, STEP_OUTCOMES, CONCURRENCY), "plan-entry"),
}
_TEXTS_MAX = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the decision history.

    Attributes:
        at_ms: the time of the decision, epoch ms.
        kind: "decision": nothing to write. "intent", "steering", "quotas" and "steps": the tuner is about to act. "outcome" and
            "step-outcomes": the tuner has acted. "concurrency": a new limit of concurrent reassignment steps.
        action: the action that was decided, such as "set".
        reason: the reason code of the decision.
        text: a sentence for people.
        decision: the fields of the decision.
        inputs: the values that the decision was made from.
        failure: why the action failed; None if it did not fail.
        seq: the number of the entry in its ring.
    """

    at_ms: int
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
    """Returns the entry of a throttle decision."""
    return Entry(
        at_ms,
        kind,
        action=action_of(decision),
        reason=decision.reason.value,
        text=decision.text,
        decision={f.name: getattr(decision, f.name) for f in fields(decision)},
        inputs=inputs or {},
        failure=failure,
        dry_run=dry_run,
    )


def steering_entry(changes: Sequence[SetRate], at_ms: int) -> Entry:
    """Returns the entry of the rates that one steering tick writes. Its text names only the first rates if there are many."""
    text = join_names((change.text for change in changes), _TEXTS_MAX, separator="; ")
    rates = [[c.broker, c.side.value, c.current_bytes_per_s, c.setpoint_bytes_per_s] for c in changes]
    first = changes[0]
    return Entry(
        at_ms, STEERING, action=action_of(first), reason=first.reason.value, text=text, decision={"rates": rates}
    )


def order_entry(event: OrderEvent, at_ms: int) -> Entry:
    """Returns the entry of an operator's order. The orders record itself (order_records.py) keeps only the newest order."""
    decision = {"broker": event.broker, "side": event.side}
    return Entry(at_ms, "decision", action=ORDER, reason=ORDER, text=event.text, decision=decision)


def lists_entry(
    kind: str,
    changes: Sequence[AddPairs | RemovePairs],
    at_ms: int,
    *,
    failures: Mapping[str, str] | None = None,
) -> Entry:
    """Returns one entry for all throttled-replica lists that a cycle changes for one reason.

    Args:
        failures: why a change failed, by topic.
    """
    failure_text = "; ".join(f"topic {topic}: {failure}" for topic, failure in (failures or {}).items()) or None
    first = changes[0]
    return Entry(
        at_ms,
        kind,
        action=action_of(first),
        reason=first.reason.value,
        text=list_records.changes_text(changes),
        decision=list_records.entry_rows(changes),
        failure=failure_text,
    )


def ring_of(entry: Entry) -> str:
    """Returns the ring, one of ``RINGS``, that an entry belongs to."""
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


def moving_prefix(cluster: str) -> bytes:
    return f"seen|{cluster}|".encode()


def moving_key(cluster: str, topic: str) -> bytes:
    return moving_prefix(cluster) + topic.encode()


def encode_entry(entry: Entry) -> bytes:
    # asdict is not used, because it copies every value, and json only reads the values.
    return json.dumps({"v": VERSION, **{f.name: getattr(entry, f.name) for f in fields(entry)}}).encode()


def entry_or_none(value: bytes) -> Entry | None:
    """Returns the entry; None if this version cannot read it."""
    try:
        return decode_entry(value)
    except ValueError:
        return None


def decode_entry(value: bytes) -> Entry:
    """Returns the entry.

    Raises:
        ValueError: as ``decode_body``.
    """
    body = decode_body(value, EntryBody)
    return Entry(
        at_ms=body.at_ms,
        kind=body.kind,
        action=body.action,
        reason=body.reason,
        text=body.text,
        decision=body.decision,
        inputs=body.inputs,
        failure=body.failure,
        dry_run=body.dry_run,
        seq=body.seq,
    )


def seq_of(value: bytes) -> int | None:
    """Returns the sequence number of an entry; None if it cannot be read or exceeds ``SEQ_MAX``.

    The number is taken from the end of the record without decoding the rest, if possible: a tuner that takes over reads hundreds of
    thousands of entries.
    """
    match = _SEQ.search(value, max(0, len(value) - _SEQ_CHARS_MAX))
    if match is not None and (seq := int(match[1])) <= SEQ_MAX:
        return seq
    entry = entry_or_none(value)
    return None if entry is None or entry.seq > SEQ_MAX else entry.seq


def encode_memory(memory: Memory, holder: str = "") -> bytes:
    """Returns the memory record. It lacks the stall detector's state, which a restarted tuner builds again from measurements.

    Args:
        holder: the tuner that writes it.
    """
    body = {
        "v": VERSION,
        "holder": holder,
        "owned": [_owned_row(side, owned) for side, owned in memory.owned.items()],
        "externally_owned_until_ms": [
            [b, s.value, until] for (b, s), until in memory.externally_owned_until_ms.items()
        ],
        "moving_replicas": [
            [topic, partition, sorted(brokers)] for (topic, partition), brokers in memory.moving_replicas.items()
        ],
        "rescued": sorted(memory.rescued),
        "throttled": memory.throttled,
        "preexisting_rates": [[broker, side.value, rate] for (broker, side), rate in memory.preexisting_rates.items()],
        "preexisting_lists": None if memory.preexisting_lists is None else sorted(memory.preexisting_lists),
        "idle_lists": sorted(memory.idle_lists),
        "brokers_to_clear": sorted(memory.brokers_to_clear),
        "orders_at_ms": memory.orders_at_ms,
        "recorded_orders": orders_body(memory.recorded_orders),
        "orders_recorded_until_ms": memory.orders_recorded_until_ms,
        "schedule_rules": memory.schedule_rules,
        "cleared_at_ms": memory.cleared_at_ms,
        "predecessor_writes": [
            [broker, side.value, list(values)] for (broker, side), values in memory.predecessor_writes.items()
        ],
        "predecessor_writes_until_ms": memory.predecessor_writes_until_ms,
        "listed": [listed_row(topic, pairs) for topic, pairs in memory.listed.items()],
        "idle_rates_since": [
            [broker, side.value, since.bytes_per_s, since.since_ms]
            for (broker, side), since in memory.idle_rates_since.items()
        ],
        "idle_lists_since_ms": [[topic, since_ms] for topic, since_ms in memory.idle_lists_since_ms.items()],
    }
    return json.dumps(body).encode()


def memory_writer(memory: bytes) -> str:
    """Returns the tuner that wrote a memory record. Raises ValueError as ``decode_memory``."""
    return decode_body(memory, MemoryBody).holder


def encode_owned(side: BrokerSide, owned: OwnedRate) -> bytes:
    return json.dumps({"v": VERSION, "owned": _owned_row(side, owned)}).encode()


def decode_owned(value: bytes) -> tuple[BrokerSide, OwnedRate]:
    """Returns a managed rate and its side. Raises ValueError as ``decode_memory``."""
    return _owned(decode_body(value, OwnedBody).owned)


def encode_moving(topic: str, moving_replicas: Mapping[int, frozenset[int]]) -> bytes:
    rows = [[partition, sorted(brokers)] for partition, brokers in moving_replicas.items()]
    return json.dumps({"v": VERSION, "topic": topic, "moving_replicas": rows}).encode()


def decode_moving(value: bytes) -> dict[tuple[str, int], frozenset[int]]:
    """Returns the moving replicas by topic and partition. Raises ValueError as ``decode_memory``."""
    body = decode_body(value, MovingBody)
    return {(body.topic, partition): frozenset(brokers) for partition, brokers in body.moving_replicas}


def _owned_row(side: BrokerSide, owned: OwnedRate) -> list[Any]:
    broker, role = side
    row = [broker, role.value, owned.before_bytes_per_s, owned.setpoint_bytes_per_s, list(owned.possible_rates)]
    return row if owned.restore_to_bytes_per_s is None else [*row, owned.restore_to_bytes_per_s]


def _owned(row: OwnedRow) -> tuple[BrokerSide, OwnedRate]:
    owned = OwnedRate(
        before_bytes_per_s=row.before_bytes_per_s,
        setpoint_bytes_per_s=row.setpoint_bytes_per_s,
        possible_rates=tuple(row.possible_rates),
        restore_to_bytes_per_s=row.restore_to_bytes_per_s,
    )
    return (row.broker, row.side), owned


def decode_memory(value: bytes) -> Memory:
    """Returns the memory of a record.

    Raises:
        ValueError: as ``decode_body``. A tuner must not act without its memory, as it would not know what it manages.
    """
    body = decode_body(value, MemoryBody)
    return Memory(
        owned=dict(_owned(row) for row in body.owned),
        externally_owned_until_ms={(broker, side): until for broker, side, until in body.externally_owned_until_ms},
        moving_replicas={(topic, partition): frozenset(brokers) for topic, partition, brokers in body.moving_replicas},
        rescued=frozenset(body.rescued),
        throttled=body.throttled,
        preexisting_rates={(broker, side): rate for broker, side, rate in body.preexisting_rates},
        preexisting_lists=None if body.preexisting_lists is None else frozenset(body.preexisting_lists),
        idle_lists=frozenset(body.idle_lists),
        brokers_to_clear=frozenset(body.brokers_to_clear),
        orders_at_ms=body.orders_at_ms,
        # A record without orders still has the time of the acknowledged orders.
        recorded_orders=Orders(body.orders_at_ms) if body.recorded_orders is None else orders_of(body.recorded_orders),
        orders_recorded_until_ms=body.orders_recorded_until_ms,
        schedule_rules=body.schedule_rules,
        cleared_at_ms=body.cleared_at_ms,
        predecessor_writes={(broker, side): tuple(values) for broker, side, values in body.predecessor_writes},
        predecessor_writes_until_ms=body.predecessor_writes_until_ms,
        idle_rates_since={
            (broker, side): RateSince(rate, since_ms) for broker, side, rate, since_ms in body.idle_rates_since
        },
        idle_lists_since_ms=dict(body.idle_lists_since_ms),
        listed=dict(listed_of(row) for row in body.listed),
    )
