"""Plans as their records tell of them, taken one after the other (plan_records.py has the form).

Invariant: a plan is there once its head is there and all of its parts are. The topic has one partition, so what is written
last is read last, and whoever dies halfway through writing a plan has given none.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tuner.core.reassignment_plan import (
    DesiredPlanState,
    Plan,
    PlanHead,
    PlanPartition,
    PlanState,
    RequestedStep,
    TopicPartition,
)
from tuner.journal.plan_records import decode_head, decode_parts, decode_requested, decode_state

PLAN_KINDS = ("plan", "plan-part", "plan-requested", "plan-state")
_NUMBERED = ("plan-part", "plan-requested")


class PlanBook:
    """What the records say, taken one after the other; also those that come while a tuner runs."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._heads: dict[str, PlanHead] = {}
        self._parts: dict[str, dict[int, dict[TopicPartition, PlanPartition]]] = {}
        self._asked: dict[str, dict[int, dict[TopicPartition, RequestedStep]]] = {}
        self._states: dict[str, PlanState] = {}
        self._whole: dict[str, dict[TopicPartition, PlanPartition]] = {}
        self._unread: dict[str, dict[bytes, str]] = {}  # By plan and key: why the newest record cannot be read.

    @property
    def unread(self) -> dict[str, str]:
        """Plans with a record that this version cannot read, and why.

        They are not carried out: the newest word about such a plan may be that it is to stop. A readable record of the same key
        takes the place of the unreadable one.
        """
        return {plan: next(iter(faults.values())) for plan, faults in self._unread.items()}

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Those that may be carried out, and those that have ended without their parts; the oldest first."""
        return tuple(plan for plan in self.known if plan.id not in self._unread)

    @property
    def known(self) -> tuple[Plan, ...]:
        """The same, with those that are in ``unread`` as their readable records tell of them."""
        found = []
        for head in sorted(self._heads.values(), key=lambda h: (h.submitted_at_ms, h.id)):
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
            if some and plan not in self._heads and plan not in self._unread
        }

    def take(self, key: bytes, value: bytes | None) -> bool:
        """Take in one record. Returns whether it is about a plan of this cluster.

        Raises:
            ValueError: it is, and this version cannot read it. The plan is in ``unread`` from then on.
        """
        kind, _, rest = key.decode(errors="replace").partition("|")
        if kind not in PLAN_KINDS or not rest.startswith(f"{self._cluster}|"):
            return False
        plan, _, end = rest.removeprefix(f"{self._cluster}|").partition("|")
        number = _number(end) if kind in _NUMBERED else 0 if not end else None
        if number is None:
            return False  # No program of ours writes such a key.
        try:
            self._put(kind, plan, number, value)
        except ValueError as error:
            self._unread.setdefault(plan, {})[key] = str(error)
            raise
        faults = self._unread.get(plan, {})
        if faults.pop(key, None) is not None and not faults:
            del self._unread[plan]
        return True

    def take_from_people(self, key: bytes, value: bytes | None) -> None:
        """The same for what only people write: of its own records a tuner knows more than comes back to it."""
        is_mended = value is None and any(key in faults for faults in self._unread.values())
        if key.startswith((b"plan|", b"plan-part|")) and (value is not None or is_mended):
            self.take(key, value)

    def _put(self, kind: str, plan: str, number: int, value: bytes | None) -> None:
        match kind:
            case "plan":
                head = None if value is None else _spoken(self._heads.get(plan), value)
                if head is not None and head.id != plan:
                    raise ValueError(f"the head of plan {head.id!r:.60} under the key of another")
                _set(self._heads, plan, head)
            case "plan-part":
                parts = None if value is None else decode_parts(value)
                self._whole.pop(plan, None)
                _set(self._parts.setdefault(plan, {}), number, parts)
            case "plan-requested":
                _set(self._asked.setdefault(plan, {}), number, None if value is None else decode_requested(value))
            case _:
                _set(self._states, plan, None if value is None else decode_state(value))

    def _joined(self, head: PlanHead) -> dict[TopicPartition, PlanPartition] | None:
        if head.id not in self._whole:
            some = self._parts.get(head.id, {})
            if head.part_records == 0 or not all(n in some for n in range(head.part_records)):
                return None
            self._whole[head.id] = {key: part for n in range(head.part_records) for key, part in some[n].items()}
        return self._whole[head.id]


def take_known(book: PlanBook, key: bytes, value: bytes | None) -> bool:
    """As ``book.take`` for a program that only shows plans: a record that cannot be read changes nothing but ``unread``."""
    try:
        return book.take(key, value)
    except ValueError:
        return True


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
    if known is None or head.ordered_at_ms < known.ordered_at_ms:
        return known or head
    if tells_apart and head.state_ordered_at_ms == head.ordered_at_ms:
        head = replace(head, limits=known.limits)
    elif head.state_ordered_at_ms < known.state_ordered_at_ms:
        head = replace(
            head,
            desired=known.desired,
            no_rollback=known.no_rollback,
            ordered_by=known.ordered_by,
            state_ordered_at_ms=known.state_ordered_at_ms,
        )
    if known.desired is not DesiredPlanState.CANCELLING:
        return head
    return replace(head, desired=DesiredPlanState.CANCELLING, no_rollback=head.no_rollback or known.no_rollback)


def _spoken(known: PlanHead | None, value: bytes) -> PlanHead:
    head, tells_apart = decode_head(value)
    return _newest(known, head, tells_apart=tells_apart)


def _number(text: str) -> int | None:
    """The number at the end of a key; None where there is none that a plan has."""
    return int(text) if re.fullmatch(r"[0-9]{1,5}", text) else None
