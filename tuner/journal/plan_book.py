"""Builds the reassignment plans from their records, one record after the other (plan_records.py has the format).

Invariant: a plan exists once its head and all its parts have been read. Both topics have one partition, so records are read in the
order in which they were written. If an operator's command dies while it writes a plan, it has submitted no plan.
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
_NUMBERED_KINDS = ("plan-part", "plan-requested")


class PlanBook:
    """The plans of one cluster, built from records that are read at the start and while a tuner runs."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        # All mappings are by plan. Parts and requested steps are also by the number of their record.
        self._heads: dict[str, PlanHead] = {}
        self._parts: dict[str, dict[int, dict[TopicPartition, PlanPartition]]] = {}
        self._requested: dict[str, dict[int, dict[TopicPartition, RequestedStep]]] = {}
        self._states: dict[str, PlanState] = {}
        self._partitions: dict[str, dict[TopicPartition, PlanPartition]] = {}  # Only plans that have all their parts.
        self._faults: dict[str, dict[bytes, str]] = {}  # By plan and key: why the newest record cannot be read.

    @property
    def unreadable_plans(self) -> dict[str, str]:
        """Plans with a record that this version cannot read, and why.

        The tuner does not execute these plans, because the unreadable record may be an order to stop. The next readable record of
        the same key replaces the unreadable record.
        """
        return {plan: next(iter(faults.values())) for plan, faults in self._faults.items()}

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans that may be executed, and ended plans without their parts; the oldest first."""
        return tuple(plan for plan in self.known_plans if plan.id not in self._faults)

    @property
    def known_plans(self) -> tuple[Plan, ...]:
        """``plans``, and the ``unreadable_plans`` whose other records can be read."""
        plans = []
        for head in sorted(self._heads.values(), key=lambda h: (h.submitted_at_ms, h.id)):
            state = self._states.get(head.id, PlanState())
            partitions = self._join_parts(head)
            if partitions is not None or state.ending is not None:
                requested = {
                    key: step for steps in self._requested.get(head.id, {}).values() for key, step in steps.items()
                }
                plans.append(Plan(head, partitions or {}, requested, state))
        return tuple(plans)

    @property
    def parts_without_head(self) -> dict[str, int]:
        """The number of part records of each plan without a head: the submitting command died half-way, or is still running."""
        return {
            plan: max(parts) + 1
            for plan, parts in self._parts.items()
            if parts and plan not in self._heads and plan not in self._faults
        }

    def apply(self, key: bytes, value: bytes | None) -> bool:
        """Applies one record. Returns whether the record is about a plan of this cluster.

        Raises:
            ValueError: this version cannot read the plan's record. The plan is in ``unreadable_plans`` from then on.
        """
        kind, _, rest = key.decode(errors="replace").partition("|")
        if kind not in PLAN_KINDS or not rest.startswith(f"{self._cluster}|"):
            return False
        plan, _, suffix = rest.removeprefix(f"{self._cluster}|").partition("|")
        number = _record_number(kind, suffix)
        if number is None:
            return False  # rheostat writes no such key.
        try:
            self._apply(kind, plan, number, value)
        except ValueError as error:
            self._faults.setdefault(plan, {})[key] = str(error)
            raise
        faults = self._faults.get(plan, {})
        if faults.pop(key, None) is not None and not faults:
            del self._faults[plan]
        return True

    def apply_operator_record(self, key: bytes, value: bytes | None) -> None:
        """Applies a record as ``apply`` does, if it is of a kind that operators write.

        The tuner ignores records that it has written itself, because its own state is newer than the records that it reads back.
        """
        # `rheostat journal repair` writes a tombstone with the key of an unreadable record.
        is_repair = value is None and any(key in faults for faults in self._faults.values())
        if key.startswith((b"plan|", b"plan-part|")) and (value is not None or is_repair):
            self.apply(key, value)

    def _apply(self, kind: str, plan: str, number: int, value: bytes | None) -> None:
        match kind:
            case "plan":
                head = None if value is None else _merge_heads(self._heads.get(plan), decode_head(value))
                if head is not None and head.id != plan:
                    raise ValueError(f"the record of plan {head.id!r:.60} has the key of another plan")
                _set_or_delete(self._heads, plan, head)
            case "plan-part":
                parts = None if value is None else decode_parts(value)
                self._partitions.pop(plan, None)
                _set_or_delete(self._parts.setdefault(plan, {}), number, parts)
            case "plan-requested":
                steps = None if value is None else decode_requested(value)
                _set_or_delete(self._requested.setdefault(plan, {}), number, steps)
            case _:
                _set_or_delete(self._states, plan, None if value is None else decode_state(value))

    def _join_parts(self, head: PlanHead) -> dict[TopicPartition, PlanPartition] | None:
        """Returns the partitions of a plan; None while parts are missing."""
        if head.id not in self._partitions:
            parts = self._parts.get(head.id, {})
            if head.part_records == 0 or not all(n in parts for n in range(head.part_records)):
                return None
            self._partitions[head.id] = {
                key: partition for n in range(head.part_records) for key, partition in parts[n].items()
            }
        return self._partitions[head.id]


def apply_for_display(book: PlanBook, key: bytes, value: bytes | None) -> bool:
    """Applies a record as ``book.apply``, for a program that only shows plans: an unreadable record raises nothing."""
    try:
        return book.apply(key, value)
    except ValueError:
        return True


def _set_or_delete(values: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _merge_heads(known: PlanHead | None, head: PlanHead) -> PlanHead:
    """Returns the head after a newer order about the plan.

    An order that is older than the known head changes nothing. Two orders may come at the same time: an order about the limits
    keeps the desired state, and an order about the desired state keeps the limits. No order revokes an earlier cancel, or adds
    a rollback to a cancel without a rollback.
    """
    if known is None:
        return head
    if head.ordered_at_ms < known.ordered_at_ms:
        return known
    if head.state_ordered_at_ms == head.ordered_at_ms:  # The order is about the desired state.
        head = replace(head, limits=known.limits)
    elif head.state_ordered_at_ms < known.state_ordered_at_ms:  # The order is about the limits.
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


def _record_number(kind: str, suffix: str) -> int | None:
    """Returns the number at the end of a key, 0 for a kind without numbers; None if a plan has no such record."""
    if kind not in _NUMBERED_KINDS:
        return None if suffix else 0
    return int(suffix) if re.fullmatch(r"[0-9]{1,5}", suffix) else None
