"""Plans as their records tell of them, taken one after the other (plan_records.py has the form).

Invariant: a plan is there once its head is there and all of its parts are. The topic has one partition, so what is written
last is read last, and whoever dies halfway through writing a plan has given none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tuner.journal.plan_records import VERSION, read_asked, read_head, read_parts, read_state
from tuner.model.reassigning import Asked, Key, Part, Plan, PlanHead, PlanState, Wanted


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
        except (KeyError, TypeError, IndexError, AttributeError) as error:
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
                if body is None:
                    self.unread.pop(plan, None)
                _set(self._heads, plan, None if body is None else _spoken(self._heads.get(plan), body))
            case "plan-part":
                self._whole.pop(plan, None)
                _set(self._parts.setdefault(plan, {}), number, None if body is None else read_parts(body))
            case "plan-asked":
                _set(self._asked.setdefault(plan, {}), number, None if body is None else read_asked(body))
            case _:
                _set(self._states, plan, None if body is None else read_state(body))

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
    about the course the limits, and none takes a cancel back, nor that nothing is to be put back.

    Args:
        tells_apart: whoever wrote it says which of the two it is about.
    """
    if known is None or head.at_ms < known.at_ms:
        return known or head
    if tells_apart and head.course_at_ms == head.at_ms:
        head = replace(head, limits=known.limits)
    elif head.course_at_ms < known.course_at_ms:
        head = replace(
            head, wanted=known.wanted, leaves=known.leaves, word_by=known.word_by, course_at_ms=known.course_at_ms
        )
    if known.wanted is not Wanted.CANCELLING:
        return head
    return replace(head, wanted=Wanted.CANCELLING, leaves=head.leaves or known.leaves)


def _spoken(known: PlanHead | None, body: Mapping[str, Any]) -> PlanHead:
    return _newest(known, read_head(body), tells_apart="course_at_ms" in body)
