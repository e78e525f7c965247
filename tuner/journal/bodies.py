"""Defines the JSON bodies of the journal's records as msgspec types, and decodes them.

msgspec checks the type and range of every field. Any client with write access to the topic can write any value, and a value out of
range would fail later, in a decision or in a request to Kafka. Decoding refuses the whole record instead.

A class named ``...Row`` is a JSON array with one element per field. The decoder ignores elements after the last field, so that a
later version can add one.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from streaming.shared.contract import Side
from streaming.shared.contract.bounds import Count, NodeId, Number, Text, TimestampMs, error_text
from tuner.core.operator_orders import QuotaTrialKind
from tuner.core.reassignment_plan import DesiredPlanState, PlanEnding

VERSION = 3
SEQ_MAX = 2**52  # Largest accepted sequence number; a tuner continues counting from the largest number that it reads.
# Deepest accepted nesting of an entry's ``decision`` and ``inputs``, as the code that renders them recurses.
DEPTH_MAX = 16
PARTS_MAX = 99_999  # Maximum number of part records of one plan (1,000 partitions each).
REPLICAS_MAX = 1_000  # Maximum number of replicas of one partition.

Rate = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # Bytes/s, in the range of Kafka's throttle settings.
PlanRate = Annotated[float, Meta(ge=1, le=2**63 - 1)]
OrderedRate = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Limit = Annotated[int, Meta(ge=1, le=2**53)]
Parts = Annotated[int, Meta(ge=0, le=PARTS_MAX)]
Replicas = Annotated[list[NodeId], Meta(min_length=1, max_length=REPLICAS_MAX)]
Quota = Annotated[float, Meta(ge=0)]  # Partitions/s.
SideRow = tuple[NodeId, Side, TimestampMs]
RateRow = tuple[NodeId, Side, Rate]


def is_too_deep(value: object, depth_max: int = DEPTH_MAX) -> bool:
    """Returns whether lists and objects are nested more than ``depth_max`` levels deep."""
    containers = [value] if isinstance(value, dict | list) else []
    for _ in range(depth_max):
        children = chain.from_iterable(c.values() if isinstance(c, dict) else c for c in containers)
        containers = [child for child in children if isinstance(child, dict | list)]
        if not containers:
            return False
    return True


class _VersionBody(Struct):
    """The version, which is decoded before the rest of a record."""

    v: int


class PauseRow(Struct, array_like=True):
    since_ms: TimestampMs
    by: Text
    released: bool


class OverrideRow(Struct, array_like=True):
    broker: NodeId
    side: Side
    bytes_per_s: OrderedRate
    until_ms: TimestampMs
    by: Text


class ClearedRow(Struct, array_like=True):
    at_ms: TimestampMs
    by: Text
    settings: list[Text]


class QuotaTrialRow(Struct, array_like=True):
    kind: QuotaTrialKind
    at_ms: TimestampMs
    until_ms: TimestampMs
    by: Text
    total_per_s: Quota | None


class OrdersBody(Struct):
    v: int
    at_ms: TimestampMs
    pause: PauseRow | None
    resumed_at_ms: TimestampMs
    overrides: list[OverrideRow]
    by: Text = ""
    cleared: ClearedRow | None = None
    trials: list[QuotaTrialRow] = []


class DecisionFieldsBody(Struct):
    """The fields of an entry's ``decision`` that other code reads. An entry may have any of them, and further fields."""

    broker: NodeId | None = None
    side: str | None = None
    topic: str | None = None
    topics: list[Annotated[list[str], Meta(min_length=1)]] = []
    rates: list[tuple[NodeId, str, Rate | None, Rate | None]] = []
    quotas: list[tuple[dict[str, str | None], float | None, float | None, str]] = []
    current_bytes_per_s: Rate | None = None
    setpoint_bytes_per_s: Rate | None = None
    value_bytes_per_s: Rate | None = None
    managed_bytes_per_s: Rate | None = None


class EntryBody(Struct):
    at_ms: TimestampMs
    kind: str
    action: str
    reason: str
    text: str
    decision: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    failure: str | None = None
    dry_run: bool = False
    # A tuner that continues from ``SEQ_MAX`` writes larger numbers.
    seq: Annotated[int, Meta(ge=0, le=2 * SEQ_MAX)] = 0

    def __post_init__(self) -> None:
        if is_too_deep(self.decision) or is_too_deep(self.inputs):
            raise ValueError("nested too deeply")
        # Raises an error for a field of another type or out of range.
        msgspec.convert(self.decision, DecisionFieldsBody)


class OwnedRow(Struct, array_like=True):
    broker: NodeId
    side: Side
    before_bytes_per_s: Rate | None
    setpoint_bytes_per_s: Rate
    possible_rates: list[Rate | None]
    restore_to_bytes_per_s: Rate | None = None


class OwnedBody(Struct):
    owned: OwnedRow


class MovingBody(Struct):
    topic: Text
    moving_replicas: list[tuple[NodeId, list[NodeId]]]


class ListedRow(Struct, array_like=True):
    topic: Text
    leader: str
    follower: str


class ListedBody(Struct):
    listed: ListedRow


class MemoryBody(Struct):
    owned: list[OwnedRow]
    externally_owned_until_ms: list[SideRow]
    moving_replicas: list[tuple[Text, NodeId, list[NodeId]]]
    rescued: list[NodeId]
    throttled: bool
    preexisting_rates: list[RateRow]
    preexisting_lists: list[Text] | None
    idle_lists: list[Text]
    brokers_to_clear: list[NodeId]
    holder: Text = ""
    orders_at_ms: TimestampMs = 0
    recorded_orders: OrdersBody | None = None
    orders_recorded_until_ms: TimestampMs | None = None
    schedule_rules: Text = ""
    cleared_at_ms: TimestampMs = 0
    predecessor_writes: list[tuple[NodeId, Side, list[Rate | None]]] = []
    predecessor_writes_until_ms: TimestampMs = 0
    listed: list[ListedRow] = []
    idle_rates_since: list[tuple[NodeId, Side, Rate, TimestampMs]] = []
    idle_lists_since_ms: list[tuple[Text, TimestampMs]] = []


Entity = dict[str, Text | None]


class QuotaBody(Struct):
    entity: Entity
    owned: tuple[Quota | None, Quota, list[Quota | None]]


class LogDirBody(Struct):
    broker: NodeId
    owned: tuple[Rate | None, Rate, list[Rate | None]] | None
    externally_owned_until_ms: TimestampMs | None


class CordonBody(Struct):
    broker: NodeId
    plan: Text
    directories: list[Text]
    found: list[Text]
    was_set: bool
    is_written: bool
    missing_since_ms: TimestampMs = 0


class TotalBody(Struct):
    rate_per_s: Quota
    changed_at_ms: TimestampMs = 0
    cut_at_ms: TimestampMs = 0
    known_limit_per_s: Quota | None = None
    known_limit_at_ms: TimestampMs = 0


class CostBody(Struct):
    topic_ms: Number
    partition_ms: Number
    partitions_per_topic: Annotated[float, Meta(gt=0, le=1e24)] = 1.0
    other_busy_ratio: Number = 0.0
    steps: Count = 0


class QuotasBody(Struct):
    total: TotalBody | None
    cost: CostBody | None
    externally_owned_until_ms: list[tuple[Entity, TimestampMs]]
    idle_baselines_ms: dict[Text, Number]
    orders_at_ms: TimestampMs


class ThrottleRow(Struct, array_like=True):
    rate_bytes_per_s_max: PlanRate | None
    unthrottled: bool


class HeadBody(Struct):
    id: Text
    submitted_by: Text
    submitted_at_ms: TimestampMs
    ordered_at_ms: TimestampMs
    part_records: Parts
    desired: DesiredPlanState
    limits: tuple[Limit, Limit, Limit]
    ordered_by: Text
    state_ordered_at_ms: TimestampMs
    no_rollback: bool = False
    throttle: ThrottleRow | None = None
    not_before_ms: TimestampMs = 0
    cordon: list[NodeId] = []
    expected_s: Number | None = None


class PartRow(Struct, array_like=True):
    topic: Text
    partition: NodeId
    target: Replicas
    original_replicas: Replicas
    size_bytes: Number
    write_bytes_per_s: Number


class PartsBody(Struct):
    parts: list[PartRow]
    topics: dict[Text, tuple[Text, Count]] = {}


class RequestedStepRow(Struct, array_like=True):
    topic: Text
    partition: NodeId
    replicas: Replicas
    replicas_before: Replicas
    moves_leader: bool
    needs_election: bool
    cancel_requested: bool


class RequestedBody(Struct):
    requested: list[RequestedStepRow]


class StateBody(Struct):
    acknowledged_at_ms: TimestampMs
    ending: PlanEnding | None
    ended_at_ms: TimestampMs
    dropped: list[tuple[Text, NodeId, str]]
    stopped_externally: list[tuple[Text, NodeId, str]]
    blockers: list[str]
    concurrency: list[str]
    paused_since_ms: TimestampMs = 0
    paused_total_ms: Count = 0
    result: tuple[Count, Count, Number, Number] | None = None


class InputsBody(Struct):
    run: Text
    record: Count
    at_ms: TimestampMs
    headers: list[dict[str, Any]]
    pieces: list[dict[str, Any]]


B = TypeVar("B")


class OlderRecordError(ValueError):
    """An earlier version of rheostat wrote the record. The record is not damaged."""


@cache
def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def decode_body(value: bytes, kind: type[B], version: int = VERSION) -> B:
    """Returns the body of a record as a ``kind``.

    Raises:
        OlderRecordError: an earlier version of rheostat wrote the record.
        ValueError: the record is no JSON, is nested too deeply, is of a later version, or has a missing or invalid field.
    """
    try:
        record_version = _decoder(_VersionBody).decode(value).v
        if 0 < record_version < version:
            raise OlderRecordError(
                f"an earlier version of rheostat wrote this record: record version {record_version}, this version of "
                f"rheostat reads {version}"
            )
        if record_version != version:
            raise ValueError(f"record version {record_version}, this version of rheostat reads {version}")
        body: B = _decoder(kind).decode(value)  # type: ignore[arg-type]  # a type is hashable
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"not a record of this version: {error_text(error)}") from error
    except RecursionError as error:
        raise ValueError("not a record of this version: nested too deeply") from error
    return body
