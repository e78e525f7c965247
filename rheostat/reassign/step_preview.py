"""The steps of a plan as they would be, if every one ends and all brokers stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streaming.shared.short_lists import more_text
from tuner.core.reassignment_steps import PartitionTransition, all_steps

_SHOWN = 200


def sentences_of_steps(ways: Sequence[PartitionTransition], replica_movements_max: int) -> list[str]:
    """One line a partition, as KIP-435 writes them."""
    said = []
    for way in ways[:_SHOWN]:
        on_the_way = [step.replicas for step in all_steps(way, replica_movements_max)]
        said.append(
            f"{way.topic}-{way.partition}: {' → '.join(_text(replicas) for replicas in (way.replicas, *on_the_way))}"
        )
    if len(ways) > _SHOWN:
        said.append(more_text(len(ways) - _SHOWN, "partitions (--json has all)"))
    return said


def as_rows(ways: Sequence[PartitionTransition], replica_movements_max: int) -> list[dict[str, Any]]:
    return [
        {
            "topic": way.topic,
            "partition": way.partition,
            "current": list(way.replicas),
            "steps": [
                {
                    "replicas": list(step.replicas),
                    "adding": list(step.adding),
                    "dropping": list(step.dropping),
                    "reason": step.reason.value,
                    "moves_leader": step.moves_leader,
                }
                for step in all_steps(way, replica_movements_max)
            ],
        }
        for way in ways
    ]


def _text(replicas: tuple[int, ...]) -> str:
    return f"({','.join(map(str, replicas))})"
