"""Other settings for a tuner that runs: its term ends, and the next one begins with them.

Intuition: a term begins from the journal, whoever held the one before. So a tuner that changes its ceiling half way through a
move does what one does that is started anew, with nothing forgotten and nothing left behind; only the process, its port and its
lease stay.
"""

from __future__ import annotations

from typing import Protocol

from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.status_store import StatusStore
from tuner.core.partition_limits import PartitionLimits
from tuner.settings.tuner import TunerSettings


class Reloads(Protocol):
    def waiting(self) -> bool:
        """Whether other settings are to be taken up; asked many times a second."""

    def take(self) -> tuple[TunerSettings, PartitionLimits]:
        """Those; from then on they are in force."""


class NoReloads:
    """The settings of the start, for ever."""

    def waiting(self) -> bool:
        return False

    def take(self) -> tuple[TunerSettings, PartitionLimits]:
        raise AssertionError("nothing is waiting")


def shown_from_now_on(
    settings: TunerSettings, partition_limits: PartitionLimits | None, board: StatusStore, quota_board: QuotaStatusStore
) -> None:
    """What is measured against the operator's word is measured against the new one."""
    objective, capacity = settings.objective, settings.capacity
    policy = settings.mutation_policy(partition_limits)
    board.limits = settings.limits()
    board.objective = objective.objective() if objective is not None else None
    board.capacity = capacity.of_most() if capacity is not None else None
    board.capacity_by_broker = capacity.by_broker() if capacity is not None else {}
    board.partition_limits = partition_limits
    quota_board.objective = policy.objective if policy is not None else None
