"""The running and finished plans of one cluster, from the journal and the orders topic: orders, results, timeline, partitions.

The caller locks. An ended plan stays in this history as long as the journal has its records. The journal keeps the head and the
result of the last twenty plans, and the newest 100,000 entries about steps.

Invariant: at most ``PARTITIONS_MAX`` partitions are kept. The oldest plans lose their partitions first, but keep their totals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tuner.api.partition_table import PartitionTable, PlanPartitionState
from tuner.core.reassignment_plan import PlanHead, PlanState
from tuner.journal.entries import STEPS, Entry
from tuner.journal.plan_records import decode_head, decode_parts, decode_state

PARTITIONS_MAX = 500_000
_PLANS_MAX = 200
_EVENTS_MAX = 2_000  # For each plan.
_TEXT_MAX = 200
_PARTITION_MAX = 2**31 - 1
# An outcome lists partitions in fields of its decision. By field: the state of the listed partitions.
_STATES = {
    "reached": PlanPartitionState.ARRIVED,
    "rolled_back": PlanPartitionState.ROLLED_BACK,
    "never_taken": PlanPartitionState.WAITING,
    "given_up": PlanPartitionState.GIVEN_UP,
}


class PlanEvent(NamedTuple):
    """One entry of the journal about a plan: steps that the tuner requested, or the outcomes of earlier steps.

    Attributes:
        number: the id of its decision page.
        arrived: how many partitions of the plan had arrived by then; None if the entry does not contain this number.
    """

    at_ms: int
    number: int
    started: int
    ended: int
    arrived: int | None
    text: str


@dataclass(slots=True)
class PlanStory:
    """The known facts about one plan.

    Attributes:
        head, state: None if its records are gone, or not read yet.
        events: the newest entries, the oldest first; ``events_total`` counts all.
        partitions: None if the plan is old, and its partitions were dropped.
    """

    id: str
    head: PlanHead | None = None
    state: PlanState | None = None
    events: deque[PlanEvent] = field(default_factory=lambda: deque(maxlen=_EVENTS_MAX))
    events_total: int = 0
    first_ms: int = 0
    partitions: PartitionTable | None = field(default_factory=PartitionTable)

    @property
    def started_ms(self) -> int:
        """The time at which the plan was submitted. If that time is not known, the time at which its first step was requested."""
        return self.head.started_at_ms if self.head is not None else self.first_ms

    @property
    def is_active(self) -> bool:
        return self.head is not None and (self.state is None or self.state.ending is None)


class PlanHistory:
    """All plans that the journal knows."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._plans: dict[str, PlanStory] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Applies a record about a plan: its head, a part or its state. Tombstones are ignored, as the history keeps ended
        plans."""
        kind, _, rest = key.decode(errors="replace").partition("|")
        if value is None or kind not in ("plan", "plan-part", "plan-state") or not rest.startswith(f"{self._cluster}|"):
            return
        plan = rest.removeprefix(f"{self._cluster}|").partition("|")[0]
        try:
            self._apply(kind, plan, value)
        except ValueError:
            return  # `rheostat journal check` names the records that this version cannot read.

    def add_entry(self, entry: Entry, number: int) -> None:
        """Adds an entry about steps or their outcomes.

        Args:
            number: the id of its decision page.
        """
        plan = entry.decision.get("plan")
        if not isinstance(plan, str):
            return
        story = self._story(plan)
        story.first_ms = story.first_ms or entry.at_ms
        rows = _steps(entry) if entry.kind == STEPS else []
        outcomes = _outcomes(entry) if entry.kind != STEPS else []
        if (table := story.partitions) is not None and not entry.dry_run:
            for topic, partition, target in rows:
                table.start(topic, partition, target, entry.at_ms)
            for topic, partition, state in outcomes:
                table.end(topic, partition, state, entry.at_ms)
        arrived = entry.decision.get("arrived")
        story.events.append(
            PlanEvent(
                entry.at_ms,
                number,
                len(rows),
                len(outcomes),
                arrived if isinstance(arrived, int) else None,
                entry.text[:_TEXT_MAX],
            )
        )
        story.events_total += 1
        self._drop_old_partitions()

    def newest_first(self) -> list[PlanStory]:
        """Returns the plans: first the active plans, then the ended plans, the newest first."""
        return sorted(self._plans.values(), key=lambda story: (story.is_active, story.started_ms), reverse=True)

    def story(self, plan: str) -> PlanStory | None:
        return self._plans.get(plan)

    def _apply(self, kind: str, plan: str, value: bytes) -> None:
        match kind:
            case "plan":
                self._story(plan).head = decode_head(value)
            case "plan-state":
                self._story(plan).state = decode_state(value)
            case _:
                parts = decode_parts(value)
                table = self._story(plan).partitions
                for (topic, partition), row in parts.items() if table is not None else ():
                    assert table is not None
                    table.plan(topic, partition, row.target, row.size_bytes)
                self._drop_old_partitions()

    def _story(self, plan: str) -> PlanStory:
        story = self._plans.get(plan)
        if story is None:
            story = self._plans[plan] = PlanStory(plan)
            if len(self._plans) > _PLANS_MAX:
                ended = (old for old in self._plans.values() if not old.is_active and old.id != plan)
                self._plans.pop(min(ended, key=lambda old: old.started_ms, default=story).id)
                self._plans[plan] = story
        return story

    def _drop_old_partitions(self) -> None:
        kept = [story for story in self._plans.values() if story.partitions is not None]
        while len(kept) > 1 and sum(len(story.partitions or ()) for story in kept) > PARTITIONS_MAX:
            oldest = min(kept, key=lambda story: (story.is_active, story.started_ms))
            oldest.partitions = None
            kept.remove(oldest)


def _steps(entry: Entry) -> list[tuple[str, int, Sequence[int]]]:
    """Returns the topic, the partition and the replicas of each step. Rows of another form are left out."""
    rows = entry.decision.get("steps", ())
    return [
        (row[0], row[1], row[3])
        for row in (rows if isinstance(rows, list | tuple) else ())
        if _is_partition(row) and len(row) > 3 and isinstance(row[3], list | tuple)
    ]


def _outcomes(entry: Entry) -> list[tuple[str, int, PlanPartitionState]]:
    """Returns the partitions whose step has ended, with their state. Rows of another form are left out."""
    return [
        (row[0], row[1], state)
        for name, state in _STATES.items()
        if isinstance(rows := entry.decision.get(name, ()), list | tuple)
        for row in rows
        if _is_partition(row)
    ]


def _is_partition(row: Any) -> bool:
    """Returns whether a row begins with a topic and the number of a partition."""
    if not isinstance(row, list | tuple) or len(row) < 2:
        return False
    return isinstance(row[0], str) and isinstance(row[1], int) and 0 <= row[1] <= _PARTITION_MAX
