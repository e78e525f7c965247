"""Values of our own types as JSON and back, by their annotations: what a type grows is on record with it.

Many values of one type are taken together, field by field (tuner/journal/column_packing.py). What nobody decides by is left out.

Invariant: what comes back is equal to what went in, but for the fields of ``LEFT_OUT``; mappings keep their order.
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
from tuner.journal.column_packing import COLUMN_MAX, packed, unpacked

# Fields that no decision reads, and what stands there when they come back.
LEFT_OUT: Mapping[type, Mapping[str, Any]] = {
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
    # What the signals of several nodes say together is on record by itself (control/mutation_quota/model.py, Beside).
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
Stepless = NewType("Stepless", MoveSignal)  # Its steps are written beside it.
Nameless = NewType("Nameless", TenantSignal)  # Whose it is, is told by its place among those before.
_SCALARS = {int, float, str, bool, NoneType}


class TypeCodec(Protocol):
    def put(self, values: Sequence[Any]) -> Any:
        """JSON of all of them."""

    def got(self, body: Any) -> list[Any]:
        """Them again; KeyError, TypeError or ValueError where ``body`` is something else."""


class _Plain:
    def put(self, values: Sequence[Any]) -> Any:
        return packed(values)

    def got(self, body: Any) -> list[Any]:
        return unpacked(body)


class _Word:
    """One of an enumeration, by its value."""

    def __init__(self, kind: type[Enum]) -> None:
        self._of = {member.value: member for member in kind}
        self._at = {member: i for i, member in enumerate(kind)}
        self._members = list(kind)

    def put(self, values: Sequence[Any]) -> Any:
        words = [value.value for value in values]
        column = packed(words)
        # Words that differ are long where there are many of them; their places are not.
        return column if len(words) < 64 or isinstance(column, dict) else {"at": packed([self._at[v] for v in values])}

    def got(self, body: Any) -> list[Any]:
        if isinstance(body, dict) and "at" in body:
            return [self._members[at] for at in unpacked(body["at"])]
        return [self._of[word] for word in unpacked(body)]


class _Name:
    """A name in Kafka's quotas: text, none, or ``<default>``, which is not the name of anybody."""

    def put(self, values: Sequence[Any]) -> Any:
        return packed([0 if value is Default.DEFAULT else value for value in values])

    def got(self, body: Any) -> list[Any]:
        return [Default.DEFAULT if value == 0 else value for value in unpacked(body)]


class _Maybe:
    def __init__(self, shape: TypeCodec) -> None:
        self._shape = shape

    def put(self, values: Sequence[Any]) -> Any:
        there = [value is not None for value in values]
        return {"there": packed(there), "of": self._shape.put([value for value in values if value is not None])}

    def got(self, body: Any) -> list[Any]:
        found = iter(self._shape.got(body["of"]))
        return [next(found) if there else None for there in unpacked(body["there"])]


class _Many:
    """Tuples or sets, however long each is."""

    def __init__(self, make: Callable[[Any], Any], of: TypeCodec) -> None:
        self._make = make
        self._of = of

    def put(self, values: Sequence[Any]) -> Any:
        return {"each": packed([*map(len, values)]), "of": self._of.put([*chain.from_iterable(values)])}

    def got(self, body: Any) -> list[Any]:
        found = iter(self._of.got(body["of"]))
        return [self._make(islice(found, count)) for count in unpacked(body["each"])]


class _Row:
    """Tuples of so many, each place of its own type."""

    def __init__(self, places: Sequence[TypeCodec]) -> None:
        self._places = places

    def put(self, values: Sequence[Any]) -> Any:
        columns = zip(*values, strict=True) if values else repeat(())
        return [place.put(column) for place, column in zip(self._places, columns, strict=False)]

    def got(self, body: Any) -> list[Any]:
        return list(zip(*(place.got(column) for place, column in zip(self._places, body, strict=True)), strict=True))


class _Map:
    def __init__(self, keys: TypeCodec, values: TypeCodec) -> None:
        self._keys = _Many(tuple, keys)
        self._values = values

    def put(self, values: Sequence[Any]) -> Any:
        return {**self._keys.put(values), "to": self._values.put([*chain.from_iterable(v.values() for v in values)])}

    def got(self, body: Any) -> list[Any]:
        found = iter(self._values.got(body["to"]))
        return [{key: next(found) for key in keys} for keys in self._keys.got(body)]


class _Record:
    """A dataclass, field by field; a field that is missing has its default."""

    def __init__(self, kind: type, left_out: Mapping[str, Any]) -> None:
        self._kind = kind
        types = get_type_hints(kind)
        self._left_out = left_out
        self._fields = dataclasses.fields(kind)
        self._shapes = {f.name: shape_of(types[f.name]) for f in self._fields if f.name not in self._left_out}
        names = list(self._shapes)
        pick = attrgetter(*names)
        self._pick: Callable[[Any], Sequence[Any]] = pick if len(names) > 1 else lambda value: (pick(value),)
        self._nothing = {f.name for f in self._fields if f.default is None}

    def put(self, values: Sequence[Any]) -> Any:
        columns = zip(*map(self._pick, values), strict=True) if values else repeat(())
        body = {"n": len(values)}
        for (name, shape), column in zip(self._shapes.items(), columns, strict=False):
            if name not in self._nothing or column.count(None) < len(values):
                body[name] = shape.put(column)
        return body

    def got(self, body: Any) -> list[Any]:
        count = body["n"]
        if not 0 <= count <= COLUMN_MAX:
            raise ValueError(f"{count} values")
        return list(map(self._kind, *(self._column(field, body, count) for field in self._fields)))

    def _column(self, field: dataclasses.Field[Any], body: Any, count: int) -> Sequence[Any]:
        if field.name in self._left_out:
            return [self._left_out[field.name]] * count
        if field.name in body:
            column = self._shapes[field.name].got(body[field.name])
            if len(column) != count:
                raise ValueError(f"{len(column)} values of {field.name}, expected {count}")
            return column
        if field.default is not dataclasses.MISSING:
            return [field.default] * count
        if field.default_factory is not dataclasses.MISSING:
            return [field.default_factory() for _ in range(count)]
        raise ValueError(f"no {field.name} in what was recorded of {self._kind.__name__}")


@cache
def shape_of(kind: Any) -> TypeCodec:
    """The shape of a type; TypeError for one that has none."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Stepless:
        return _Record(MoveSignal, {**LEFT_OUT[MoveSignal], "steps": ()})
    if kind is Nameless:
        return _Record(TenantSignal, {**LEFT_OUT[TenantSignal], "node": 0, "user": None, "client_id": None})
    if origin in (Union, UnionType):
        rest = [argument for argument in arguments if argument is not NoneType]
        if set(rest) <= _SCALARS:
            return _Plain()
        if set(rest) == {str, Default}:
            return _Name()
        if len(rest) == 1:
            return _Maybe(shape_of(rest[0]))
    elif kind in _SCALARS:
        return _Plain()
    elif isinstance(kind, type) and issubclass(kind, Enum):
        return _Word(kind)
    elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _Record(kind, LEFT_OUT.get(kind, {}))
    elif origin is tuple and arguments[-1] is not Ellipsis:
        return _Row([shape_of(argument) for argument in arguments])
    elif origin in (tuple, frozenset):
        return _Many(origin, shape_of(arguments[0]))
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        return _Map(shape_of(arguments[0]), shape_of(arguments[1]))
    raise TypeError(f"values of {kind} have no shape for the journal")
