"""Outcomes of writes to the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.core.reassignment_plan import TopicPartition


@dataclass(frozen=True, slots=True)
class StepRefusal:
    """A reassignment step that Kafka did not confirm."""

    why: str
    is_certain: bool = True  # False: the answer was lost, so Kafka may have accepted the step.


Outcome = dict[TopicPartition, StepRefusal | None]  # None: accepted.

Failure = str  # The reason, as text.

CHANGED_EXTERNALLY = "another client changed it after the decision"
