"""Plans as the last look left them, for whoever asks over HTTP. Written by the loop's thread, read by the server's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import Labels, metric_family
from tuner.control.reassignment.measurements import PartitionMeasurements
from tuner.control.reassignment.partition_progress import PartitionProgress
from tuner.control.reassignment.policy import PlanDecision
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import DesiredPlanState, PlanPartition

# A series for each state of each; whoever has more plans than this at a time has a tool that makes them.
PLANS_NAMED_MAX = 20
# A look at a large plan, its steps' throttles, their answers and the rest after it take less than half of it.
SNAPSHOT_AGE_S_MAX = 120.0
OVERDUE_REASON = "no look at them has ended since then, though one was due: the tuner's log says why"


class PlanSnapshot(NamedTuple):
    """What one look found; without limits there was none, or it is somebody else's to tell."""

    plans: tuple[PlanDecision, ...] = ()  # Those that have not ended, the oldest first.
    limits: BatchLimits | None = None  # Over all plans: the strictest that holds.
    figures: PartitionMeasurements = PartitionMeasurements()
    at_ms: int = 0
    number: int = 0  # Another one after each look.
    unknown_reason: str | None = None  # Why it is not known how they are: the rest is older. None: it is known.
    unknown_since_ms: int | None = None  # Epoch; None: it is known, or was not yet.
    total_bytes: Mapping[str, float] = {}  # By plan: what it copies in all, by the sizes that it was given with.


class PlanStatusStore:
    def __init__(self, cluster: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.cluster = cluster
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._shown = PlanSnapshot()
        self._awaits = False  # A look: there are plans.
        self._told_s = float("-inf")

    def expect_snapshot(self) -> None:
        """There are plans, and a look at them begins."""
        with self._lock:
            if not self._awaits:
                self._awaits, self._told_s = True, self._monotonic()

    def record_step(
        self,
        plans: tuple[PlanDecision, ...],
        limits: BatchLimits,
        figures: PartitionMeasurements | None = None,
        at_ms: int = 0,
    ) -> None:
        """
        Args:
            plans: those that have not ended, the oldest first.
            limits: the operator's, over all plans.
            figures: what was measured of their partitions.
            at_ms: of the look; epoch.
        """
        known = self._shown.total_bytes
        # A plan's parts never change, and there may be hundreds of thousands of them.
        total_bytes = {
            p.plan.id: known[p.plan.id] if p.plan.id in known else sum(map(copies_bytes, p.plan.partitions.values()))
            for p in plans
        }
        with self._lock:
            number = self._shown.number + 1
            self._shown = PlanSnapshot(
                plans, limits, figures or PartitionMeasurements(), at_ms, number, total_bytes=total_bytes
            )
            self._awaits = True
            self._told_s = self._monotonic()

    def record_unknown(self, why: str, unknown_since_ms: int | None = None) -> None:
        """There are plans, and it is not known how they are: what was seen last may not be so any more.

        Args:
            unknown_since_ms: epoch; None: since the last look that saw them, if there was one.
        """
        with self._lock:
            if self._shown.unknown_reason != why:
                self._unknown(why, unknown_since_ms)

    def clear(self) -> None:
        """What was seen last is somebody else's to tell from now on; or no plan is on record any more."""
        with self._lock:
            self._awaits = False
            if self._shown.limits is not None or self._shown.unknown_reason is not None:
                self._shown = PlanSnapshot(number=self._shown.number + 1)

    def snapshot(self) -> PlanSnapshot:
        with self._lock:
            # Whatever keeps looks from ending, nobody need have told of it.
            if (
                self._awaits
                and self._shown.unknown_reason is None
                and self._monotonic() - self._told_s > SNAPSHOT_AGE_S_MAX
            ):
                self._unknown(OVERDUE_REASON, None)
            return self._shown

    def _unknown(self, why: str, since_ms: int | None) -> None:
        shown = self._shown
        if since_ms is None:
            since_ms = shown.unknown_since_ms or (shown.at_ms if shown.limits is not None else None)
        self._shown = shown._replace(number=shown.number + 1, unknown_reason=why, unknown_since_ms=since_ms)


def copies_bytes(part: PlanPartition) -> float:
    """What it takes to bring this one to its target."""
    return part.size_bytes * sum(broker not in part.original_replicas for broker in part.target)


class PlanCollector(Collector):
    def __init__(self, board: PlanStatusStore) -> None:
        self._board = board

    def collect(self) -> Iterator[Metric]:
        shown, c = self._board.snapshot(), (self._board.cluster,)
        plans, limits = shown.plans, shown.limits
        yield metric_family(TunerMetric.PLANS_STATE_UNKNOWN, {c: float(shown.unknown_reason is not None)})
        # What was under way when it was seen last is no sign that a plan goes on.
        if limits is None or shown.unknown_reason is not None:
            return
        named = plans[:PLANS_NAMED_MAX]
        yield metric_family(
            TunerMetric.PLAN_PARTITIONS,
            {
                (*c, p.plan.id, state): float(n)
                for p in named
                for state, n in partition_counts(p.progress, len(p.likely_starts)).items()
            },
        )
        wanted = {_of(c, p): p.plan.head.desired for p in named}
        yield metric_family(
            TunerMetric.PLAN_PAUSED, {plan: float(word is DesiredPlanState.PAUSED) for plan, word in wanted.items()}
        )
        yield metric_family(
            TunerMetric.PLAN_CANCELLING,
            {plan: float(word is DesiredPlanState.CANCELLING) for plan, word in wanted.items()},
        )
        movements = {
            "leader": limits.leader_movements_max,
            "partition": limits.partition_movements_max,
            "replica": limits.replica_movements_max,
        }
        yield metric_family(TunerMetric.PLAN_MOVEMENTS_MAX, {(*c, of): float(n) for of, n in movements.items()})


def partition_counts(parts: PartitionProgress, starting: int) -> dict[str, int]:
    """How many partitions of a plan are where; what begins now is moving, if it was not refused before.

    Args:
        starting: of those that are ready.
    """
    return {
        "arrived": len(parts.arrived),
        "moving": len(parts.running) + starting,
        "waiting": len(parts.ready) - starting,
        "electing": len(parts.to_elect),
        "unclear": len(parts.unconfirmed),
        "externally_owned": len(parts.externally_reassigned) + len(parts.stopped_externally),
        "dropped": len(parts.dropped),
    }


def _of(c: Labels, plan: PlanDecision) -> Labels:
    return (*c, plan.plan.id)
