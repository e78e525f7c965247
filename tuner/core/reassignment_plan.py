"""Defines the records of a reassignment plan, and the cluster's current assignment to compare with the plan.

Three inputs determine what the executor does next: the operator's orders, the cluster's state, and the steps that the tuner has
requested but has not seen end. All three are stored outside the tuner, so a new tuner continues after the old one was killed.

Vocabulary:
    plan        an operator's order: partitions with their target and their original replicas, for a rollback.
    step        one request to AlterPartitionReassignments: an intermediate target (KIP-435).
    requested   a step that is recorded as requested and has not been seen to end.
    goal        the replicas that a partition should have at the end: its target, or its original replicas during a rollback.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from streaming.shared.contract import TopicPartition as TopicPartition  # Exported to the modules that handle plans.
from tuner.core.batch_limits import BatchLimits

STEPS_PER_REQUEST_MAX = 1000  # The controller accepts 10,000 records at once, and a step produces several.


class DesiredPlanState(StrEnum):
    """The state that the operator ordered last."""

    RUNNING = "running"
    PAUSED = "paused"
    CANCELLING = "cancelling"


class PlanEnding(StrEnum):
    """How a plan has ended."""

    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class OriginalTopic:
    """A topic as it was when the plan was submitted. Its id distinguishes it from a later topic of the same name."""

    id: str = ""  # Empty: unknown.
    partition_count: int = 0  # 0: unknown.


@dataclass(frozen=True, slots=True)
class PlanPartition:
    """One partition of a plan. All values but the target are from the time when the plan was submitted."""

    target: tuple[int, ...]
    original_replicas: tuple[int, ...]
    size_bytes: float = 0.0  # Size of the leader's log.
    write_bytes_per_s: float = 0.0  # Growth of that log.
    topic: OriginalTopic = OriginalTopic()


@dataclass(frozen=True, slots=True)
class PlanThrottle:
    """The throttle that the operator gave a plan. The tuner's ceiling applies in any case."""

    rate_bytes_per_s_max: float | None = None  # Per broker and side; None: the ceiling.
    unthrottled: bool = False  # The tuner sets no throttle for the moves of this plan.


@dataclass(frozen=True, slots=True)
class PlanHead:
    """The operator's orders about a plan. Its partitions are recorded separately and never change.

    Attributes:
        submitted_by: the operator and the time of the submission, as text.
        ordered_at_ms: time of the newest order.
        part_records: number of the plan's partition records. If fewer are in the journal, the tuner ignores the plan.
        ordered_by: the operator of the newest order; empty if there was no order after the submission.
        state_ordered_at_ms: time of the newest order that changed more than limits; 0: there was none after the submission.
        no_rollback: after a cancellation every partition keeps its current replicas.
        not_before_ms: no step starts before this time (epoch); 0: the plan starts at once. A rollback does not wait.
        cordon: brokers that are cordoned before the first step (KIP-1066).
        expected_s: the duration that was estimated at the submission; None: not known.
    """

    id: str
    submitted_by: str
    submitted_at_ms: int
    ordered_at_ms: int
    part_records: int
    desired: DesiredPlanState = DesiredPlanState.RUNNING
    limits: BatchLimits = field(default_factory=BatchLimits)
    ordered_by: str = ""
    state_ordered_at_ms: int = 0
    no_rollback: bool = False
    throttle: PlanThrottle = PlanThrottle()
    not_before_ms: int = 0
    cordon: tuple[int, ...] = ()
    expected_s: float | None = None

    @property
    def started_at_ms(self) -> int:
        """When the plan starts, or has started."""
        return max(self.submitted_at_ms, self.not_before_ms)

    def may_start_steps(self, now_ms: int) -> bool:
        """Whether the operator's orders allow new steps now."""
        return self.desired is not DesiredPlanState.PAUSED and not self.waits_for_start(now_ms)

    def waits_for_start(self, now_ms: int) -> bool:
        """Whether the plan still waits for the time at which it starts."""
        return self.desired is not DesiredPlanState.CANCELLING and now_ms < self.not_before_ms


@dataclass(frozen=True, slots=True)
class RequestedStep:
    """A step that the tuner has requested and not seen end."""

    replicas: tuple[int, ...]
    replicas_before: tuple[int, ...]
    moves_leader: bool = False
    needs_election: bool = False  # The executor elects the preferred leader after the step.
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Totals of an ended plan, whose partition records are deleted."""

    partitions: int
    at_target: int
    total_bytes: float
    copied_bytes: float


@dataclass(frozen=True, slots=True)
class PlanState:
    """The tuner's own record about a plan.

    Attributes:
        acknowledged_at_ms: time of the newest order that the tuner has seen.
        dropped: partitions that the tuner has given up, with the reason.
        stopped_externally: partitions whose move another client stopped, with the reason. The tuner leaves them alone until the
            next order that changes more than limits.
        blockers: sentences about the causes that delay the plan.
        concurrency: sentences about the number of concurrent steps per broker side, and its reason.
        paused_since_ms: start of the current pause; 0: not paused.
        paused_total_ms: duration of all earlier pauses, without the time before the planned start.
        result: None: the plan has not ended, or ended under an older version.
    """

    acknowledged_at_ms: int = 0
    ending: PlanEnding | None = None
    ended_at_ms: int = 0
    dropped: Mapping[TopicPartition, str] = field(default_factory=dict)
    stopped_externally: Mapping[TopicPartition, str] = field(default_factory=dict)
    blockers: tuple[str, ...] = ()
    concurrency: tuple[str, ...] = ()
    paused_since_ms: int = 0
    paused_total_ms: int = 0
    result: PlanResult | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan: the operator's orders, its partitions, and the tuner's record."""

    head: PlanHead
    partitions: Mapping[TopicPartition, PlanPartition]
    requested: Mapping[TopicPartition, RequestedStep] = field(default_factory=dict)
    state: PlanState = field(default_factory=PlanState)

    @property
    def id(self) -> str:
        return self.head.id

    @property
    def is_active(self) -> bool:
        return self.state.ending is None

    def goal(self, partition: PlanPartition) -> tuple[int, ...]:
        """Returns the replicas that the partition should have at the end of the plan or of its rollback."""
        return partition.original_replicas if self.head.desired is DesiredPlanState.CANCELLING else partition.target


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """The replicas of one partition in the cluster now."""

    leader: int  # -1: none.
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        """Whether a reassignment is in progress, started by any client."""
        return bool(self.adding or self.removing)

    @property
    def target_replicas(self) -> frozenset[int]:
        """The replicas at the end of the reassignment in progress."""
        return frozenset(self.replicas) - frozenset(self.removing)


@dataclass(frozen=True, slots=True)
class PlansStateUnknown:
    """The state of the plans is unknown: a snapshot failed, or could not be recorded."""

    why: str
    since_ms: int  # Time of the last recorded snapshot, if there is one (epoch).


@dataclass(frozen=True, slots=True)
class ReassignmentSnapshot:
    """The current assignments in the cluster.

    Attributes:
        partitions: all partitions of the requested topics.
        min_in_sync: min.insync.replicas by topic; 1 if absent.
        log_bytes: measured log sizes, by broker.
        topic_ids: by topic; unknown if absent.
    """

    online: frozenset[int]
    partitions: Mapping[TopicPartition, CurrentAssignment]
    min_in_sync: Mapping[str, int] = field(default_factory=dict)
    log_bytes: Mapping[int, Mapping[TopicPartition, int]] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
