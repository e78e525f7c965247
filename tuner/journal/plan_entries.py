"""Builds the journal entries of reassignment plans: one per cycle for all requested steps, and one for all outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streaming.shared.short_lists import join_names
from tuner.control.reassignment.concurrency_model import ConcurrencyChange
from tuner.control.reassignment.policy import PlanDecision
from tuner.core.outcome import StepRefusal
from tuner.core.reassignment_plan import DesiredPlanState, Plan, TopicPartition
from tuner.core.reassignment_steps import StepOutcomeReason
from tuner.journal.entries import CONCURRENCY, STEP_OUTCOMES, STEPS, Entry

_TEXTS_MAX = 3


def steps_entry(plan: Plan, decision: PlanDecision, at_ms: int, inputs: Mapping[str, Any]) -> Entry | None:
    """Returns the entry about the steps that the tuner is about to request; None if there are none."""
    if not decision.starts and not decision.cancels:
        return None
    texts = [f"{s.topic}-{s.partition} to {list(s.replicas)}" for s in decision.starts]
    is_cancelled = plan.head.desired is DesiredPlanState.CANCELLING
    why = "" if is_cancelled else ", because its target is cordoned"
    texts += [f"{topic}-{partition} is stopped{why}" for topic, partition in decision.cancels]
    stop_reason = StepOutcomeReason.CANCELLED if is_cancelled else StepOutcomeReason.CORDONED
    ready = decision.progress.ready
    rows = [
        [s.topic, s.partition, list(ready[(s.topic, s.partition)].replicas), list(s.replicas), s.reason.value]
        for s in decision.starts
    ]
    return Entry(
        at_ms,
        STEPS,
        action="reassign",
        reason=decision.starts[0].reason.value if decision.starts else stop_reason,
        text=f"plan {plan.id}: {_first_texts(texts)}",
        decision={"plan": plan.id, "steps": rows, "stopped": list(decision.cancels)},
        inputs={
            "running": len(decision.progress.running),
            "ready": len(ready),
            "desired": plan.head.desired.value,
            **inputs,
        },
    )


def outcome_entry(plan: Plan, decision: PlanDecision, at_ms: int) -> Entry | None:
    """Returns the entry about the outcomes of earlier steps and the end of the plan; None if there is nothing new.

    Args:
        plan: the plan before this cycle; ``decision.plan`` is the plan after it.
    """
    progress = decision.progress
    given_up = {
        key: reason
        for key, reason in {**progress.stopped_externally, **progress.dropped}.items()
        if key not in plan.state.stopped_externally and key not in plan.state.dropped
    }
    ending = decision.plan.state.ending
    if not (progress.reached or progress.rolled_back or progress.never_accepted or given_up or ending):
        return None
    texts = [f"{name} reached" for name in _names(progress.reached)]
    texts += [f"{name} rolled back" for name in _names(progress.rolled_back)]
    texts += [f"{name} was never accepted" for name in _names(progress.never_accepted)]
    texts += [f"{topic}-{partition}: {reason}" for (topic, partition), reason in given_up.items()]
    text = f"{ending.value}: {_first_texts(texts)}" if ending is not None else _first_texts(texts)
    rows = {
        "plan": plan.id,
        "reached": progress.reached,
        "rolled_back": progress.rolled_back,
        "never_taken": progress.never_accepted,
        "given_up": [[*key, reason] for key, reason in given_up.items()],
        "arrived": len(progress.arrived),
    }
    return Entry(
        at_ms,
        STEP_OUTCOMES,
        action="reassign",
        reason=ending.value if ending is not None else StepOutcomeReason.ENDED,
        text=f"plan {plan.id}: {text}",
        decision=rows,
    )


def concurrency_entry(changes: Sequence[ConcurrencyChange], at_ms: int) -> Entry | None:
    """Returns the entry about new concurrency limits of steps; None if none has changed."""
    if not changes:
        return None
    rows = [
        [None if c.side is None else [c.side[0], c.side[1].value], c.before, c.after, c.reason.value] for c in changes
    ]
    text = _first_texts([c.text for c in changes])
    reason = changes[0].reason.value
    return Entry(at_ms, CONCURRENCY, action="concurrency", reason=reason, text=text, decision={"changes": rows})


def failed_entry(failures: Mapping[TopicPartition, StepRefusal], at_ms: int) -> Entry:
    """Returns the entry about requested steps that Kafka refused, or whose outcome is unknown."""
    failure = _first_texts([f"{topic}-{partition}: {refusal.why}" for (topic, partition), refusal in failures.items()])
    rows = [[*key, refusal.is_certain] for key, refusal in failures.items()]
    text = f"{len(failures)} steps were refused, or their outcome is unknown"
    return Entry(
        at_ms,
        STEP_OUTCOMES,
        action="reassign",
        reason=StepOutcomeReason.NOT_ACCEPTED,
        text=text,
        decision={"steps": rows},
        failure=failure,
    )


def deferred_entry(waits: Mapping[TopicPartition, str], at_ms: int) -> Entry:
    """Returns the entry about recorded steps that the tuner did not request. Nothing failed; the next cycle tries again.

    Args:
        waits: why each step waits.
    """
    reasons = _first_texts([f"{topic}-{partition}: {reason}" for (topic, partition), reason in waits.items()])
    count = f"{len(waits)} step waits" if len(waits) == 1 else f"{len(waits)} steps wait"
    text, rows = f"{count}: {reasons}", [[*key] for key in waits]
    return Entry(
        at_ms,
        STEP_OUTCOMES,
        action="reassign",
        reason=StepOutcomeReason.DEFERRED,
        text=text,
        decision={"steps": rows},
    )


def _names(keys: Iterable[TopicPartition]) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in keys]


def _first_texts(texts: Sequence[str]) -> str:
    return join_names(texts, _TEXTS_MAX, separator="; ")
