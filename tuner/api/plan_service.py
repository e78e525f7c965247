"""The service behind the preview of a plan and its start: what the routes ask, and what they get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PlanToStart:
    """A plan that an operator wants to preview or to start.

    Attributes:
        plan: the text of a plan of kafka-reassign-partitions.
        start_ms: epoch; None: at once, or with ``at_best`` when the move takes the shortest time.
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
    """The load of one broker by the plan. The numbers of replicas and of preferred leaders are those of the whole cluster."""

    broker: int
    receives_bytes: float
    sends_bytes: float
    replicas_before: int
    replicas_after: int
    leaders_before: int
    leaders_after: int


@dataclass(frozen=True, slots=True)
class StartRow:
    """The forecast for one start. Times are epoch; an end of None: the move does not end.

    Attributes:
        end_low_ms, end_high_ms: the end if each hour has a lower or a higher load than forecast, by the mean error.
    """

    name: str
    start_ms: int
    end_ms: int | None
    end_low_ms: int | None
    end_high_ms: int | None
    duration_s: float | None


@dataclass(frozen=True, slots=True)
class PlanPreview:
    """What a plan would do.

    Attributes:
        summary: one sentence for the confirmation.
        sentences: what moves, at which rate, in which order, and what is not known.
        refusals: why the plan would not be started; empty: it would be.
        command: starts the same plan from a terminal.
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
    """A plan that is on record.

    Attributes:
        not_before_ms: epoch; 0: it starts at once.
    """

    plan: str
    not_before_ms: int
    text: str


class PlanRefused(Exception):
    """The plan cannot be previewed or started. The text says why, and what to do.

    Attributes:
        status: of the HTTP answer.
    """

    def __init__(self, text: str, status: int = 422) -> None:
        super().__init__(text)
        self.status = status


class PlanService(Protocol):
    """Reads the cluster and the plans on record."""

    def preview(self, request: PlanToStart) -> PlanPreview:
        """Returns what the plan would do, and changes nothing.

        Raises:
            PlanRefused: the plan is faulty, or the cluster cannot be read.
        """

    def start(self, request: PlanToStart, by: str) -> StartedPlan:
        """Checks the plan again, and records it for the tuner.

        Args:
            by: who gives the order, for the journal.

        Raises:
            PlanRefused: it is not recorded, or it is unknown whether it is.
        """
