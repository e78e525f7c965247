"""Decides how `rheostat quotas measure` sets the metering quota, with which Kafka counts the mutations of tenants for a while.

It is the metering quota of ``tuner.mutation_quota.measure`` (metering_quota.py), for an operator who wants to see the rates first.
Its value differs from that quota by a mark, so that a leftover is recognized, and no quota of another tool is removed by mistake.

Invariant: the quota is set only if no other mutation quota exists, because it would have precedence over quotas for client-ids and
for ``<default>`` users.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tuner.control.mutation_quota.default_quota import EVERY_PAIR, UNLIMITED_PER_S
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.core.operator_orders import QuotaTrial

TRIAL_PER_S = UNLIMITED_PER_S + 599.0  # The mark.


class MeteringPlan(StrEnum):
    """The ways in which the command can measure."""

    SET = "set"  # No quota exists: set the metering quota, and remove it at the end.
    TAKE_OVER = "take_over"  # The quota of a killed command is still set: use it, and remove it at the end.
    ONLY_READ = "only_read"  # Other quotas exist: Kafka counts their tenants already, so nothing is set.
    REFUSE = "refuse"  # Another `rheostat quotas measure` is running now.


def plan_metering(quotas: Mapping[QuotaEntity, float], trial: QuotaTrial | None, now_ms: int) -> MeteringPlan:
    """Returns what the command does with these quotas.

    Args:
        trial: the last recorded measurement; None: there was none.
    """
    if has_trial_quota(quotas):
        is_running = trial is not None and now_ms < trial.until_ms
        return MeteringPlan.REFUSE if is_running else MeteringPlan.TAKE_OVER
    return MeteringPlan.ONLY_READ if quotas else MeteringPlan.SET


def has_trial_quota(quotas: Mapping[QuotaEntity, float]) -> bool:
    """Whether the metering quota of the command is set."""
    return quotas.get(EVERY_PAIR) == TRIAL_PER_S


def is_leftover(quotas: Mapping[QuotaEntity, float], trial: QuotaTrial | None, now_ms: int) -> bool:
    """Whether the metering quota of a killed command is still set."""
    return plan_metering(quotas, trial, now_ms) is MeteringPlan.TAKE_OVER
