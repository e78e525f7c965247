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

from streaming.contract import Side
from tuner.decide.orders_told import Ordered
from tuner.journal import list_records
from tuner.journal.list_records import listed_of, listed_row
from tuner.journal.order_records import orders_body, orders_of
from tuner.model.cluster import BrokerSide
from tuner.model.decision import AddPairs, Decision, RemovePairs, SetRate, action_of
from tuner.model.memory import Memory, Owned
from tuner.model.orders import Orders

RING = 100_000
TURN = "turn"
QUOTAS = "quotas"
STEPS, STEPS_OVER, PACE = "steps", "steps-over", "pace"
ORDER = "ordered"
_SEQ, _SEQ_CHARS_MAX = re.compile(rb'"seq": (\d+)\}\Z'), 32  # As ``encode_entry`` ends it.
RINGS = ("entry", "turn", "quotas-entry", "plan-entry")
_RING_OF = {TURN: "turn", QUOTAS: "quotas-entry", **dict.fromkeys((STEPS, STEPS_OVER, PACE), "plan-entry")}
VERSION = 1
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
    text = "; ".join(change.text for change in changes[:_TURN_TEXTS])
    if len(changes) > _TURN_TEXTS:
        text += f"; and {len(changes) - _TURN_TEXTS} more"
    rates = [[c.broker, c.side.value, c.live_bytes_per_s, c.wanted_bytes_per_s] for c in changes]
    return Entry(at_ms, TURN, action_of(changes[0]), changes[0].reason.value, text, {"rates": rates})


def order_entry(told: Ordered, at_ms: int) -> Entry:
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
        at_ms, kind, action_of(first), first.reason.value, list_records.summary(changes), list_records.rows(changes),
        failure=failure,
    )  # fmt: skip


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
        body = json.loads(value)
        if body.pop("v") != VERSION:
            return None
        return Entry(**body)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def seq_of(value: bytes) -> int | None:
    """Of an entry, without reading the rest of it; None as ``decode_entry``. Whoever takes over reads hundreds of thousands."""
    found = _SEQ.search(value, max(0, len(value) - _SEQ_CHARS_MAX))
    if found is not None:
        return int(found[1])
    entry = decode_entry(value)
    return None if entry is None else entry.seq


def encode_memory(memory: Memory, holder: str = "") -> bytes:
    """The judge's state is left out: after a restart it starts anew, from measurements. ``holder``: who writes it."""
    body = {
        "v": VERSION,
        "holder": holder,
        "owned": [_owned_row(side, owned) for side, owned in memory.owned.items()],
        "theirs_until_ms": [[b, s.value, until] for (b, s), until in memory.theirs_until_ms.items()],
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
    """Whose a memory's record is; of before that was kept nobody's."""
    return str(json.loads(memory).get("holder", ""))


def encode_owned(side: BrokerSide, owned: Owned) -> bytes:
    return json.dumps({"v": VERSION, "owned": _owned_row(side, owned)}).encode()


def decode_owned(value: bytes) -> tuple[BrokerSide, Owned]:
    """Raises ValueError as ``decode_memory``."""
    try:
        body = json.loads(value)
        if body["v"] != VERSION:
            raise ValueError(f"version {body['v']}, this program reads {VERSION}")
        return _owned(body["owned"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a record of this version: {error!r}") from error


def encode_seen(topic: str, seen: Mapping[int, frozenset[int]]) -> bytes:
    rows = [[partition, sorted(brokers)] for partition, brokers in seen.items()]
    return json.dumps({"v": VERSION, "topic": topic, "seen": rows}).encode()


def decode_seen(value: bytes) -> dict[tuple[str, int], frozenset[int]]:
    """Raises ValueError as ``decode_memory``."""
    try:
        body = json.loads(value)
        if body["v"] != VERSION:
            raise ValueError(f"version {body['v']}, this program reads {VERSION}")
        return {(body["topic"], partition): frozenset(brokers) for partition, brokers in body["seen"]}
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a record of this version: {error!r}") from error


def _owned_row(side: BrokerSide, owned: Owned) -> list[Any]:
    broker, which = side
    row = [broker, which.value, owned.before_bytes_per_s, owned.wanted_bytes_per_s, list(owned.may_stand)]
    return row if owned.goes_back_to_bytes_per_s is None else [*row, owned.goes_back_to_bytes_per_s]


def _owned(row: list[Any]) -> tuple[BrokerSide, Owned]:
    broker, side, before, wanted, may_stand, *over = row
    return (broker, Side(side)), Owned(before, wanted, tuple(may_stand), *over)


def decode_memory(value: bytes) -> Memory:
    """
    Raises:
        ValueError: not a memory of a version we read. To act without knowing what is ours would be to forget it.
    """
    try:
        body = json.loads(value)
        if body["v"] != VERSION:
            raise ValueError(f"version {body['v']}, this program reads {VERSION}")
        owned = dict(_owned(row) for row in body["owned"])
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
            orders_at_ms=int(body.get("orders_at_ms", 0)),
            # Of before this was kept only which were heeded is known, and not what they were.
            ordered=orders_of(body["ordered"]) if "ordered" in body else Orders(int(body.get("orders_at_ms", 0))),
            ordered_until_ms=body.get("ordered_until_ms"),
            swept_at_ms=int(body.get("swept_at_ms", 0)),
            late={(b, Side(s)): tuple(values) for b, s, values in body.get("late", ())},
            late_until_ms=int(body.get("late_until_ms", 0)),
            listed=dict(listed_of(row) for row in body.get("listed", ())),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a memory record of this version: {error!r}") from error
