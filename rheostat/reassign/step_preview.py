"""Shows the steps of a plan before it begins, on the assumption that every step ends and all brokers stay online."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rheostat.reassign.text import replicas_text
from streaming.shared.short_lists import more_text
from tuner.core.reassignment_steps import PartitionTransition, all_steps

_PARTITIONS_SHOWN = 200


def describe_steps(transitions: Sequence[PartitionTransition], replica_movements_max: int) -> list[str]:
    """Returns a line for each partition with its replicas after each step, as KIP-435 writes them."""
    lines = []
    for transition in transitions[:_PARTITIONS_SHOWN]:
        replicas = [transition.replicas, *(step.replicas for step in all_steps(transition, replica_movements_max))]
        lines.append(f"{transition.topic}-{transition.partition}: {' → '.join(map(replicas_text, replicas))}")
    if len(transitions) > _PARTITIONS_SHOWN:
        lines.append(more_text(len(transitions) - _PARTITIONS_SHOWN, "partitions (--json has all)"))
    return lines


def steps_as_records(transitions: Sequence[PartitionTransition], replica_movements_max: int) -> list[dict[str, Any]]:
    """Returns a JSON object for each partition with all its steps."""
    return [
        {
            "topic": transition.topic,
            "partition": transition.partition,
            "current": list(transition.replicas),
            "steps": [
                {
                    "replicas": list(step.replicas),
                    "adding": list(step.adding),
                    "removing": list(step.dropping),
                    "reason": step.reason.value,
                    "moves_leader": step.moves_leader,
                }
                for step in all_steps(transition, replica_movements_max)
            ],
        }
        for transition in transitions
    ]
