"""All that a decision may depend on, member by member, and what one look has changed of it since the one before.

Intuition: from one cycle to the next nearly everything is the object that it was, a signal until its successor comes, a move
until it is done. To find what is new takes a comparison of identities, and only that is written.

Vocabulary:
    member   one field of what is observed or remembered, by a name such as ``live.rates`` or ``memory.owned``.
    piece    one change of one member, small enough to be written between other things.
    whole    a member from nothing, in as many pieces as it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from types import GenericAlias
from typing import Any, get_args, get_origin, get_type_hints

from streaming.shared.contract import BrokerSignal, ControllerSignal, MoveSignal, TenantSignal
from streaming.shared.contract.quotas import QuotaEntity
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.incremental.delta_mapping import grown_since
from tuner.control.throttle.objective import Capacity
from tuner.control.throttle.state import Memory
from tuner.control.throttle.steering.state import ControlState
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.core.controller import ClusterWideMeasures
from tuner.core.operator_orders import Orders
from tuner.core.reassignment_plan import PlanThrottle, TopicPartition
from tuner.journal.delta import Books, Heard, Slid, heard, joined, named, other_items, slid
from tuner.journal.type_codec import TypeCodec, shape_of


def _fields_of(kind: type, prefix: str) -> dict[str, Any]:
    return {f"{prefix}.{name}": hint for name, hint in get_type_hints(kind).items()}


MEMBERS: Mapping[str, Any] = {
    "not_seen": str | None,
    **_fields_of(LiveCluster, "live"),
    "signals.brokers": Mapping[int, BrokerSignal],
    "signals.moves": Mapping[BrokerSide, MoveSignal],
    "busy": frozenset[BrokerSide],
    "empty": frozenset[BrokerSide],
    "orders": Orders,
    "plan_moves": Mapping[TopicPartition, PlanThrottle],
    "steered": frozenset[BrokerSide],
    **_fields_of(Memory, "memory"),
    **_fields_of(ControlState, "law"),
    "second.stands": Mapping[BrokerSide, int],
    "second.held": frozenset[BrokerSide],
    "second.capacities": Mapping[int, Capacity],
    "second.stalled": frozenset[BrokerSide],
    "second.recovering": frozenset[BrokerSide],
    "second.ours": Mapping[BrokerSide, int],
    "second.planned": frozenset[BrokerSide],
    "second.most": Mapping[BrokerSide, float],
    "second.quota_samples": int,
    # Of the mutation quotas, which have a reel of their own.
    "quotas.not_seen": str | None,
    "quotas.stand": Mapping[QuotaEntity, float],
    "quotas.beside": ClusterWideMeasures,
    "quotas.orders": Orders,
    "signals.controllers": Mapping[int, ControllerSignal],
    "signals.tenants": Mapping[Books, TenantSignal],
    **_fields_of(MutationMemory, "mutation"),
}
_MOVES = "live.moves"  # The one long sequence: its order is kept.
_SIGNALS = "signals.moves"
_TENANTS = "signals.tenants"
# One item of these is as much as many of another.
_ITEMS = {
    "law.side_states": 48,
    "law.broker_estimates": 96,
    "live.lists": 20,
    "memory.listed": 20,
    "live.moves": 512,
    "memory.seen": 512,
    "live.rates": 1024,
    "second.stands": 1024,
    "second.ours": 1024,
    "second.capacities": 1024,
    "live.quota_samples": 1024,
    "live.fetchers": 1024,
    "quotas.stand": 1024,
    "signals.tenants": 1024,
    "mutation.tenants": 512,
    "mutation.owned": 512,
    "mutation.foreign_per_s": 1024,
    "plan_moves": 1024,
    "second.most": 1024,
}
_ITEMS_OF_OTHERS = 256
_SEARCHED = 12_500  # So many items are looked through in the time that it takes to write one full piece.
_LIGHT = 0.02  # Of what is not long.
Known = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """``op``: "is" the whole or its beginning, "put" into a mapping, "gone" keys of one, "more" of a sequence, places that go
    "out" of one and those that come "in" with what is there then; "slide": signals that share steps with those before;
    "heard": signals of tenants of whom there were some before."""

    member: str
    op: str
    value: Any


def weight(piece: Piece) -> float:
    """What it takes to write it: 1 for as many items as one piece holds at most."""
    if not is_long(piece.member):
        return _LIGHT
    return max(_LIGHT, len(piece.value) / _items(piece.member))


def search_weight(member: str, before: Any, value: Any) -> float:
    """What it takes to find out what has changed, in the same measure."""
    if value is before or not is_long(member) or (member != _MOVES and grown_since(before, value) is not None):
        return 0.0
    return len(value) / _SEARCHED


def whole(member: str, value: Any) -> Iterator[Piece]:
    if not is_long(member):
        yield Piece(member, "is", value)
        return
    chunks = _chunks(member, value)
    yield Piece(member, "is", next(chunks))
    for chunk in chunks:
        yield Piece(member, "more" if member == _MOVES else "put", chunk)


def changed(member: str, before: Any, value: Any) -> Iterator[Piece]:
    """What makes ``value`` of ``before``; nothing where they are one object, or equal."""
    if value is before:
        return
    if not is_long(member):
        if value != before:
            yield Piece(member, "is", value)
    elif member == _MOVES:
        if before != value:  # By identity where they are the same, so it ends at the first that is not.
            out, came = other_items(before, value)
            if out:
                yield Piece(member, "out", tuple(out))
            rows = iter(came)
            while chunk := tuple(islice(rows, _items(member))):
                yield Piece(member, "in", chunk)
    else:
        yield from _other_entries(member, before, value)


def apply(known: Known, piece: Piece) -> None:
    """In place. KeyError or TypeError where the piece is of something else than ``known``."""
    member, value = piece.member, piece.value
    match piece.op:
        case "is":
            known[member] = value
        case "put":
            known[member] = {**known[member], **value}
        case "slide":
            known[member] = {**known[member], **joined(known[member], value)}
        case "heard":
            known[member] = {**known[member], **named(known[member], value)}
        case "gone":
            known[member] = {key: kept for key, kept in known[member].items() if key not in set(value)}
        case "more":
            known[member] = (*known[member], *value)
        case "out":
            left = set(value)
            known[member] = tuple(kept for i, kept in enumerate(known[member]) if i not in left)
        case "in":
            rows = list(known[member])
            for at, row in value:
                rows.insert(at, row)
            known[member] = tuple(rows)
        case _:
            raise KeyError(piece.op)


def encoded(piece: Piece) -> dict[str, Any]:
    return {"of": piece.member, "op": piece.op, "value": _shape(piece.member, piece.op).put([piece.value])}


def decoded(body: Mapping[str, Any]) -> Piece | None:
    """None for a member that this program does not know.

    Raises:
        ValueError: not a piece.
    """
    try:
        member, op = str(body["of"]), str(body["op"])
        if member not in MEMBERS:
            return None
        (value,) = _shape(member, op).got(body["value"])
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, StopIteration) as error:
        raise ValueError(f"not a piece: {error!r:.200}") from error
    return Piece(member, op, value)


@cache
def is_long(member: str) -> bool:
    origin = get_origin(MEMBERS[member])
    return member == _MOVES or (isinstance(origin, type) and issubclass(origin, Mapping))


@cache
def _shape(member: str, op: str) -> TypeCodec:
    kind = MEMBERS[member]
    arguments = get_args(kind)
    match op:
        case "gone":
            return shape_of(GenericAlias(tuple, (arguments[0], ...)))
        case "out":
            return shape_of(tuple[int, ...])
        case "in":
            return shape_of(GenericAlias(tuple, (GenericAlias(tuple, (int, arguments[0])), ...)))
        case "slide":
            return shape_of(Slid)
        case "heard":
            return shape_of(Heard)
        case _:
            return shape_of(kind)


def _chunks(member: str, value: Any) -> Iterator[Any]:
    """At least one, be it empty."""
    size = _items(member)
    make = tuple if member == _MOVES else dict
    items = iter(value if member == _MOVES else value.items())
    yield make(islice(items, size))
    while chunk := make(islice(items, size)):
        yield chunk


def _other_entries(member: str, before: Mapping[Any, Any], value: Mapping[Any, Any]) -> Iterator[Piece]:
    if (more := grown_since(before, value)) is not None:
        yield from (Piece(member, "put", chunk) for chunk in _chunks(member, more))
        return
    if member == _TENANTS:
        yield from _other_tenants(before, value)
        return
    if gone := tuple(key for key in before if key not in value):
        yield Piece(member, "gone", gone)
    nothing = object()
    get = before.get
    if member.startswith(("signals.", "law.", "live.lists")):
        # Of these an equal one is the same one, and to compare them would cost more than to write one twice.
        new = {key: entry for key, entry in value.items() if get(key, nothing) is not entry}
    else:
        new = {key: entry for key, entry in value.items() if (old := get(key, nothing)) is not entry and old != entry}
    for chunk in _chunks(member, new) if new else ():
        if member == _SIGNALS:
            yield Piece(member, "slide", slid(before, chunk))
        else:
            yield Piece(member, "put", chunk)


def _other_tenants(before: Mapping[Books, TenantSignal], value: Mapping[Books, TenantSignal]) -> Iterator[Piece]:
    found = heard(before, value)
    if found is None:
        yield from whole(_TENANTS, value)
        return
    gone, rows, new = found
    if gone:
        yield Piece(_TENANTS, "gone", tuple(gone))
    for op, part in (("heard", rows), ("put", new)):
        yield from (Piece(_TENANTS, op, chunk) for chunk in _chunks(_TENANTS, part) if chunk)


def _items(member: str) -> int:
    return _ITEMS.get(member, _ITEMS_OF_OTHERS)
