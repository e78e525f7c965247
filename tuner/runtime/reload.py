"""Changes the settings of a running tuner: its leadership term ends, and the next term begins with the new settings.

The new term reads the journal, as after a restart, so a move under way continues with its history. Only the process, its HTTP port
and its lease outlive the old term.
"""

from __future__ import annotations

from typing import Protocol

from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.status_store import StatusStore
from tuner.core.partition_limits import PartitionLimits
from tuner.settings.schedule_periods import SettingsPeriod
from tuner.settings.tuner import TunerSettings


class Reloads(Protocol):
    """Source of settings that may change while the tuner runs."""

    def waiting(self) -> bool:
        """Returns whether new settings wait to be applied. It is called many times a second."""

    def take(self) -> tuple[TunerSettings, PartitionLimits]:
        """Returns the new settings and puts them in force."""


class NoReloads:
    """Settings that never change."""

    def waiting(self) -> bool:
        return False

    def take(self) -> tuple[TunerSettings, PartitionLimits]:
        raise AssertionError("nothing is waiting")


def show_settings(
    period: SettingsPeriod, partition_limits: PartitionLimits | None, status: StatusStore, quotas: QuotaStatusStore
) -> None:
    """Makes the API and the metrics show the objective, capacity and limits of this period, and the schedule."""
    settings = period.settings
    capacity = settings.capacity
    policy = settings.mutation_policy(partition_limits)
    status.limits = settings.limits()
    status.schedule = period if settings.schedule else None
    status.objective = settings.control_objective()
    status.capacity = capacity.default() if capacity is not None else None
    status.capacity_by_broker = capacity.by_broker() if capacity is not None else {}
    status.partition_limits = partition_limits
    quotas.objective = policy.objective if policy is not None else None
