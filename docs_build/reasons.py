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
        "In each cycle the tuner checks these reasons in this order. Then it checks the reasons of single throttles.",
        throttle.CYCLE_REASONS,
    ),
    (
        "Throttles: one throttle",
        "While partitions move, the tuner checks these reasons for each throttle, in this order. It uses the first reason that "
        "applies.\nWith an objective the order differs at one place: the tuner checks `window_warmup` after `preserved`.",
        throttle.SIDE_REASONS,
    ),
    (
        "Mutation quotas: the cycle",
        "A mutation is the creation or the deletion of a partition. A tenant is a user, a client-id, or a pair of both. The total "
        "rate\nis the rate of mutations that all tenants together may reach. These reasons are about all mutation quotas together.",
        quota.CYCLE_REASONS,
    ),
    (
        "Mutation quotas: the total rate",
        "These reasons say why the tuner keeps or changes the total rate.",
        quota.TOTAL_REASONS,
    ),
    (
        "Mutation quotas: one tenant",
        "These reasons say why a tenant has its quota, or why rheostat sets no quota for the tenant. `rheostat quotas` shows the "
        "reason of each tenant.",
        quota.TENANT_REASONS,
    ),
    (
        "Plans: partitions at a time",
        "Plans copy several partitions through a broker at the same time. The tuner sets this number for each side of a broker:\n"
        "as a source and as a destination. These reasons say why the tuner keeps or changes the number.",
        reassignment.CONCURRENCY_REASON_TEXTS,
    ),
    (
        "Plans: one step",
        "A step is one reassignment of one partition. These reasons say why the tuner chose the step.",
        reassignment.STEP_REASON_TEXTS,
    ),
    (
        "Plans: the outcome of steps",
        "The journal has entries about the outcome of steps. Each of these entries has one of the following reasons.",
        reassignment.STEP_OUTCOME_REASON_TEXTS,
    ),
    (
        "Copies between log directories",
        "While a broker copies partitions between its log directories, the tuner decides in each cycle about the limit of these\n"
        "copies (`replica.alter.log.dirs.io.max.bytes.per.second`). The decision has one of these reasons.\n"
        "The minimum of the limit is 1.2 × the rate at which producers write to the copied partitions.",
        log_dir.LOG_DIR_REASON_TEXTS,
    ),
    (
        "Cordons",
        "A plan may cordon the brokers that it drains (`rheostat plan generate --cordon`): Kafka then places no new replicas on\n"
        "these brokers. Each decision about a cordon has one of these reasons.",
        cordon.CORDON_REASON_TEXTS,
    ),
    (
        "Concurrency of Cruise Control",
        "With `tuner.cruise_control` the tuner asks Cruise Control regularly, and records one of these reasons each time. In this\n"
        "table *the number* (of partitions at a time) means how many partitions Cruise Control moves per broker at a time.\n"
        "The right number is "
        "the lowest throttle of the moves ÷ `tuner.cruise_control.rate_per_movement_bytes_per_s`.",
        cruise_control.CRUISE_CONTROL_REASON_TEXTS,
    ),
    (
        "Preferred leaders",
        "While partitions do not have their preferred leader, the tuner decides about elections. Each of these decisions has one "
        "of these reasons.",
        leadership.LEADERSHIP_REASON_TEXTS,
    ),
    (
        "Replication lag",
        "Every 15 s the tuner looks for brokers whose replicas lag although no reassignment moves these replicas. It checks the\n"
        "causes in this order. A cause only explains the lag: the tuner changes nothing because of it.",
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
