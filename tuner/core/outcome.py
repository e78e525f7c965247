"""Outcomes of writes to the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.core.reassignment_plan import TopicPartition


@dataclass(frozen=True, slots=True)
class StepRefusal:
    why: str
    known: bool = True  # False: nobody knows whether Kafka took it.


Outcome = dict[TopicPartition, StepRefusal | None]


Failure = str


CHANGED_EXTERNALLY = "somebody has changed it since it was decided"
