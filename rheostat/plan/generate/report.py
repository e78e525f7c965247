"""Reports a generated plan: the moves, their cost and the load of each broker, as sentences and as JSON. Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rheostat.plan.estimate import text as estimate_text
from rheostat.plan.estimate.report import EstimateReport
from rheostat.plan.estimate.report import to_record as estimate_record
from streaming.shared.short_lists import join_names, shorten_lines
from streaming.shared.units import size_text
from tuner.planning.generate import GeneratedPlan

BROKERS_SHOWN = 12


@dataclass(frozen=True, slots=True)
class GeneratedPlanReport:
    """A plan, and the cluster before it.

    Attributes:
        held_bytes_before: bytes by broker.
        hosted_before: number of partitions by broker.
        estimate: the estimate of the duration; None if there is nothing to copy.
        notes: sentences for the operator.
        cordon: brokers that the plan cordons before its first step.
    """

    source: str
    plan: GeneratedPlan
    held_bytes_before: Mapping[int, float]
    hosted_before: Mapping[int, int]
    estimate: EstimateReport | None
    notes: tuple[str, ...] = ()
    cordon: tuple[int, ...] = ()

    @property
    def brokers(self) -> list[int]:
        """The brokers whose load changes."""
        held, hosted = self.plan.held_bytes, self.plan.hosted
        return sorted(
            b for b in held if held[b] != self.held_bytes_before.get(b) or hosted[b] != self.hosted_before.get(b)
        )


def plan_json(plan: GeneratedPlan, cordon: Sequence[int] = ()) -> dict[str, Any]:
    """Returns the plan in the format of kafka-reassign-partitions, which ignores the key ``cordon``."""
    entries = [{"topic": t.topic, "partition": t.partition, "replicas": list(t.replicas)} for t in plan.targets]
    return {"version": 1, "partitions": entries, **({"cordon": list(cordon)} if cordon else {})}


def sentences(report: GeneratedPlanReport) -> list[str]:
    """Returns the cost of the plan, and the load of each broker before and after it."""
    plan = report.plan
    if not plan.targets:
        return ["There is nothing to move: the cluster already is as requested.", *report.notes]
    count = len(plan.targets)
    partitions = "1 partition moves" if count == 1 else f"{count} partitions move"
    result = [f"{partitions}, with {size_text(plan.copied_bytes)} to copy."]
    lines = [
        f"broker {b}: {size_text(report.held_bytes_before.get(b, 0.0))} → {size_text(plan.held_bytes[b])}, "
        f"{report.hosted_before.get(b, 0)} → {plan.hosted[b]} partitions"
        for b in report.brokers
    ]
    result += [f"  {line}" for line in shorten_lines(lines, BROKERS_SHOWN, "brokers (--json has all)")]
    if report.cordon:
        result.append(cordon_text(report.cordon))
    if plan.on_fewer_racks:
        names = join_names((f"{topic}-{partition}" for topic, partition in plan.on_fewer_racks), 5)
        result.append(
            f"These partitions would be on fewer racks than before, because the other racks have no room: {names}."
        )
    if report.estimate is not None:
        result += estimate_text.sentences(report.estimate)
    return [*result, *report.notes]


def cordon_text(brokers: Sequence[int]) -> str:
    """Returns a sentence on the brokers that a plan cordons."""
    named = f"broker{'s' if len(brokers) != 1 else ''} {', '.join(map(str, brokers))}"
    return (
        f"`rheostat reassign start` cordons {named} before the first step, so that Kafka places no new replicas there. The cordon "
        "stays when the plan is done, and is lifted when the plan is cancelled."
    )


def to_record(report: GeneratedPlanReport) -> dict[str, Any]:
    """Returns the report as a JSON object; each key ends with its unit."""
    plan = report.plan
    return {
        "source": report.source,
        "plan": plan_json(plan, report.cordon) if plan.targets else None,
        "partitions": len(plan.targets),
        "copied_bytes": plan.copied_bytes,
        "on_fewer_racks": [f"{topic}-{partition}" for topic, partition in plan.on_fewer_racks],
        "brokers": [
            {
                "broker": b,
                "held_bytes_before": report.held_bytes_before.get(b, 0.0),
                "held_bytes": plan.held_bytes[b],
                "partitions_before": report.hosted_before.get(b, 0),
                "partitions": plan.hosted[b],
            }
            for b in sorted(plan.held_bytes)
        ],
        "estimate": None if report.estimate is None else estimate_record(report.estimate),
        "notes": list(report.notes),
    }
