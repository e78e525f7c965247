"""One entry for all the steps that a cycle asks for, and one for what has come of others; a text for people, rows for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streaming.shared.short_lists import join_names
from tuner.control.reassignment.concurrency_model import ConcurrencyChange
from tuner.control.reassignment.policy import PlanDecision
from tuner.core.outcome import StepRefusal
from tuner.core.reassignment_plan import Plan, TopicPartition
from tuner.journal.entries import PACE, STEPS, STEPS_OVER, WAITS, Entry

_TEXTS = 3


def steps_entry(plan: Plan, made: PlanDecision, at_ms: int, inputs: Mapping[str, Any]) -> Entry | None:
    """Before they are asked for; None where there are none."""
    if not made.starts and not made.cancels:
        return None
    texts = [f"{s.topic}-{s.partition} to {list(s.replicas)}" for s in made.starts]
    texts += [f"{topic}-{number} is stopped" for topic, number in made.cancels]
    ready = made.progress.ready
    rows = [
        [s.topic, s.partition, list(ready[(s.topic, s.partition)].replicas), list(s.replicas), s.reason.value]
        for s in made.starts
    ]
    return Entry(
        at_ms,
        STEPS,
        "reassign",
        made.starts[0].reason.value if made.starts else "cancelled",
        f"plan {plan.id}: {_some(texts)}",
        {"plan": plan.id, "steps": rows, "stopped": list(made.cancels)},
        {"running": len(made.progress.running), "ready": len(ready), "desired": plan.head.desired.value, **inputs},
    )


def over_entry(plan: Plan, made: PlanDecision, at_ms: int) -> Entry | None:
    """What the look found of steps asked for earlier, and of the plan's end; None where that is nothing."""
    parts = made.progress
    newly = {
        key: why
        for key, why in {**parts.stopped_externally, **parts.dropped}.items()
        if key not in plan.state.stopped_externally and key not in plan.state.dropped
    }
    ended = made.plan.state.ending
    if not (parts.reached or parts.rolled_back or parts.never_accepted or newly or ended):
        return None
    texts = [f"{name} reached" for name in _names(parts.reached)]
    texts += [f"{name} put back" for name in _names(parts.rolled_back)]
    texts += [f"{name} was never taken" for name in _names(parts.never_accepted)]
    texts += [f"{topic}-{number}: {why}" for (topic, number), why in newly.items()]
    said = f"{ended.value}: {_some(texts)}" if ended is not None else _some(texts)
    rows = {
        "plan": plan.id,
        "reached": parts.reached,
        "put_back": parts.rolled_back,
        "never_taken": parts.never_accepted,
        "given_up": [[*key, why] for key, why in newly.items()],
        "arrived": len(parts.arrived),
    }
    return Entry(
        at_ms, STEPS_OVER, "reassign", ended.value if ended is not None else "ended", f"plan {plan.id}: {said}", rows
    )


def pace_entry(changes: Sequence[ConcurrencyChange], at_ms: int) -> Entry | None:
    """How many at a time, where that has changed."""
    if not changes:
        return None
    rows = [
        [None if c.side is None else [c.side[0], c.side[1].value], c.before, c.after, c.reason.value] for c in changes
    ]
    return Entry(at_ms, PACE, "pace", changes[0].reason.value, _some([c.text for c in changes]), {"changes": rows})


def failed_entry(failures: Mapping[TopicPartition, StepRefusal], at_ms: int) -> Entry:
    said = _some([f"{topic}-{number}: {refusal.why}" for (topic, number), refusal in failures.items()])
    rows = [[*key, refusal.known] for key, refusal in failures.items()]
    text = f"{len(failures)} steps were not taken, or it is not known"
    return Entry(at_ms, STEPS_OVER, "reassign", "not_taken", text, {"steps": rows}, failure=said)


def waits_entry(waits: Mapping[TopicPartition, str], at_ms: int) -> Entry:
    """Steps that were on record as about to be asked for, and are not: nothing has failed, and the next look goes on with them."""
    said = _some([f"{topic}-{number}: {why}" for (topic, number), why in waits.items()])
    count = f"{len(waits)} step waits" if len(waits) == 1 else f"{len(waits)} steps wait"
    return Entry(at_ms, STEPS_OVER, "reassign", WAITS, f"{count}: {said}", {"steps": [[*key] for key in waits]})


def _names(keys: Iterable[TopicPartition]) -> list[str]:
    return [f"{topic}-{number}" for topic, number in keys]


def _some(texts: Sequence[str]) -> str:
    return join_names(texts, _TEXTS, between="; ")
