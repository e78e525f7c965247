"""The last known state of reassignment plans, for the API and the metrics. The loop writes it, the server reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import Labels, metric_family
from streaming.shared.move_order import order_text
from tuner.control.reassignment.measurements import PartitionMeasurements
from tuner.control.reassignment.partition_progress import PartitionProgress
from tuner.control.reassignment.policy import PlanDecision
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import DesiredPlanState, PlanPartition

# Each plan has a series per state, so only this many plans are named.
PLANS_NAMED_MAX = 20
# Twice the longest time that the executor takes to check a large plan once.
SNAPSHOT_AGE_S_MAX = 120.0
OVERDUE_REASON = (
    "the tuner has not ended a check of the plans since then, although a check was due: see the tuner's log"
)


class PlanSnapshot(NamedTuple):
    """The result of one check of all plans. ``limits`` is None if no check has ended, or if another tuner executes the plans."""

    plans: tuple[PlanDecision, ...] = ()  # Active plans, the oldest first.
    limits: BatchLimits | None = None  # The strictest limits over all plans.
    measurements: PartitionMeasurements = PartitionMeasurements()
    at_ms: int = 0
    number: int = 0  # Changes with each update.
    # Why the state is unknown; None if the state is known. While it is unknown, the other fields hold the last known state.
    unknown_reason: str | None = None
    unknown_since_ms: int | None = None  # Epoch; None if the state is known, or has never been known.
    order: str = ""  # A sentence on the order in which partitions move.
    total_bytes: Mapping[str, float] = {}  # By plan: bytes to copy, by the partition sizes at submission.


class PlanStatusStore:
    """Holds the newest plan snapshot. Thread-safe."""

    def __init__(
        self, cluster: str, monotonic: Callable[[], float] = time.monotonic, *, first_topics: Sequence[str] = ()
    ) -> None:
        """
        Args:
            first_topics: topics whose partitions move first.
        """
        self.cluster = cluster
        self._order = order_text(first_topics)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._snapshot = PlanSnapshot()
        self._expects_update = False  # True while there are plans: the executor then checks them regularly.
        self._updated_at_s = float("-inf")

    def expect_snapshot(self) -> None:
        """Records that there are plans and that a check of them starts, so that a missing result can be reported."""
        with self._lock:
            if not self._expects_update:
                self._expects_update, self._updated_at_s = True, self._monotonic()

    def record_step(
        self,
        plans: tuple[PlanDecision, ...],
        limits: BatchLimits,
        measurements: PartitionMeasurements | None = None,
        at_ms: int = 0,
    ) -> None:
        """Stores the result of one check, which is one step of the executor.

        Args:
            plans: active plans, the oldest first.
            limits: the strictest limits over all plans.
            at_ms: time of the check; epoch.
        """
        # Read without the lock, as other threads only replace the snapshot as a whole.
        known_bytes = self._snapshot.total_bytes
        total_bytes: dict[str, float] = {}
        for plan in (decision.plan for decision in plans):
            known = known_bytes.get(plan.id)
            # The partitions of a plan never change, and there may be hundreds of thousands, so the sum is computed once.
            total_bytes[plan.id] = sum(map(bytes_to_copy, plan.partitions.values())) if known is None else known
        with self._lock:
            number = self._snapshot.number + 1
            self._snapshot = PlanSnapshot(
                plans,
                limits,
                measurements or PartitionMeasurements(),
                at_ms,
                number,
                order=self._order,
                total_bytes=total_bytes,
            )
            self._expects_update = True
            self._updated_at_s = self._monotonic()

    def record_unknown(self, why: str, unknown_since_ms: int | None = None) -> None:
        """Records that the state of the plans is unknown. The last known state stays, but it may be out of date.

        Args:
            unknown_since_ms: epoch; None if since the last successful check, if there was one.
        """
        with self._lock:
            if self._snapshot.unknown_reason != why:
                self._set_unknown(why, unknown_since_ms)

    def clear(self) -> None:
        """Drops the snapshot, because this tuner has become a standby, or no plan is left."""
        with self._lock:
            self._expects_update = False
            if self._snapshot.limits is not None or self._snapshot.unknown_reason is not None:
                self._snapshot = PlanSnapshot(number=self._snapshot.number + 1)

    def snapshot(self) -> PlanSnapshot:
        with self._lock:
            # An executor that hangs reports no failure. Therefore this method detects an update that is overdue.
            if (
                self._expects_update
                and self._snapshot.unknown_reason is None
                and self._monotonic() - self._updated_at_s > SNAPSHOT_AGE_S_MAX
            ):
                self._set_unknown(OVERDUE_REASON, None)
            return self._snapshot

    def _set_unknown(self, why: str, since_ms: int | None) -> None:
        snapshot = self._snapshot
        if since_ms is None:
            since_ms = snapshot.unknown_since_ms or (snapshot.at_ms if snapshot.limits is not None else None)
        self._snapshot = snapshot._replace(number=snapshot.number + 1, unknown_reason=why, unknown_since_ms=since_ms)


def bytes_to_copy(partition: PlanPartition) -> float:
    """Returns the bytes to copy to bring the partition to its target replicas."""
    return partition.size_bytes * sum(broker not in partition.original_replicas for broker in partition.target)


class PlanCollector(Collector):
    """Collects the metrics of reassignment plans."""

    def __init__(self, store: PlanStatusStore) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        snapshot, labels = self._store.snapshot(), (self._store.cluster,)
        plans, limits = snapshot.plans, snapshot.limits
        yield metric_family(TunerMetric.PLANS_STATE_UNKNOWN, {labels: float(snapshot.unknown_reason is not None)})
        # An old state must not look like a progressing plan.
        if limits is None or snapshot.unknown_reason is not None:
            return
        named = plans[:PLANS_NAMED_MAX]
        yield metric_family(
            TunerMetric.PLAN_PARTITIONS,
            {
                (*labels, p.plan.id, state): float(n)
                for p in named
                for state, n in _metric_counts(p, snapshot.at_ms).items()
            },
        )
        desired_by_plan = {_plan_labels(labels, p): p.plan.head.desired for p in named}
        yield metric_family(
            TunerMetric.PLAN_PAUSED,
            {plan: float(desired is DesiredPlanState.PAUSED) for plan, desired in desired_by_plan.items()},
        )
        yield metric_family(
            TunerMetric.PLAN_CORDONED_TARGETS, {_plan_labels(labels, p): float(len(p.cordoned_targets)) for p in named}
        )
        yield metric_family(
            TunerMetric.PLAN_CANCELLING,
            {plan: float(desired is DesiredPlanState.CANCELLING) for plan, desired in desired_by_plan.items()},
        )
        movements = {
            "leader": limits.leader_movements_max,
            "partition": limits.partition_movements_max,
            "replica": limits.replica_movements_max,
        }
        yield metric_family(
            TunerMetric.PLAN_MOVEMENTS_MAX, {(*labels, scope): float(n) for scope, n in movements.items()}
        )


def _metric_counts(decision: PlanDecision, now_ms: int) -> dict[str, int]:
    """Returns the counts of ``partition_counts``. Before the plan starts, its waiting partitions are counted as ``scheduled``."""
    counts = partition_counts(decision.progress, len(decision.likely_starts))
    if decision.plan.head.waits_for_start(now_ms):
        counts["scheduled"] = counts["waiting"] + counts["externally_owned"]
        counts["waiting"] = counts["externally_owned"] = 0
    return counts


def partition_counts(progress: PartitionProgress, starting: int) -> dict[str, int]:
    """Returns the number of partitions of a plan by state.

    Args:
        starting: number of ready partitions whose step starts at once unless a check fails; they count as moving.
    """
    return {
        "arrived": len(progress.arrived),
        "moving": len(progress.running) + starting,
        "waiting": len(progress.ready) - starting,
        "electing": len(progress.to_elect),
        "unconfirmed": len(progress.unconfirmed),
        "externally_owned": len(progress.externally_reassigned) + len(progress.stopped_externally),
        "dropped": len(progress.dropped),
    }


def _plan_labels(labels: Labels, decision: PlanDecision) -> Labels:
    return (*labels, decision.plan.id)
