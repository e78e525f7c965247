"""Encodes and decodes the records of reassignment plans, all JSON.

plan        key ``plan|<cluster>|<id>`` in the orders topic: who submitted the plan and when, the operator's newest order about
            it (running, paused, cancelling), its limits, when it starts, the brokers that it cordons, and the number of its
            parts. The command writes it after the parts.
plan-part   key ``plan-part|<cluster>|<id>|<n>`` in the orders topic: up to a thousand partitions with target replicas, replicas
            before, size, and the ids of their topics. Deleted once the plan has ended.
plan-requested
            key ``plan-requested|<cluster>|<id>|<n>`` in the journal: the steps in progress of these partitions, as the tuner has
            requested them.
plan-state  key ``plan-state|<cluster>|<id>`` in the journal: which order the tuner has acknowledged, how the plan ended, and the
            partitions that the tuner dropped from the plan.
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
from tuner.journal.bodies import VERSION, HeadBody, PartsBody, RequestedBody, StateBody, ThrottleRow, decode_body

PARTITIONS_PER_RECORD = 1000


def head_key(cluster: str, plan: str) -> bytes:
    return f"plan|{cluster}|{plan}".encode()


def part_key(cluster: str, plan: str, number: int) -> bytes:
    return f"plan-part|{cluster}|{plan}|{number}".encode()


def requested_key(cluster: str, plan: str, number: int) -> bytes:
    return f"plan-requested|{cluster}|{plan}|{number}".encode()


def state_key(cluster: str, plan: str) -> bytes:
    return f"plan-state|{cluster}|{plan}".encode()


def split_into_parts(
    partitions: Mapping[TopicPartition, PlanPartition],
) -> Iterator[dict[TopicPartition, PlanPartition]]:
    """Yields the partitions of each part record, sorted by topic and partition, in the order of the record numbers."""
    remaining = iter(sorted(partitions.items()))
    while part := dict(islice(remaining, PARTITIONS_PER_RECORD)):
        yield part


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
        "not_before_ms": head.not_before_ms,
        "cordon": list(head.cordon),
        "expected_s": head.expected_s,
    }
    return json.dumps(body).encode()


def encode_parts(partitions: Mapping[TopicPartition, PlanPartition]) -> bytes:
    rows = [
        [topic, partition, list(p.target), list(p.original_replicas), p.size_bytes, p.write_bytes_per_s]
        for (topic, partition), p in partitions.items()
    ]
    topics = {topic: [p.topic.id, p.topic.partition_count] for (topic, _), p in partitions.items()}
    return json.dumps({"v": VERSION, "parts": rows, "topics": topics}).encode()


def encode_requested(steps: Mapping[TopicPartition, RequestedStep]) -> bytes | None:
    """Returns the record; None, a tombstone, once no step is in progress."""
    if not steps:
        return None
    rows = [
        [
            topic,
            partition,
            list(s.replicas),
            list(s.replicas_before),
            s.moves_leader,
            s.needs_election,
            s.cancel_requested,
        ]
        for (topic, partition), s in steps.items()
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
    """Returns tombstones for the part and step records of an ended plan."""
    keys = [key(cluster, plan, n) for n in range(parts) for key in (part_key, requested_key)]
    return dict.fromkeys(keys)


# -- decoders; each raises ValueError as decode_body -------------------------------------------------------------------------


def decode_head(value: bytes) -> PlanHead:
    body = decode_body(value, HeadBody)
    return PlanHead(
        id=body.id,
        submitted_by=body.submitted_by,
        submitted_at_ms=body.submitted_at_ms,
        ordered_at_ms=body.ordered_at_ms,
        part_records=body.part_records,
        desired=body.desired,
        limits=BatchLimits(*body.limits),
        ordered_by=body.ordered_by,
        state_ordered_at_ms=body.state_ordered_at_ms,
        no_rollback=body.no_rollback,
        throttle=_throttle(body.throttle),
        not_before_ms=body.not_before_ms,
        cordon=tuple(body.cordon),
        expected_s=body.expected_s,
    )


def _throttle(row: ThrottleRow | None) -> PlanThrottle:
    return PlanThrottle() if row is None else PlanThrottle(row.rate_bytes_per_s_max, row.unthrottled)


def decode_parts(value: bytes) -> dict[TopicPartition, PlanPartition]:
    body = decode_body(value, PartsBody)
    topics = {topic: OriginalTopic(*values) for topic, values in body.topics.items()}
    unknown = OriginalTopic()
    return {
        (row.topic, row.partition): PlanPartition(
            target=_replicas(row.target),
            original_replicas=_replicas(row.original_replicas),
            size_bytes=row.size_bytes,
            write_bytes_per_s=row.write_bytes_per_s,
            topic=topics.get(row.topic, unknown),
        )
        for row in body.parts
    }


def decode_requested(value: bytes) -> dict[TopicPartition, RequestedStep]:
    return {
        (row.topic, row.partition): RequestedStep(
            replicas=_replicas(row.replicas),
            replicas_before=_replicas(row.replicas_before),
            moves_leader=row.moves_leader,
            needs_election=row.needs_election,
            cancel_requested=row.cancel_requested,
        )
        for row in decode_body(value, RequestedBody).requested
    }


def decode_state(value: bytes) -> PlanState:
    body = decode_body(value, StateBody)
    return PlanState(
        acknowledged_at_ms=body.acknowledged_at_ms,
        ending=body.ending,
        ended_at_ms=body.ended_at_ms,
        dropped=_by_key(body.dropped),
        stopped_externally=_by_key(body.stopped_externally),
        blockers=tuple(body.blockers),
        concurrency=tuple(body.concurrency),
        paused_since_ms=body.paused_since_ms,
        paused_total_ms=body.paused_total_ms,
        result=None if body.result is None else PlanResult(*body.result),
    )


def _replicas(brokers: Sequence[int]) -> tuple[int, ...]:
    """Returns the brokers as a tuple. Raises ValueError if they cannot be the replicas of one partition."""
    if len(set(brokers)) < len(brokers):
        raise ValueError(f"replicas {brokers} name a broker twice")
    return tuple(brokers)


def _reasons(reasons: Mapping[TopicPartition, str]) -> list[list[Any]]:
    return [[topic, partition, reason] for (topic, partition), reason in reasons.items()]


def _by_key(rows: Iterable[Any]) -> dict[TopicPartition, str]:
    return {(topic, partition): reason for topic, partition, reason in rows}
