"""Plans of reassignments on record, all JSON, in the journal's topic.

plan        key ``plan|<cluster>|<id>``: who gave it and when, the newest word about it (running, paused, cancelling), its
            limits, and how many parts it has. A person's program writes it, after the parts.
plan-part   key ``plan-part|<cluster>|<id>|<n>``: up to a thousand partitions with target, replicas before, and size, and what
            tells their topics from others of the same name. Tombstones once the plan has ended.
plan-asked  key ``plan-asked|<cluster>|<id>|<n>``: which steps of those partitions are asked for and not seen to have ended.
plan-state  key ``plan-state|<cluster>|<id>``: the tuner's own word: what it has heeded, how the plan ended, what was dropped.

Invariant: a plan is there once its head is there and all of its parts are. The topic has one partition, so what is written
last is read last, and whoever dies halfway through writing a plan has given none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from tuner.model.reassigning import Asked, Ending, Key, Part, Plan, PlanHead, PlanState, TopicThen, Wanted
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
    }
    return json.dumps(body).encode()


def tombstones(cluster: str, plan: str, parts: int) -> dict[bytes, bytes | None]:
    """What of a plan that has ended is of no use any more."""
    keys = [key(cluster, plan, n) for n in range(parts) for key in (part_key, asked_key)]
    return dict.fromkeys(keys)


class PlanBook:
    """What the records say, taken one after the other; also those that come while a tuner runs."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._heads: dict[str, PlanHead] = {}
        self._parts: dict[str, dict[int, dict[Key, Part]]] = {}
        self._asked: dict[str, dict[int, dict[Key, Asked]]] = {}
        self._states: dict[str, PlanState] = {}
        self._whole: dict[str, dict[Key, Part]] = {}
        self.unread: dict[str, str] = {}  # Plans that this version cannot read, and why.

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Those that are whole, and those that have ended without their parts; the oldest first."""
        found = []
        for head in sorted(self._heads.values(), key=lambda h: (h.given_at_ms, h.id)):
            if head.id in self.unread:
                continue
            state = self._states.get(head.id, PlanState())
            parts = self._joined(head)
            if parts is not None or state.ending is not None:
                asked = {key: a for some in self._asked.get(head.id, {}).values() for key, a in some.items()}
                found.append(Plan(head, parts or {}, asked, state))
        return tuple(found)

    @property
    def headless(self) -> dict[str, int]:
        """How many records the parts of each plan take that has no head: whoever gave it died halfway, or is just giving it."""
        return {
            plan: max(some) + 1
            for plan, some in self._parts.items()
            if some and plan not in self._heads and plan not in self.unread
        }

    def take(self, key: bytes, value: bytes | None) -> bool:
        """Whether the record is about a plan of this cluster.

        Raises:
            ValueError: it is, and of no version we read. To act without knowing what is under way would be to forget it.
        """
        kind, _, rest = key.decode(errors="replace").partition("|")
        if kind not in ("plan", "plan-part", "plan-asked", "plan-state") or not rest.startswith(f"{self._cluster}|"):
            return False
        plan, _, number = rest.removeprefix(f"{self._cluster}|").partition("|")
        try:
            body = None if value is None else json.loads(value)
            if body is not None and body["v"] != VERSION:
                raise ValueError(f"version {body['v']}, this program reads {VERSION}")
            self._put(kind, plan, int(number or 0), body)
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"not a record of a plan of this version: {error!r}") from error
        return True

    def take_on_start(self, key: bytes, value: bytes) -> bool:
        """As ``take``; but a plan whose head or parts this version cannot read is none, and named in ``unread``.

        A newer program's plan must not keep the throttles from having a tuner. Nor may it be carried out by halves: the newest
        word about it may be that it is to stop.

        Raises:
            ValueError: what a tuner wrote is not readable: then it is not known what is under way.
        """
        try:
            return self.take(key, value)
        except ValueError as error:
            if not key.startswith((b"plan|", b"plan-part|")):
                raise
            plan = key.decode(errors="replace").split("|")[2]
            self._heads.pop(plan, None)
            self.unread[plan] = str(error)
            return True

    def take_from_people(self, key: bytes, value: bytes | None) -> None:
        """The same for what only people write: of its own records a tuner knows more than comes back to it."""
        if key.startswith((b"plan|", b"plan-part|")) and value is not None:
            self.take(key, value)

    def _put(self, kind: str, plan: str, number: int, body: Mapping[str, Any] | None) -> None:
        match kind:
            case "plan":
                _set(self._heads, plan, None if body is None else _spoken(self._heads.get(plan), body))
            case "plan-part":
                self._whole.pop(plan, None)
                _set(self._parts.setdefault(plan, {}), number, None if body is None else _parts(body))
            case "plan-asked":
                _set(self._asked.setdefault(plan, {}), number, None if body is None else _asked(body))
            case _:
                _set(self._states, plan, None if body is None else _state(body))

    def _joined(self, head: PlanHead) -> dict[Key, Part] | None:
        if head.id not in self._whole:
            some = self._parts.get(head.id, {})
            if head.parts == 0 or not all(n in some for n in range(head.parts)):
                return None
            self._whole[head.id] = {key: part for n in range(head.parts) for key, part in some[n].items()}
        return self._whole[head.id]


def _set(known: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value


def _newest(known: PlanHead | None, head: PlanHead, *, tells_apart: bool) -> PlanHead:
    """A word that is read late changes nothing; of two said at the same time one about the limits leaves the course as it is, one
    about the course the limits, and none takes a cancel back.

    Args:
        tells_apart: whoever wrote it says which of the two it is about.
    """
    if known is None or head.at_ms < known.at_ms:
        return known or head
    if tells_apart and head.course_at_ms == head.at_ms:
        head = replace(head, limits=known.limits)
    elif head.course_at_ms < known.course_at_ms:
        head = replace(head, wanted=known.wanted, word_by=known.word_by, course_at_ms=known.course_at_ms)
    return replace(head, wanted=Wanted.CANCELLING) if known.wanted is Wanted.CANCELLING else head


def _spoken(known: PlanHead | None, body: Mapping[str, Any]) -> PlanHead:
    return _newest(known, _head(body), tells_apart="course_at_ms" in body)


def _head(body: Mapping[str, Any]) -> PlanHead:
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
    )


def _parts(body: Mapping[str, Any]) -> dict[Key, Part]:
    # Absent in plans that an older program gave.
    topics = {topic: TopicThen(str(known), int(many)) for topic, (known, many) in body.get("topics", {}).items()}
    unknown = TopicThen()
    return {
        (topic, number): Part(tuple(target), tuple(before), float(size), float(rate), topics.get(topic, unknown))
        for topic, number, target, before, size, rate in body["parts"]
    }


def _asked(body: Mapping[str, Any]) -> dict[Key, Asked]:
    return {
        (topic, number): Asked(tuple(replicas), tuple(since), bool(moves), bool(elect), bool(cancels))
        for topic, number, replicas, since, moves, elect, cancels in body["asked"]
    }


def _state(body: Mapping[str, Any]) -> PlanState:
    ending = body["ending"]
    return PlanState(
        heeded_at_ms=int(body["heeded_at_ms"]),
        ending=None if ending is None else Ending(ending),
        ended_at_ms=int(body["ended_at_ms"]),
        dropped=_by_key(body["dropped"]),
        left=_by_key(body["left"]),
        said=tuple(body["said"]),
        pace=tuple(body["pace"]),
    )


def _reasons(reasons: Mapping[Key, str]) -> list[list[Any]]:
    return [[topic, number, why] for (topic, number), why in reasons.items()]


def _by_key(rows: Iterable[Any]) -> dict[Key, str]:
    return {(topic, number): why for topic, number, why in rows}
