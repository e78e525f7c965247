"""What `rheostat plan generate` made: the plan, what it costs, what it leaves. Pure; also the JSON for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rheostat.plan.estimate.report import EstimateReport as Times
from rheostat.plan.estimate.report import as_record as times_record
from rheostat.plan.estimate.text import sentences as times_sentences
from streaming.shared.short_lists import join_names, shorten_lines
from streaming.shared.units import size_text
from tuner.planning.generate import GeneratedPlan

BROKERS_SHOWN = 12


@dataclass(frozen=True, slots=True)
class GeneratedPlanReport:
    source: str
    plan: GeneratedPlan
    held_bytes_before: Mapping[int, float]
    hosted_before: Mapping[int, int]
    times: Times | None  # None: nothing is to be copied.
    notes: tuple[str, ...] = ()

    @property
    def brokers(self) -> list[int]:
        """Whose load changes."""
        held, hosted = self.plan.held_bytes, self.plan.hosted
        return sorted(
            b for b in held if held[b] != self.held_bytes_before.get(b) or hosted[b] != self.hosted_before.get(b)
        )


def plan_json(plan: GeneratedPlan) -> dict[str, Any]:
    """As kafka-reassign-partitions takes it."""
    entries = [{"topic": t.topic, "partition": t.partition, "replicas": list(t.replicas)} for t in plan.targets]
    return {"version": 1, "partitions": entries}


def sentences(made: GeneratedPlanReport) -> list[str]:
    plan = made.plan
    if not plan.targets:
        return ["Nothing is to be moved: what was asked for is so already.", *made.notes]
    said = [f"{_count(plan.targets)} change brokers; {size_text(plan.copied_bytes)} are to be copied."]
    lines = [
        f"broker {b}: {size_text(made.held_bytes_before.get(b, 0.0))} → {size_text(plan.held_bytes[b])}, "
        f"{made.hosted_before.get(b, 0)} → {plan.hosted[b]} partitions"
        for b in made.brokers
    ]
    said += [f"  {line}" for line in shorten_lines(lines, BROKERS_SHOWN, "brokers (--json has all)")]
    if plan.together:
        names = join_names((f"{topic}-{partition}" for topic, partition in plan.together), 5)
        said.append(f"On fewer racks than before, as there is no room elsewhere: {names}.")
    if made.times is not None:
        said += times_sentences(made.times)
    return [*said, *made.notes]


def as_record(made: GeneratedPlanReport) -> dict[str, Any]:
    """One JSON object; units are the last words of its keys."""
    plan = made.plan
    return {
        "source": made.source,
        "plan": plan_json(plan) if plan.targets else None,
        "partitions": len(plan.targets),
        "copied_bytes": plan.copied_bytes,
        "on_fewer_racks": [f"{topic}-{partition}" for topic, partition in plan.together],
        "brokers": [
            {
                "broker": b,
                "held_bytes_before": made.held_bytes_before.get(b, 0.0),
                "held_bytes": plan.held_bytes[b],
                "partitions_before": made.hosted_before.get(b, 0),
                "partitions": plan.hosted[b],
            }
            for b in sorted(plan.held_bytes)
        ],
        "times": None if made.times is None else times_record(made.times),
        "notes": list(made.notes),
    }


def _count(targets: Sequence[object]) -> str:
    return f"{len(targets)} partition{'s' if len(targets) != 1 else ''}"
