"""Plans of reassignments on record, all JSON, in the journal's topic.

plan        key ``plan|<cluster>|<id>``: who gave it and when, the newest word about it (running, paused, cancelling), its
            limits, and how many parts it has. A person's program writes it, after the parts.
plan-part   key ``plan-part|<cluster>|<id>|<n>``: up to a thousand partitions with target, replicas before, and size, and what
            tells their topics from others of the same name. Tombstones once the plan has ended.
plan-asked  key ``plan-asked|<cluster>|<id>|<n>``: which steps of those partitions are asked for and not seen to have ended.
plan-state  key ``plan-state|<cluster>|<id>``: the tuner's own word: what it has heeded, how the plan ended, what was dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple
from itertools import islice
from typing import Any

from tuner.model.reassigning import Asked, Ending, Key, Part, PlanHead, PlanState, Tally, TopicThen, Wanted
from tuner.plan.batches import BatchLimits

VERSION = 1
PARTS_PER_RECORD = 1000


def head_key(cluster: str, plan: str) -> bytes:
    return f"plan|{cluster}|{plan}".encode()


def part_key(cluster: str, plan: str, number: int) -> bytes:
    return f"plan-part|{cluster}|{plan}|{number}".encode()


def asked_key(cluster: str, plan: str, number: int) -> bytes:
    return f"plan-asked|{cluster}|{plan}|{number}".encode()


def state_key(cluster: str, plan: str) -> bytes:
    return f"plan-state|{cluster}|{plan}".encode()


def parts_of(parts: Mapping[Key, Part]) -> Iterator[dict[Key, Part]]:
    """As many as a record holds, topic by topic; the order in which they are numbered."""
    each = iter(sorted(parts.items()))
    while some := dict(islice(each, PARTS_PER_RECORD)):
        yield some


def encode_head(head: PlanHead) -> bytes:
    limits = head.limits
    body = {
        "v": VERSION,
        "id": head.id,
        "by": head.by,
        "given_at_ms": head.given_at_ms,
        "at_ms": head.at_ms,
        "parts": head.parts,
        "wanted": head.wanted.value,
        "limits": [limits.leader_movements_max, limits.partition_movements_max, limits.replica_movements_max],
        "word_by": head.word_by,
        "course_at_ms": head.course_at_ms,
        "leaves": head.leaves,
    }
    return json.dumps(body).encode()


def encode_parts(parts: Mapping[Key, Part]) -> bytes:
    rows = [
        [topic, number, list(p.target), list(p.before), p.size_bytes, p.write_bytes_per_s]
        for (topic, number), p in parts.items()
    ]
    topics = {topic: [p.topic.id, p.topic.partitions] for (topic, _), p in parts.items()}
    return json.dumps({"v": VERSION, "parts": rows, "topics": topics}).encode()


def encode_asked(asked: Mapping[Key, Asked]) -> bytes | None:
    """None, which takes the record off the topic in time, once nothing of it is under way."""
    if not asked:
        return None
    rows = [
        [topic, number, list(a.replicas), list(a.since), a.moves_leader, a.elect, a.cancels]
        for (topic, number), a in asked.items()
    ]  # fmt: skip
    return json.dumps({"v": VERSION, "asked": rows}).encode()


def encode_state(state: PlanState) -> bytes:
    body = {
        "v": VERSION,
        "heeded_at_ms": state.heeded_at_ms,
        "ending": None if state.ending is None else state.ending.value,
        "ended_at_ms": state.ended_at_ms,
        "dropped": _reasons(state.dropped),
        "left": _reasons(state.left),
        "said": list(state.said),
        "pace": list(state.pace),
        "paused_at_ms": state.paused_at_ms,
        "rested_ms": state.rested_ms,
        "tally": None if state.tally is None else list(astuple(state.tally)),
    }
    return json.dumps(body).encode()


def tombstones(cluster: str, plan: str, parts: int) -> dict[bytes, bytes | None]:
    """What of a plan that has ended is of no use any more."""
    keys = [key(cluster, plan, n) for n in range(parts) for key in (part_key, asked_key)]
    return dict.fromkeys(keys)


# -- from the body of a record; each raises KeyError, TypeError, IndexError or ValueError for what is no such body ------------


def read_head(body: Mapping[str, Any]) -> PlanHead:
    return PlanHead(
        id=str(body["id"]),
        by=str(body["by"]),
        given_at_ms=int(body["given_at_ms"]),
        at_ms=int(body["at_ms"]),
        parts=int(body["parts"]),
        wanted=Wanted(body["wanted"]),
        limits=BatchLimits(*map(int, body["limits"])),
        word_by=str(body["word_by"]),
        # An older program does not tell its words apart.
        course_at_ms=int(body.get("course_at_ms", body["at_ms"])),
        leaves=bool(body.get("leaves", False)),
    )


def read_parts(body: Mapping[str, Any]) -> dict[Key, Part]:
    # Absent in plans that an older program gave.
    topics = {topic: TopicThen(str(known), int(many)) for topic, (known, many) in body.get("topics", {}).items()}
    unknown = TopicThen()
    return {
        (topic, number): Part(tuple(target), tuple(before), float(size), float(rate), topics.get(topic, unknown))
        for topic, number, target, before, size, rate in body["parts"]
    }


def read_asked(body: Mapping[str, Any]) -> dict[Key, Asked]:
    return {
        (topic, number): Asked(tuple(replicas), tuple(since), bool(moves), bool(elect), bool(cancels))
        for topic, number, replicas, since, moves, elect, cancels in body["asked"]
    }


def read_state(body: Mapping[str, Any]) -> PlanState:
    ending, tally = body["ending"], body.get("tally")  # An older program tells of no tally, and of no pauses.
    return PlanState(
        heeded_at_ms=int(body["heeded_at_ms"]),
        ending=None if ending is None else Ending(ending),
        ended_at_ms=int(body["ended_at_ms"]),
        dropped=_by_key(body["dropped"]),
        left=_by_key(body["left"]),
        said=tuple(body["said"]),
        pace=tuple(body["pace"]),
        paused_at_ms=int(body.get("paused_at_ms", 0)),
        rested_ms=int(body.get("rested_ms", 0)),
        tally=None if tally is None else Tally(int(tally[0]), int(tally[1]), float(tally[2]), float(tally[3])),
    )


def _reasons(reasons: Mapping[Key, str]) -> list[list[Any]]:
    return [[topic, number, why] for (topic, number), why in reasons.items()]


def _by_key(rows: Iterable[Any]) -> dict[Key, str]:
    return {(topic, number): why for topic, number, why in rows}
