"""The interface of the service that previews and starts plans for the HTTP routes: its requests and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PlanToStart:
    """A plan that an operator wants to preview or to start.

    Attributes:
        plan: the text of a plan of kafka-reassign-partitions.
        start_ms: the start time, epoch; None means at once or, with ``at_best``, at the time at which the move takes the
            shortest time.
    """

    plan: str
    start_ms: int | None = None
    at_best: bool = False


@dataclass(frozen=True, slots=True)
class PlacementRow:
    """The replicas of one partition before and after the plan, the preferred leader first."""

    topic: str
    partition: int
    before: Sequence[int]
    after: Sequence[int]


@dataclass(frozen=True, slots=True)
class BrokerLoadRow:
    """The bytes that one broker receives and sends for the plan, and its replicas and preferred leaders before and after the plan.

    The counts of replicas and leaders include partitions that the plan does not move.
    """

    broker: int
    receives_bytes: float
    sends_bytes: float
    replicas_before: int
    replicas_after: int
    leaders_before: int
    leaders_after: int


@dataclass(frozen=True, slots=True)
class StartRow:
    """The forecast for one start time. Times are epoch. An end of None means that the move does not end.

    Attributes:
        end_low_ms, end_high_ms: the end if the load of each hour is lower, or higher, than its forecast by the mean error.
    """

    name: str
    start_ms: int
    end_ms: int | None
    end_low_ms: int | None
    end_high_ms: int | None
    duration_s: float | None


@dataclass(frozen=True, slots=True)
class PlanPreview:
    """The effects that a plan would have.

    Attributes:
        summary: one sentence for the confirmation.
        sentences: sentences on the moves, their rate and order, and on facts that are not known.
        refusals: the reasons for which the plan would not be started; empty if it would be started.
        command: the command that starts the same plan from a terminal.
    """

    summary: str
    partitions: int
    placement: Sequence[PlacementRow]
    brokers: Sequence[BrokerLoadRow]
    starts: Sequence[StartRow]
    sentences: Sequence[str]
    refusals: Sequence[str]
    command: str


@dataclass(frozen=True, slots=True)
class StartedPlan:
    """A plan that is recorded for the tuner.

    Attributes:
        not_before_ms: the earliest start, epoch; 0 if the plan starts at once.
    """

    plan: str
    not_before_ms: int
    text: str


class PlanRefused(Exception):
    """The plan cannot be previewed or started. The text says why, and what to do.

    Attributes:
        status: the status code of the HTTP response.
    """

    def __init__(self, text: str, status: int = 422) -> None:
        super().__init__(text)
        self.status = status


class PlanService(Protocol):
    """Previews and starts plans. Reads the cluster and the recorded plans for that."""

    def preview(self, request: PlanToStart) -> PlanPreview:
        """Returns the preview of the plan, and changes nothing.

        Raises:
            PlanRefused: the plan is faulty, or the cluster cannot be read.
        """

    def start(self, request: PlanToStart, by: str) -> StartedPlan:
        """Checks the plan again, and records it for the tuner.

        Args:
            by: the author of the order, for the journal.

        Raises:
            PlanRefused: the plan is not recorded, or it is unknown whether the plan is recorded.
        """
