"""Renders the tables of reason codes from the catalogue of each controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from docs_build.page import cell
from tuner.control.cordon import reason_texts as cordon
from tuner.control.cruise_control import reason_texts as cruise_control
from tuner.control.leadership import reason_texts as leadership
from tuner.control.log_dir import reason_texts as log_dir
from tuner.control.mutation_quota import reason_texts as quota
from tuner.control.reassignment import reason_texts as reassignment
from tuner.control.replication_lag import reason_texts as replication_lag
from tuner.control.throttle import reason_texts as throttle
from tuner.core.reason_text import ReasonText

# For each section: its heading, its first sentence, and its reasons.
SECTIONS: tuple[tuple[str, str, Mapping[Any, ReasonText]], ...] = (
    (
        "Throttles: the cycle and the lists",
        "In each cycle the tuner checks these reasons in this order, before it checks the reasons of single throttles.",
        throttle.CYCLE_REASONS,
    ),
    (
        "Throttles: one throttle",
        "While partitions move, the tuner checks these reasons for each throttle. The first reason that applies decides.\nWith an "
        "objective the tuner checks `window_warmup` after `preserved`.",
        throttle.SIDE_REASONS,
    ),
    (
        "Mutation quotas: the cycle",
        "These reasons are about all mutation quotas together.",
        quota.CYCLE_REASONS,
    ),
    (
        "Mutation quotas: the total rate",
        "The total rate is the rate of mutations that all tenants together may reach. The reason says why the tuner keeps or "
        "changes this rate.",
        quota.TOTAL_REASONS,
    ),
    (
        "Mutation quotas: one tenant",
        "Each tenant has one of these reasons. The table of `rheostat quotas` also shows the reason.",
        quota.TENANT_REASONS,
    ),
    (
        "Plans: partitions at a time",
        "A broker copies several partitions of plans at the same time. The tuner sets this number for each side of a broker.\nThe "
        "reason says why the tuner keeps or changes the number.",
        reassignment.CONCURRENCY_REASON_TEXTS,
    ),
    (
        "Plans: one step",
        "A step changes the replicas of one partition. These reasons say why the tuner chose the step.",
        reassignment.STEP_REASON_TEXTS,
    ),
    (
        "Plans: the outcome of steps",
        "Each entry of the journal about the outcome of steps has one of these reasons.",
        reassignment.STEP_OUTCOME_REASON_TEXTS,
    ),
    (
        "Copies between log directories",
        "While a broker copies partitions between its log directories, each cycle gives one of these reasons for its limit.",
        log_dir.LOG_DIR_REASON_TEXTS,
    ),
    (
        "Cordons",
        "A plan may cordon the brokers that it empties (`rheostat plan generate --cordon`). Each decision about a cordon has one "
        "of these reasons.",
        cordon.CORDON_REASON_TEXTS,
    ),
    (
        "Concurrency of Cruise Control",
        "With `tuner.cruise_control` the tuner asks Cruise Control regularly, and records one of these reasons each time. *Number* "
        "means how many partitions Cruise Control moves per broker at a time.",
        cruise_control.CRUISE_CONTROL_REASON_TEXTS,
    ),
    (
        "Preferred leaders",
        "While partitions lack their preferred leader, each decision about an election has one of these reasons.",
        leadership.LEADERSHIP_REASON_TEXTS,
    ),
    (
        "Replication lag",
        "Every 15 s the tuner looks for brokers whose replicas lag although no reassignment moves them. It checks these causes in "
        "this order. They explain the lag, and no decision depends on them.",
        replication_lag.LAG_REASON_TEXTS,
    ),
)


def render_reasons() -> str:
    """Returns a table for each group of reasons."""
    return "\n".join(line for section in SECTIONS for line in _section(*section))


def _section(heading: str, intro: str, texts: Mapping[StrEnum, ReasonText]) -> Iterator[str]:
    yield f"\n## {heading}\n\n{intro}\n"
    yield "| reason | meaning | what the tuner does | what to do |"
    yield "|---|---|---|---|"
    for reason, text in texts.items():
        yield f"| `{reason.value}` | {cell(text.cause)} | {cell(text.effect)} | {cell(text.advice)} |"
