"""Running and finished plans of the journal, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.api.api_state import ApiState
from tuner.api.journal_history import JournalHistory
from tuner.api.partition_table import PartitionRow, PlanPartitionState, Sorting
from tuner.api.plan_history import PlanEvent, PlanStory
from tuner.core.reassignment_plan import TopicPartition

EVENTS_SHOWN_MAX = 50


def past_plans_json(
    journal: JournalHistory, now_ms: int, offset: int, limit: int, find: str, notes: Sequence[str]
) -> dict[str, Any]:
    """Returns one page of the plans.

    Args:
        find: only plans whose name contains this text.
        notes: sentences about data that the history lacks.
    """
    with journal.lock:
        plans = [_plan(story, now_ms) for story in journal.plans.newest_first() if find in story.id]
    end = offset + limit
    return {
        "total": len(plans),
        "next_offset": end if end < len(plans) else None,
        "notes": list(notes),
        "plans": plans[offset:end],
    }


def past_plan_json(journal: JournalHistory, plan: str, now_ms: int, notes: Sequence[str]) -> dict[str, Any] | None:
    """Returns a plan with its newest events; None if the journal does not know the plan."""
    with journal.lock:
        story = journal.plans.story(plan)
        if story is None:
            return None
        events = list(story.events)[-EVENTS_SHOWN_MAX:]
        return {
            **_plan(story, now_ms),
            "notes": list(notes),
            "events_total": story.events_total,
            "events": [_event(event) for event in reversed(events)],
        }


def plan_partitions_json(
    state: ApiState, plan: str, sorting: Sorting, find: str, offset: int, limit: int, notes: Sequence[str]
) -> dict[str, Any] | None:
    """Returns one page of the partitions of a plan; None if the journal does not know the plan."""
    journal, remaining = state.journal, state.plans.snapshot().measurements.remaining_bytes
    with journal.lock:
        story = journal.plans.story(plan)
        if story is None:
            return None
        table = story.partitions
        rows, total = table.page(sorting, find, offset, limit) if table is not None else ([], 0)
        is_done = story.state is not None and story.state.ending is not None and story.state.ending.value == "done"
    if table is None:
        notes = [
            *notes,
            "The tuner keeps the partitions of the newest plans only. The decisions of this plan name them.",
        ]
    end = offset + limit
    return {
        "total": total,
        "next_offset": end if end < total else None,
        "notes": list(notes),
        "partitions": [_partition(row, remaining, is_done=is_done) for row in rows],
    }


def progress_points(journal: JournalHistory, plan: str) -> list[tuple[int, int]]:
    """Returns the time and the number of arrived partitions, for each event with this number."""
    with journal.lock:
        story = journal.plans.story(plan)
        events = list(story.events) if story is not None else []
    return [(event.at_ms, event.arrived) for event in events if event.arrived is not None]


def _plan(story: PlanStory, now_ms: int) -> dict[str, Any]:
    head, state, table = story.head, story.state, story.partitions
    result = state.result if state is not None else None
    ended_ms = state.ended_at_ms if state is not None and state.ending is not None else None
    return {
        "plan": story.id,
        "state": _state(story),
        "submitted_by": head.submitted_by if head is not None else None,
        "submitted_at_ms": head.submitted_at_ms if head is not None else None,
        "started_at_ms": story.started_ms,
        "ended_at_ms": ended_ms,
        "duration_s": _duration_s(story, now_ms, ended_ms),
        "expected_s": head.expected_s if head is not None else None,
        "partitions": result.partitions if result is not None else len(table) if table is not None else None,
        "arrived": result.at_target if result is not None else _arrived(story),
        "total_bytes": result.total_bytes if result is not None else None,
        "copied_bytes": result.copied_bytes if result is not None else None,
    }


def _state(story: PlanStory) -> str:
    if story.state is not None and story.state.ending is not None:
        return story.state.ending.value
    return story.head.desired.value if story.head is not None else "unknown"


def _duration_s(story: PlanStory, now_ms: int, ended_ms: int | None) -> float | None:
    if not story.started_ms or (ended_ms is None and not story.is_active):
        return None
    paused_ms = story.state.paused_total_ms if story.state is not None else 0
    if story.state is not None and story.state.paused_since_ms and ended_ms is None:
        paused_ms += max(0, now_ms - story.state.paused_since_ms)
    # A clock that was set back must not give a negative duration.
    return max(0, (ended_ms or now_ms) - story.started_ms - paused_ms) / 1000


def _arrived(story: PlanStory) -> int | None:
    known = [event.arrived for event in story.events if event.arrived is not None]
    if known:
        return known[-1]
    return story.partitions.count(PlanPartitionState.ARRIVED) if story.partitions is not None else None


def _event(event: PlanEvent) -> dict[str, Any]:
    return {
        "at_ms": event.at_ms,
        "id": event.number,
        "started": event.started,
        "ended": event.ended,
        "arrived": event.arrived,
        "text": event.text,
    }


def _partition(row: PartitionRow, remaining: Mapping[TopicPartition, float], *, is_done: bool) -> dict[str, Any]:
    # In a finished plan every partition is at its target, also a partition that needed no step.
    state = PlanPartitionState.ARRIVED if is_done and row.state is PlanPartitionState.WAITING else row.state
    return {
        "topic": row.topic,
        "partition": row.partition,
        "state": state.name.lower(),
        "target": list(row.target),
        "size_bytes": row.size_bytes,
        "remaining_bytes": remaining.get((row.topic, row.partition)) if state is PlanPartitionState.MOVING else None,
        "started_at_ms": row.started_ms or None,
        "ended_at_ms": row.ended_ms or None,
    }
