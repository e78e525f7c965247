"""Encodes the inputs of decisions, field by field, as the changes since the previous step.

Most values are the same object from one cycle to the next, so an identity comparison finds the changes cheaply. Only changed
values are written.

Terms:
    state field   one field of the observed or remembered state, by a name such as ``live.rates`` or ``memory.owned``.
    piece         one change of one state field, small enough to share a record with other pieces.
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
from tuner.control.cruise_control.policy import Execution, MovementMemory
from tuner.control.leadership.policy import LeadershipMemory
from tuner.control.leadership.survey import LeaderSurvey
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.incremental.delta_mapping import added_since
from tuner.control.throttle.objective import Capacity
from tuner.control.throttle.state import Memory
from tuner.control.throttle.steering.state import ControlState
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.core.controller import ClusterWideMeasures
from tuner.core.deadline_forecast import DeadlineForecast
from tuner.core.operator_orders import Orders
from tuner.core.reassignment_plan import PlanThrottle, TopicPartition
from tuner.core.vetoes import Veto
from tuner.journal.delta import (
    MoveSignalDeltas,
    TenantDeltas,
    TenantKey,
    diff_move_signals,
    diff_sequence,
    diff_tenants,
    restore_move_signals,
    restore_tenants,
)
from tuner.journal.type_codec import TypeCodec, codec_of


def _fields_of(kind: type, prefix: str) -> dict[str, Any]:
    return {f"{prefix}.{name}": hint for name, hint in get_type_hints(kind).items()}


# The type of each state field. The prefixes "memory", "control", "mutation", "elections" and "movements" mark what the tuner
# remembers. "steering" marks the other inputs of a steering tick, "quotas" the inputs of a mutation quota cycle, "leaders" and
# "election" the inputs of a decision about preferred leaders, and "movement" the inputs of a decision about Cruise Control.
STATE_FIELDS: Mapping[str, Any] = {
    "not_seen": str | None,  # Why the cluster could not be read; None if it was read.
    **_fields_of(LiveCluster, "live"),
    "signals.brokers": Mapping[int, BrokerSignal],
    "signals.moves": Mapping[BrokerSide, MoveSignal],
    "ramping": frozenset[BrokerSide],
    "empty_windows": frozenset[BrokerSide],  # Sides whose replication quota window is empty.
    "orders": Orders,
    "plan_moves": Mapping[TopicPartition, PlanThrottle],
    "vetoes": tuple[Veto, ...],  # The external checks that vetoed.
    "eta_ratios": Mapping[BrokerSide, float],  # Expected time ÷ time at the current rate.
    "deadline_forecasts": Mapping[BrokerSide, DeadlineForecast],
    "steered": frozenset[BrokerSide],  # Sides that the closed-loop control sets.
    **_fields_of(Memory, "memory"),
    **_fields_of(ControlState, "control"),
    "steering.current_rates": Mapping[BrokerSide, int],
    "steering.held_sides": frozenset[BrokerSide],
    "steering.capacities": Mapping[int, Capacity],
    "steering.stalled": frozenset[BrokerSide],
    "steering.recovering": frozenset[BrokerSide],
    "steering.restore_rates": Mapping[BrokerSide, int],
    "steering.planned": frozenset[BrokerSide],
    "steering.max_rates": Mapping[BrokerSide, float],
    "steering.at_min_isr": frozenset[BrokerSide],
    "steering.baselines": Mapping[int, BrokerBaseline],
    "steering.deadline_ratios": Mapping[BrokerSide, float],
    "steering.quota_samples": int,
    "quotas.not_seen": str | None,  # Why the quotas could not be read.
    "quotas.current": Mapping[QuotaEntity, float],
    "quotas.cluster_wide": ClusterWideMeasures,
    "quotas.orders": Orders,
    "signals.controllers": Mapping[int, ControllerSignal],
    "signals.tenants": Mapping[TenantKey, TenantSignal],
    **_fields_of(MutationMemory, "mutation"),
    **_fields_of(LeaderSurvey, "leaders"),
    "election.electing": frozenset[int] | None,  # Brokers for which Kafka elects preferred leaders.
    "election.brokers": frozenset[int],
    "election.baselines": Mapping[int, BrokerBaseline],
    "election.pause": str | None,  # The operator that has paused the tuner.
    **_fields_of(LeadershipMemory, "elections"),
    "movement.execution": Execution,
    "movement.rate_bytes_per_s": float | None,
    "movement.pause": str | None,
    **_fields_of(MovementMemory, "movements"),
}
_SEQUENCES = ("live.moves", "live.recoveries")  # All other collections are mappings.
_MOVE_SIGNALS = "signals.moves"
_TENANT_SIGNALS = "signals.tenants"
# Items per piece, so that full pieces of all fields take about the same time to encode.
_ITEMS_PER_PIECE = {
    "control.side_states": 48,
    "control.broker_estimates": 96,
    "live.lists": 20,
    "memory.listed": 20,
    "live.moves": 512,
    "live.recoveries": 512,
    "live.min_in_sync": 1024,
    "live.lacking_bytes": 1024,
    "memory.moving_replicas": 512,
    "live.rates": 1024,
    "steering.current_rates": 1024,
    "steering.restore_rates": 1024,
    "steering.capacities": 1024,
    "steering.baselines": 1024,
    "steering.deadline_ratios": 1024,
    "deadline_forecasts": 1024,
    "live.quota_samples": 1024,
    "live.fetchers": 1024,
    "quotas.current": 1024,
    "signals.tenants": 1024,
    "mutation.tenants": 512,
    "mutation.owned": 512,
    "mutation.unowned_per_s": 1024,
    "plan_moves": 1024,
    "steering.max_rates": 1024,
    "leaders.next_partitions": 1,
}
_ITEMS_PER_PIECE_DEFAULT = 256
_ITEMS_SEARCHED = 12_500  # Number of items that are compared in the time in which one full piece is written.
_SCALAR_WEIGHT = 0.02  # Cost of a field that is no collection; a full piece costs 1.
StateValues = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """One change of one state field.

    Attributes:
        field: the name of the state field.
        op: how ``value`` changes the field:
            "set": replaces the value, or begins a collection that further pieces continue.
            "put": adds or replaces entries of a mapping. "delete": removes keys of a mapping.
            "append": adds items to a sequence. "remove_at", "insert_at": indexes removed from, or items inserted into, a sequence.
            "slide": replaces move signals, which share most steps with their predecessors.
            "update_tenants": replaces tenant signals, identified by their position.
    """

    field: str
    op: str
    value: Any


def piece_weight(piece: Piece) -> float:
    """Returns the cost of writing a piece; 1 for a full piece of a collection."""
    if not is_collection(piece.field):
        return _SCALAR_WEIGHT
    return max(_SCALAR_WEIGHT, len(piece.value) / _items_per_piece(piece.field))


def search_weight(field: str, before: Any, value: Any) -> float:
    """Returns the cost of finding what has changed, in the unit of ``piece_weight``."""
    # A mapping that has only grown knows its new entries, so there is no search.
    if (
        value is before
        or not is_collection(field)
        or (field not in _SEQUENCES and added_since(before, value) is not None)
    ):
        return 0.0
    return len(value) / _ITEMS_SEARCHED


def whole_field(field: str, value: Any) -> Iterator[Piece]:
    """Yields pieces that together hold the whole value of a field."""
    if not is_collection(field):
        yield Piece(field, "set", value)
        return
    chunks = _chunks(field, value)
    yield Piece(field, "set", next(chunks))
    for chunk in chunks:
        yield Piece(field, "append" if field in _SEQUENCES else "put", chunk)


def diff_field(field: str, before: Any, value: Any) -> Iterator[Piece]:
    """Yields the pieces that turn ``before`` into ``value``; none if they are equal."""
    if value is before:
        return
    if not is_collection(field):
        if value != before:
            yield Piece(field, "set", value)
    elif field in _SEQUENCES:
        # The comparison is cheap: equal items are mostly the same object, and the comparison ends at the first difference.
        if before != value:
            removed, inserted = diff_sequence(before, value)
            if removed:
                yield Piece(field, "remove_at", tuple(removed))
            rows = iter(inserted)
            while chunk := tuple(islice(rows, _items_per_piece(field))):
                yield Piece(field, "insert_at", chunk)
    else:
        yield from _diff_mapping(field, before, value)


def apply_piece(state: StateValues, piece: Piece) -> None:
    """Applies a piece to ``state`` in place.

    Raises:
        KeyError, TypeError: the piece does not fit the state.
    """
    field, value = piece.field, piece.value
    match piece.op:
        case "set":
            state[field] = value
        case "put":
            state[field] = {**state[field], **value}
        case "slide":
            state[field] = {**state[field], **restore_move_signals(state[field], value)}
        case "update_tenants":
            state[field] = {**state[field], **restore_tenants(state[field], value)}
        case "delete":
            state[field] = {key: kept for key, kept in state[field].items() if key not in set(value)}
        case "append":
            state[field] = (*state[field], *value)
        case "remove_at":
            removed = set(value)
            state[field] = tuple(kept for i, kept in enumerate(state[field]) if i not in removed)
        case "insert_at":
            rows = list(state[field])
            for index, row in value:
                rows.insert(index, row)
            state[field] = tuple(rows)
        case _:
            raise KeyError(piece.op)


def encode_piece(piece: Piece) -> dict[str, Any]:
    return {"field": piece.field, "op": piece.op, "value": _value_codec(piece.field, piece.op).encode([piece.value])}


def decode_piece(body: Mapping[str, Any]) -> Piece | None:
    """Returns a piece; None for a state field that this version does not know.

    Raises:
        ValueError: not a piece.
    """
    try:
        field, op = str(body["field"]), str(body["op"])
        if field not in STATE_FIELDS:
            return None
        (value,) = _value_codec(field, op).decode(body["value"])
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, StopIteration) as error:
        raise ValueError(f"not a piece: {error!r:.200}") from error
    return Piece(field, op, value)


@cache
def is_collection(field: str) -> bool:
    origin = get_origin(STATE_FIELDS[field])
    return field in _SEQUENCES or (isinstance(origin, type) and issubclass(origin, Mapping))


@cache
def _value_codec(field: str, op: str) -> TypeCodec:
    """Returns the codec of a piece's value, see ``Piece.op``."""
    kind = STATE_FIELDS[field]
    arguments = get_args(kind)
    match op:
        case "delete":
            return codec_of(GenericAlias(tuple, (arguments[0], ...)))
        case "remove_at":
            return codec_of(tuple[int, ...])
        case "insert_at":
            return codec_of(GenericAlias(tuple, (GenericAlias(tuple, (int, arguments[0])), ...)))
        case "slide":
            return codec_of(MoveSignalDeltas)
        case "update_tenants":
            return codec_of(TenantDeltas)
        case _:
            return codec_of(kind)


def _chunks(field: str, value: Any) -> Iterator[Any]:
    """Yields the items in chunks of one piece each; one empty chunk for an empty collection."""
    size = _items_per_piece(field)
    collection_type = tuple if field in _SEQUENCES else dict
    items = iter(value if field in _SEQUENCES else value.items())
    yield collection_type(islice(items, size))
    while chunk := collection_type(islice(items, size)):
        yield chunk


def _diff_mapping(field: str, before: Mapping[Any, Any], value: Mapping[Any, Any]) -> Iterator[Piece]:
    if (added := added_since(before, value)) is not None:
        yield from (Piece(field, "put", chunk) for chunk in _chunks(field, added))
        return
    if field == _TENANT_SIGNALS:
        yield from _diff_tenant_signals(before, value)
        return
    if deleted := tuple(key for key in before if key not in value):
        yield Piece(field, "delete", deleted)
    missing = object()  # A value that equals no other value, not even None.
    get = before.get
    if field.startswith(("signals.", "control.", "live.lists")):
        # Equal values of these fields are nearly always the same object. Comparing the content of all values would cost more than
        # to write an equal value again now and then.
        changed = {key: entry for key, entry in value.items() if get(key, missing) is not entry}
    else:
        changed = {
            key: entry for key, entry in value.items() if (old := get(key, missing)) is not entry and old != entry
        }
    if not changed:
        return
    for chunk in _chunks(field, changed):
        if field == _MOVE_SIGNALS:
            yield Piece(field, "slide", diff_move_signals(before, chunk))
        else:
            yield Piece(field, "put", chunk)


def _diff_tenant_signals(
    before: Mapping[TenantKey, TenantSignal], value: Mapping[TenantKey, TenantSignal]
) -> Iterator[Piece]:
    delta = diff_tenants(before, value)
    if delta is None:
        yield from whole_field(_TENANT_SIGNALS, value)
        return
    deleted, updated, added = delta
    if deleted:
        yield Piece(_TENANT_SIGNALS, "delete", tuple(deleted))
    for op, part in (("update_tenants", updated), ("put", added)):
        yield from (Piece(_TENANT_SIGNALS, op, chunk) for chunk in _chunks(_TENANT_SIGNALS, part) if chunk)


def _items_per_piece(field: str) -> int:
    return _ITEMS_PER_PIECE.get(field, _ITEMS_PER_PIECE_DEFAULT)
