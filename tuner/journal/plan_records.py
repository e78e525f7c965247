"""Encodes plans as JSON records: plan and plan-part in the orders topic, plan-requested and plan-state in the journal topic.

plan        key ``plan|<cluster>|<id>``: who gave it and when, the newest word about it (running, paused, cancelling), its
            limits, and how many parts it has. A person's program writes it, after the parts.
plan-part   key ``plan-part|<cluster>|<id>|<n>``: up to a thousand partitions with target, replicas before, and size, and what
            tells their topics from others of the same name. Tombstones once the plan has ended.
plan-requested  key ``plan-requested|<cluster>|<id>|<n>``: which steps of those partitions are asked for and not seen to have ended.
plan-state  key ``plan-state|<cluster>|<id>``: the tuner's own word: what it has acknowledged, how the plan ended, what was dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from itertools import islice
from typing import Any

from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import (
    OriginalTopic,
    PlanHead,
    PlanPartition,
    PlanResult,
    PlanState,
    PlanThrottle,
    RequestedStep,
    TopicPartition,
)
from tuner.journal.bodies import VERSION, HeadBody, PartsBody, RequestedBody, StateBody, ThrottleRow, decoded

PARTS_PER_RECORD = 1000


def head_key(cluster: str, plan: str) -> bytes:
    return f"plan|{cluster}|{plan}".encode()


def part_key(cluster: str, plan: str, number: int) -> bytes:
    return f"plan-part|{cluster}|{plan}|{number}".encode()


def requested_key(cluster: str, plan: str, number: int) -> bytes:
    return f"plan-requested|{cluster}|{plan}|{number}".encode()


def state_key(cluster: str, plan: str) -> bytes:
    return f"plan-state|{cluster}|{plan}".encode()


def parts_of(parts: Mapping[TopicPartition, PlanPartition]) -> Iterator[dict[TopicPartition, PlanPartition]]:
    """As many as a record holds, topic by topic; the order in which they are numbered."""
    each = iter(sorted(parts.items()))
    while some := dict(islice(each, PARTS_PER_RECORD)):
        yield some


def encode_head(head: PlanHead) -> bytes:
    limits = head.limits
    body = {
        "v": VERSION,
        "id": head.id,
        "submitted_by": head.submitted_by,
        "submitted_at_ms": head.submitted_at_ms,
        "ordered_at_ms": head.ordered_at_ms,
        "part_records": head.part_records,
        "desired": head.desired.value,
        "limits": [limits.leader_movements_max, limits.partition_movements_max, limits.replica_movements_max],
        "ordered_by": head.ordered_by,
        "state_ordered_at_ms": head.state_ordered_at_ms,
        "no_rollback": head.no_rollback,
        "throttle": [head.throttle.rate_bytes_per_s_max, head.throttle.unthrottled],
    }
    return json.dumps(body).encode()


def encode_parts(parts: Mapping[TopicPartition, PlanPartition]) -> bytes:
    rows = [
        [topic, number, list(p.target), list(p.original_replicas), p.size_bytes, p.write_bytes_per_s]
        for (topic, number), p in parts.items()
    ]
    topics = {topic: [p.topic.id, p.topic.partition_count] for (topic, _), p in parts.items()}
    return json.dumps({"v": VERSION, "parts": rows, "topics": topics}).encode()


def encode_requested(asked: Mapping[TopicPartition, RequestedStep]) -> bytes | None:
    """None, which takes the record off the topic in time, once nothing of it is under way."""
    if not asked:
        return None
    rows = [
        [topic, number, list(a.replicas), list(a.replicas_before), a.moves_leader, a.needs_election, a.cancel_requested]
        for (topic, number), a in asked.items()
    ]
    return json.dumps({"v": VERSION, "requested": rows}).encode()


def encode_state(state: PlanState) -> bytes:
    body = {
        "v": VERSION,
        "acknowledged_at_ms": state.acknowledged_at_ms,
        "ending": None if state.ending is None else state.ending.value,
        "ended_at_ms": state.ended_at_ms,
        "dropped": _reasons(state.dropped),
        "stopped_externally": _reasons(state.stopped_externally),
        "blockers": list(state.blockers),
        "concurrency": list(state.concurrency),
        "paused_since_ms": state.paused_since_ms,
        "paused_total_ms": state.paused_total_ms,
        "result": None if state.result is None else list(astuple(state.result)),
    }
    return json.dumps(body).encode()


def tombstones(cluster: str, plan: str, parts: int) -> dict[bytes, bytes | None]:
    """What of a plan that has ended is of no use any more."""
    keys = [key(cluster, plan, n) for n in range(parts) for key in (part_key, requested_key)]
    return dict.fromkeys(keys)


# -- from a record; each raises ValueError for what is none of this version, or has a value out of range ----------------------


def decode_head(value: bytes) -> tuple[PlanHead, bool]:
    """Return the head, and whether its writer tells words on the course from words on the limits: an older one does not."""
    body = decoded(value, HeadBody)
    head = PlanHead(
        body.id,
        body.submitted_by,
        body.submitted_at_ms,
        body.ordered_at_ms,
        body.part_records,
        body.desired,
        BatchLimits(*body.limits),
        body.ordered_by,
        body.ordered_at_ms if body.state_ordered_at_ms is None else body.state_ordered_at_ms,
        body.no_rollback,
        _throttle(body.throttle),
    )
    return head, body.state_ordered_at_ms is not None


def _throttle(row: ThrottleRow | None) -> PlanThrottle:
    return PlanThrottle() if row is None else PlanThrottle(row.rate_bytes_per_s_max, row.unthrottled)


def decode_parts(value: bytes) -> dict[TopicPartition, PlanPartition]:
    body = decoded(value, PartsBody)
    topics = {topic: OriginalTopic(*then) for topic, then in body.topics.items()}
    unknown = OriginalTopic()  # In plans that an older program gave.
    return {
        (row.topic, row.partition): PlanPartition(
            _replicas(row.target),
            _replicas(row.original_replicas),
            row.size_bytes,
            row.write_bytes_per_s,
            topics.get(row.topic, unknown),
        )
        for row in body.parts
    }


def decode_requested(value: bytes) -> dict[TopicPartition, RequestedStep]:
    return {
        (row.topic, row.partition): RequestedStep(
            _replicas(row.replicas),
            _replicas(row.replicas_before),
            row.moves_leader,
            row.needs_election,
            row.cancel_requested,
        )
        for row in decoded(value, RequestedBody).requested
    }


def decode_state(value: bytes) -> PlanState:
    body = decoded(value, StateBody)  # An older program tells of no tally, and of no pauses.
    return PlanState(
        body.acknowledged_at_ms,
        body.ending,
        body.ended_at_ms,
        _by_key(body.dropped),
        _by_key(body.stopped_externally),
        tuple(body.blockers),
        tuple(body.concurrency),
        body.paused_since_ms,
        body.paused_total_ms,
        None if body.result is None else PlanResult(*body.result),
    )


def _replicas(brokers: Sequence[int]) -> tuple[int, ...]:
    if len(set(brokers)) < len(brokers):
        raise ValueError(f"replicas {brokers} name a broker twice")
    return tuple(brokers)


def _reasons(reasons: Mapping[TopicPartition, str]) -> list[list[Any]]:
    return [[topic, number, why] for (topic, number), why in reasons.items()]


def _by_key(rows: Iterable[Any]) -> dict[TopicPartition, str]:
    return {(topic, number): why for topic, number, why in rows}
