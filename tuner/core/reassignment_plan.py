"""A plan of reassignments as it is on record, and as the cluster stands to it.

Intuition: what is to be is a person's word, what is so the cluster knows, and neither has to be remembered by the tuner. Only
what it has asked for and not yet seen done is its own; so a tuner that is killed anywhere goes on from the three.

Vocabulary:
    plan      a person's order: partitions with their target, and the replicas that stood before, for putting back.
    part      one partition of a plan.
    step      what AlterPartitionReassignments is asked for: a target of its own on the way (KIP-435).
    asked     a step that is on record as asked for, and not yet seen to have ended.
    goal      where a part is going now: its target, or back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tuner.core.batch_limits import BatchLimits

TopicPartition = tuple[str, int]  # Topic and partition.
STEPS_PER_REQUEST_MAX = 1000  # The controller takes 10,000 records at once, and a step makes several in the end.


class DesiredPlanState(StrEnum):
    """A person's word about a plan, the last one that holds."""

    RUNNING = "running"
    PAUSED = "paused"
    CANCELLING = "cancelling"


class PlanEnding(StrEnum):
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class OriginalTopic:
    """The topic of a part as it was when the plan was put on record."""

    id: str = ""  # What tells it from another of its name; empty: not known.
    partition_count: int = 0  # How many it had; 0: not known.


@dataclass(frozen=True, slots=True)
class PlanPartition:
    target: tuple[int, ...]
    original_replicas: tuple[int, ...]  # As the replicas stood when the plan was put on record.
    size_bytes: float = 0.0  # Of the leader's log, then.
    write_bytes_per_s: float = 0.0  # By which it grew.
    topic: OriginalTopic = OriginalTopic()


@dataclass(frozen=True, slots=True)
class PlanThrottle:
    """The throttle that a person asked for with a plan; the tuner's ceiling holds in any case."""

    rate_bytes_per_s_max: float | None = None  # Per broker and side; None: the ceiling.
    unthrottled: bool = False  # The tuner puts no throttle on what the plan moves.


@dataclass(frozen=True, slots=True)
class PlanHead:
    """What a person said last about a plan; its parts are beside it, and never change."""

    id: str
    submitted_by: str  # Who gave it, and when, for people.
    submitted_at_ms: int
    ordered_at_ms: int  # Of the newest word.
    part_records: int  # How many there must be: a plan that is half on record is none.
    desired: DesiredPlanState = DesiredPlanState.RUNNING
    limits: BatchLimits = field(default_factory=BatchLimits)
    ordered_by: str = ""  # Who said the newest word, where it is not the first.
    state_ordered_at_ms: int = (
        0  # Of the newest word that was not about its limits alone; 0: there was none but the first.
    )
    no_rollback: bool = False  # Cancelled, and nothing is put back: every part stays where it stands.
    throttle: PlanThrottle = PlanThrottle()


@dataclass(frozen=True, slots=True)
class RequestedStep:
    replicas: tuple[int, ...]
    replicas_before: tuple[int, ...]  # The replicas before it.
    moves_leader: bool = False
    needs_election: bool = False  # The preferred leader is to be elected once it has ended.
    cancel_requested: bool = False  # And it is asked to stop.


@dataclass(frozen=True, slots=True)
class PlanResult:
    """What became of a plan that has ended: its parts are off the record then."""

    partitions: int
    at_target: int
    total_bytes: float
    copied_bytes: float


@dataclass(frozen=True, slots=True)
class PlanState:
    """The tuner's own word about a plan."""

    acknowledged_at_ms: int = 0  # The newest word of a person's that it knows.
    ending: PlanEnding | None = None
    ended_at_ms: int = 0
    dropped: Mapping[TopicPartition, str] = field(
        default_factory=dict
    )  # Parts that are not to be had any more, and why.
    stopped_externally: Mapping[TopicPartition, str] = field(
        default_factory=dict
    )  # Somebody stopped these: left alone until the next word on its course.
    blockers: tuple[str, ...] = ()  # What holds it up, for people.
    concurrency: tuple[str, ...] = ()  # How many at a time each side of a broker has, and why.
    paused_since_ms: int = 0  # When the pause was said that holds now; 0: none does.
    paused_total_ms: int = 0  # In pauses that are over.
    result: PlanResult | None = None  # None: it has not ended, or an older program saw it end.


@dataclass(frozen=True, slots=True)
class Plan:
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

    def goal(self, part: PlanPartition) -> tuple[int, ...]:
        return part.original_replicas if self.head.desired is DesiredPlanState.CANCELLING else part.target


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    leader: int  # -1: none.
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        """Whether it is being reassigned, by whomever."""
        return bool(self.adding or self.removing)

    @property
    def target_replicas(self) -> frozenset[int]:
        """The replicas that the reassignment under way ends with."""
        return frozenset(self.replicas) - frozenset(self.removing)


@dataclass(frozen=True, slots=True)
class PlansStateUnknown:
    """It is not known how the plans are: a look saw nothing, or what it saw could not be put on record."""

    why: str
    since_ms: int  # Epoch; of the last look that is on record, where there was one.


@dataclass(frozen=True, slots=True)
class ReassignmentSnapshot:
    """The cluster as it stands to plans."""

    online: frozenset[int]
    partitions: Mapping[TopicPartition, CurrentAssignment]  # Of the topics asked for, all of them.
    min_in_sync: Mapping[str, int] = field(default_factory=dict)  # Topics that are not named have 1.
    log_bytes: Mapping[int, Mapping[TopicPartition, int]] = field(
        default_factory=dict
    )  # By broker, of what was to be measured.
    topic_ids: Mapping[str, str] = field(default_factory=dict)  # Of topics that are not named it is not known.
