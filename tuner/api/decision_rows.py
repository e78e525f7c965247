"""Formats one event of decisions as JSON values, for the API and the page: the decision, its reason, and its outcome.

An event is one or more journal entries that belong together, for example one for each throttle that the end of a move restores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tuner.api.decisions import EventRow, JournaledAct
from tuner.core.reassignment_steps import StepOutcomeReason
from tuner.journal.entries import CONCURRENCY, ORDER, QUOTAS, STEERING, STEP_OUTCOMES, STEPS, Entry
from tuner.journal.event_lines import event_text, failures_text
from tuner.journal.term_entries import BEGIN_TERM, FOLLOW_SETTINGS

_TOPICS_MAX = 20
INPUTS_LISTED_MAX = 3
# The texts of the outcomes, on the page and in `rheostat status`.
OUTCOMES = {
    "done": "done",
    "failed": "failed",
    "in_progress": "in progress",
    "started": "started",
    "dry_run": "dry run: not executed",
    "no_change": "no change",
    "waiting": "waiting",
    "recorded": "recorded",
}
# By action: the fields of a decision that hold the rate before and after it; None if the decision has no such field.
_BEFORE_AFTER = {
    "set": ("current_bytes_per_s", "setpoint_bytes_per_s"),
    "start": (None, "value_bytes_per_s"),
    "restore": ("current_bytes_per_s", "value_bytes_per_s"),
    "relinquish": ("managed_bytes_per_s", "current_bytes_per_s"),
    "allow_steering": ("current_bytes_per_s", None),
    "set_log_dir": ("current_bytes_per_s", "setpoint_bytes_per_s"),
    "restore_log_dir": ("current_bytes_per_s", "value_bytes_per_s"),
    "relinquish_log_dir": ("managed_bytes_per_s", "current_bytes_per_s"),
}


def decision_json(row: EventRow, *, inputs_max: int | None = None) -> dict[str, Any]:
    """Returns the event as JSON values.

    Args:
        inputs_max: maximum number of throttles whose inputs are included; 0 means without inputs; None means all.
    """
    acts = tuple(row.acts)
    entry, entries = acts[0].entry, [act.entry for act in acts]
    before, after = _before_after(entry) if len(acts) == 1 else (None, None)
    outcomes_at_ms = [act.outcome.at_ms for act in acts if act.outcome is not None]
    return {
        "id": row.number,
        "at_ms": entry.at_ms,
        "kind": entry.kind,
        "action": entry.action,
        "reason": entry.reason,
        "text": event_text(entries),
        "records": len(acts),
        "broker": _common_value([each.decision.get("broker") for each in entries]),
        "side": _common_value([_text(each.decision.get("side")) for each in entries]),
        "topics": _topics(entries),
        "before_bytes_per_s": before,
        "after_bytes_per_s": after,
        "rates": [
            {"broker": b, "side": _text(s), "before_bytes_per_s": current, "after_bytes_per_s": setpoint}
            for b, s, current, setpoint in _rates(entries)
        ],
        "quotas": [
            {"entity": entity, "before_per_s": current, "after_per_s": setpoint, "reason": reason}
            for entity, current, setpoint, reason in entry.decision.get("quotas", ())
        ],
        "outcome": _event_outcome(acts),
        "failure": _event_failure(acts),
        "outcome_at_ms": max(outcomes_at_ms) if len(outcomes_at_ms) == len(acts) else None,
        "dry_run": entry.dry_run,
        "inputs": _inputs(entries, inputs_max) if inputs_max != 0 else None,
    }


def _event_outcome(acts: Sequence[JournaledAct]) -> str:
    """Returns the outcome of an event: failed if any act has failed, in progress until every act has ended."""
    outcomes = [_act_outcome(act.entry, act.outcome) for act in acts]
    return next((word for word in ("failed", "in_progress") if word in outcomes), outcomes[0])


def _act_outcome(entry: Entry, outcome: Entry | None) -> str:
    if (outcome or entry).failure is not None:
        return "failed"
    if entry.action in (ORDER, BEGIN_TERM, FOLLOW_SETTINGS):
        return "recorded"
    if outcome is not None or entry.kind == "outcome":
        return "done"
    if entry.kind == STEP_OUTCOMES:
        return "waiting" if entry.reason == StepOutcomeReason.DEFERRED else "done"
    if entry.kind == CONCURRENCY:
        return "done"
    # Entries of this kind write nothing, so a dry run has the same outcome. All of them except allow_steering keep the throttle.
    if entry.kind == "decision" and entry.action != "allow_steering":
        return "no_change"
    if entry.dry_run:
        return "dry_run"
    if entry.kind in (STEERING, QUOTAS, STEPS) or entry.action == "allow_steering":
        return "started"  # These write every second: a success gets no entry, a failure gets one of its own.
    return "in_progress"


def _event_failure(acts: Sequence[JournaledAct]) -> str | None:
    failed = [(act.entry, failure) for act in acts if (failure := (act.outcome or act.entry).failure) is not None]
    return failures_text(failed, len(acts))


def _inputs(entries: Sequence[Entry], count_max: int | None) -> dict[str, Any]:
    """Returns the inputs of the decision. For several throttles, returns the inputs of each by its name, from the entries'
    texts."""
    if len(entries) == 1:
        return dict(entries[0].inputs)
    with_inputs = [entry for entry in entries if entry.inputs][:count_max]
    return {entry.text.partition(":")[0]: dict(entry.inputs) for entry in with_inputs}


def _rates(entries: Sequence[Entry]) -> Iterator[tuple[int, Any, int | None, int | None]]:
    """Yields broker, side, current rate and setpoint of each throttle. A single entry may list several throttles."""
    if len(entries) == 1:
        yield from entries[0].decision.get("rates", ())
        return
    for entry in entries:
        if (broker := entry.decision.get("broker")) is not None:
            yield (broker, entry.decision.get("side"), *_before_after(entry))


def _before_after(entry: Entry) -> tuple[int | None, int | None]:
    before_field, after_field = _BEFORE_AFTER.get(entry.action, (None, None))
    decision = entry.decision
    return (
        decision.get(before_field) if before_field else None,
        decision.get(after_field) if after_field else None,
    )


def _topics(entries: Sequence[Entry]) -> list[str]:
    topics = [entry.decision["topic"] for entry in entries if entry.decision.get("topic") is not None]
    # An entry about several topics has a row for each topic. The first value of a row is the topic's name.
    names = topics or [row[0] for row in entries[0].decision.get("topics", ())]
    return names[:_TOPICS_MAX]


def _common_value(values: Sequence[Any]) -> Any:
    """Returns the common value; None if the values differ."""
    return values[0] if all(value == values[0] for value in values) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
