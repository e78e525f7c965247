"""Encodes values of dataclasses and collections as JSON, by their type annotations.

A codec encodes many values of one type together: each field becomes one column (tuner/journal/column_packing.py). A new field of a
dataclass is recorded without further code. Fields that no decision reads are omitted.

Invariant: a decoded value equals the encoded one, except for the fields of ``OMITTED_FIELDS``. Mappings keep their order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from itertools import chain, islice, repeat
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NewType, Protocol, Union, get_args, get_origin, get_type_hints

from streaming.shared.contract import BrokerSignal, ControllerSignal, MoveSignal, TenantSignal
from streaming.shared.contract.quotas import Default
from tuner.journal.column_packing import COLUMN_MAX, pack_column, unpack_column

# Fields that no decision reads, and their values after decoding.
OMITTED_FIELDS: Mapping[type, Mapping[str, Any]] = {
    BrokerSignal: {
        "cluster": "",
        "window_end_ms": 0,
        "leader_rate_bytes_per_s": None,
        "follower_rate_bytes_per_s": None,
        "replication_in_bytes_per_s": None,
        "replication_out_bytes_per_s": None,
        "client_out_bytes_per_s": None,
        "isr_expands_per_s": None,
        "replica_lag_max_messages": None,
        "replica_lag_sum_messages": None,
        "partitions": None,
        "leaders": None,
    },
    MoveSignal: {
        "cluster": "",
        "window_end_ms": 0,
        "done_partitions": 0,
        "lag_messages": None,
        "remaining_slope_bytes_per_s": None,
        "remaining_slope_r2": None,
        "progress_age_s": None,
        "largest": (),
    },
    # Cluster-wide measures of several nodes' signals are recorded separately (core/controller.py, ClusterWideMeasures).
    ControllerSignal: {
        "cluster": "",
        "window_end_ms": 0,
        "completeness": 1.0,
        "event_queue_time_p99_ms": None,
        "event_processing_p99_ms": None,
        "event_processing_mean_ms": None,
        "events_per_s": None,
        "queue_depth_mean": None,
        "operations_per_s": None,
        "operations_timed_out_per_s": None,
        "mutations_rejected_per_s": None,
        "metadata_lag_ms": None,
        "create_mean_ms": None,
        "delete_mean_ms": None,
        "metadata_records_per_s": None,
        "topic_requests_in_progress_mean": None,
        "active_brokers": None,
        "fenced_brokers": None,
    },
    TenantSignal: {"cluster": "", "window_end_ms": 0, "completeness": 1.0, "throttle_time_ms": None},
}
SignalWithoutSteps = NewType("SignalWithoutSteps", MoveSignal)  # The steps are encoded separately.
# A tenant signal without the tenant's name: its position among the previous signals identifies the tenant.
SignalWithoutName = NewType("SignalWithoutName", TenantSignal)
_SCALARS = {int, float, str, bool, NoneType}
_ENUM_TEXTS_MAX = 64  # A shorter column of differing members holds their texts; a longer column holds their positions.


class TypeCodec(Protocol):
    """Encodes columns of values of one type."""

    def encode(self, values: Sequence[Any]) -> Any:
        """Returns all values as one JSON value."""

    def decode(self, body: Any) -> list[Any]:
        """Returns the values of a body.

        Raises:
            KeyError, TypeError, ValueError: not a body of this type.
        """


class _Scalar:
    def encode(self, values: Sequence[Any]) -> Any:
        return pack_column(values)

    def decode(self, body: Any) -> list[Any]:
        return unpack_column(body)


class _Enum:
    """Members of an enumeration, by value; in long columns by position in the enumeration."""

    def __init__(self, kind: type[Enum]) -> None:
        self._by_value = {member.value: member for member in kind}
        self._positions = {member: i for i, member in enumerate(kind)}
        self._members = list(kind)

    def encode(self, values: Sequence[Any]) -> Any:
        texts = [value.value for value in values]
        column = pack_column(texts)
        if len(texts) < _ENUM_TEXTS_MAX or isinstance(column, dict):
            return column
        return {"at": pack_column([self._positions[value] for value in values])}

    def decode(self, body: Any) -> list[Any]:
        if isinstance(body, dict) and "at" in body:
            return [self._members[position] for position in unpack_column(body["at"])]
        return [self._by_value[text] for text in unpack_column(body)]


class _QuotaName:
    """A user or client-id of a Kafka quota: a text, None, or the default entity, encoded as 0 because it is no name."""

    def encode(self, values: Sequence[Any]) -> Any:
        return pack_column([0 if value is Default.DEFAULT else value for value in values])

    def decode(self, body: Any) -> list[Any]:
        return [Default.DEFAULT if value == 0 else value for value in unpack_column(body)]


class _Optional:
    def __init__(self, codec: TypeCodec) -> None:
        self._codec = codec

    def encode(self, values: Sequence[Any]) -> Any:
        present = [value is not None for value in values]
        return {
            "present": pack_column(present),
            "of": self._codec.encode([value for value in values if value is not None]),
        }

    def decode(self, body: Any) -> list[Any]:
        values = iter(self._codec.decode(body["of"]))
        return [next(values) if present else None for present in unpack_column(body["present"])]


class _Collection:
    """Tuples or sets of any length."""

    def __init__(self, make: Callable[[Any], Any], items: TypeCodec) -> None:
        self._make = make
        self._items = items

    def encode(self, values: Sequence[Any]) -> Any:
        return {
            "lengths": pack_column([*map(len, values)]),
            "of": self._items.encode([*chain.from_iterable(values)]),
        }

    def decode(self, body: Any) -> list[Any]:
        items = iter(self._items.decode(body["of"]))
        return [self._make(islice(items, length)) for length in unpack_column(body["lengths"])]


class _FixedTuple:
    """Tuples of a fixed length, each position of its own type."""

    def __init__(self, positions: Sequence[TypeCodec]) -> None:
        self._positions = positions

    def encode(self, values: Sequence[Any]) -> Any:
        columns = zip(*values, strict=True) if values else repeat(())  # Without values every column is empty.
        return [codec.encode(column) for codec, column in zip(self._positions, columns, strict=False)]

    def decode(self, body: Any) -> list[Any]:
        columns = (codec.decode(column) for codec, column in zip(self._positions, body, strict=True))
        return list(zip(*columns, strict=True))


class _Mapping:
    def __init__(self, keys: TypeCodec, values: TypeCodec) -> None:
        self._keys = _Collection(tuple, keys)
        self._values = values

    def encode(self, values: Sequence[Any]) -> Any:
        column = [*chain.from_iterable(mapping.values() for mapping in values)]
        return {**self._keys.encode(values), "to": self._values.encode(column)}

    def decode(self, body: Any) -> list[Any]:
        values = iter(self._values.decode(body["to"]))
        return [{key: next(values) for key in keys} for keys in self._keys.decode(body)]


class _Dataclass:
    """Values of a dataclass, one column per field. A field that is missing in the body has its default."""

    def __init__(self, kind: type, omitted: Mapping[str, Any]) -> None:
        self._kind = kind
        types = get_type_hints(kind)
        self._omitted = omitted
        self._fields = dataclasses.fields(kind)
        self._codecs = {f.name: codec_of(types[f.name]) for f in self._fields if f.name not in self._omitted}
        names = list(self._codecs)
        get = attrgetter(*names)
        # An ``attrgetter`` of a single name returns the bare value, not a tuple.
        self._get_row: Callable[[Any], Sequence[Any]] = get if len(names) > 1 else lambda value: (get(value),)
        self._none_by_default = {f.name for f in self._fields if f.default is None}

    def encode(self, values: Sequence[Any]) -> Any:
        # Without values every column is empty.
        columns = zip(*map(self._get_row, values), strict=True) if values else repeat(())
        body = {"n": len(values)}
        for (name, codec), column in zip(self._codecs.items(), columns, strict=False):
            if name not in self._none_by_default or column.count(None) < len(values):
                body[name] = codec.encode(column)
        return body

    def decode(self, body: Any) -> list[Any]:
        count = body["n"]
        if not 0 <= count <= COLUMN_MAX:
            raise ValueError(f"{count} values")
        return list(map(self._kind, *(self._decode_column(field, body, count) for field in self._fields)))

    def _decode_column(self, field: dataclasses.Field[Any], body: Any, count: int) -> Sequence[Any]:
        if field.name in self._omitted:
            return [self._omitted[field.name]] * count
        if field.name in body:
            column = self._codecs[field.name].decode(body[field.name])
            if len(column) != count:
                raise ValueError(f"{len(column)} values of {field.name}, expected {count}")
            return column
        if field.default is not dataclasses.MISSING:
            return [field.default] * count
        if field.default_factory is not dataclasses.MISSING:
            return [field.default_factory() for _ in range(count)]
        raise ValueError(f"the record of {self._kind.__name__} has no {field.name}")


@cache
def codec_of(kind: Any) -> TypeCodec:
    """Returns the codec of a type. Raises TypeError for a type that has none."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is SignalWithoutSteps:
        return _Dataclass(MoveSignal, {**OMITTED_FIELDS[MoveSignal], "steps": ()})
    if kind is SignalWithoutName:
        return _Dataclass(TenantSignal, {**OMITTED_FIELDS[TenantSignal], "node": 0, "user": None, "client_id": None})
    if origin in (Union, UnionType):
        members = [argument for argument in arguments if argument is not NoneType]
        if set(members) <= _SCALARS:
            return _Scalar()
        if set(members) == {str, Default}:
            return _QuotaName()
        if len(members) == 1:
            return _Optional(codec_of(members[0]))
    elif kind in _SCALARS:
        return _Scalar()
    elif isinstance(kind, type) and issubclass(kind, Enum):
        return _Enum(kind)
    elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _Dataclass(kind, OMITTED_FIELDS.get(kind, {}))
    elif origin is tuple and arguments[-1] is not Ellipsis:
        return _FixedTuple([codec_of(argument) for argument in arguments])
    elif origin in (tuple, frozenset):
        return _Collection(origin, codec_of(arguments[0]))
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        return _Mapping(codec_of(arguments[0]), codec_of(arguments[1]))
    raise TypeError(f"the journal has no codec for values of {kind}")
