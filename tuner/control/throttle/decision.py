"""Defines the decisions of the throttle controller: each has an action, a reason for programs, and a sentence for operators."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import Pair, ThrottledReplicas, TopicThrottle
from tuner.core.value import value


class Reason(StrEnum):
    """Why a decision was made: a word for programs, in the journal and the metrics."""

    # The state is unknown: hold.
    CLUSTER_NOT_SEEN = "cluster_not_seen"
    SETTINGS_UNREADABLE = "settings_unreadable"
    SIGNALS_MISSING = "signals_missing"
    SIGNALS_STALE = "signals_stale"
    SIGNALS_CONTRADICT = "signals_contradict"
    # An operator ordered it.
    PAUSED = "paused"
    RELEASED = "released"
    OVERRIDDEN = "overridden"
    RESTORED = "restored"
    # An external check forbids a raise, or lowers the throttle.
    VETOED = "vetoed"
    # The throttle is not the tuner's: hold.
    EXTERNALLY_OWNED = "externally_owned"
    PRESERVED = "preserved"
    NOT_THROTTLED = "not_throttled"
    # Healthy, or too early to judge: hold.
    WATCHING = "watching"
    PROGRESSING = "progressing"
    RATE_IS_CHANGING = "rate_is_changing"
    WITHIN_DEADBAND = "within_deadband"
    AT_CEILING = "at_ceiling"
    # The control law sets the rate every second.
    FOLLOWS_CLIENTS = "follows_clients"
    NO_HEADROOM = "no_headroom"
    QUOTA_WINDOW_UNSUPPORTED = "quota_window_unsupported"
    DEADLINE_NOT_MET = "deadline_not_met"
    LOAD_NOT_MEASURED = "load_not_measured"
    ISR_RECOVERY = "isr_recovery"
    RECOVERY_THROTTLED = "recovery_throttled"
    RECOVERY_WATCHED = "recovery_watched"
    RECOVERY_STUCK = "recovery_stuck"
    RECOVERY_AT_MIN_ISR = "recovery_at_min_isr"
    # Unhealthy, but a higher rate would not help: hold.
    NO_LEADER = "no_leader"
    LIST_FULL = "list_full"
    BROKER_DOWN = "broker_down"
    INFEASIBLE = "infeasible"
    STALLED_UNTHROTTLED = "stalled_unthrottled"
    STALLED_NOT_THROTTLE_BOUND = "stalled_not_throttle_bound"
    STALLED_REMOTE_STORAGE = "stalled_remote_storage"
    STALLED_FETCHER_BOUND = "stalled_fetcher_bound"
    STALLED_SOURCE_BOUND = "stalled_source_bound"
    STALLED_DESTINATION_BOUND = "stalled_destination_bound"
    STALLED_REPLICA_DEAD = "stalled_replica_dead"
    # Change something.
    STALLED_BELOW_STEADY_STATE = "stalled_below_steady_state"
    STALLED_THROTTLE_BOUND = "stalled_throttle_bound"
    RESCUE_NEEDS_MORE = "rescue_needs_more"
    MOVE_FOUND = "move_found"
    RECOVERY_FOUND = "recovery_found"
    WINDOW_WARMUP = "window_warmup"
    PLAN_RATE = "plan_rate"
    IN_SYNC = "in_sync"
    CLEARED_BY_TOOL = "cleared_by_tool"
    STALE_DECAY = "stale_decay"
    MOVE_ENDED = "move_ended"
    EXTERNAL_CHANGE = "external_change"
    LATE_PREDECESSOR_WRITE = "late_predecessor_write"
    # A rule of tuner.schedule changes the ceiling or the objective.
    SCHEDULE_BEGAN = "schedule_began"
    SCHEDULE_ENDED = "schedule_ended"


# A move has stalled, and no throttle limits it.
NOT_THROTTLE_LIMITED = frozenset(
    {
        Reason.STALLED_UNTHROTTLED,
        Reason.STALLED_NOT_THROTTLE_BOUND,
        Reason.STALLED_REMOTE_STORAGE,
        Reason.STALLED_FETCHER_BOUND,
        Reason.STALLED_SOURCE_BOUND,
        Reason.STALLED_DESTINATION_BOUND,
        Reason.STALLED_REPLICA_DEAD,
    }
)


@value
class Hold:
    """Change nothing. Without broker and side the decision concerns the whole cluster."""

    broker: int | None
    side: Side | None
    reason: Reason
    text: str


@value
class FollowSchedule:
    """Follow a rule of the schedule that begins or ends. It concerns the whole cluster, so broker and side are None."""

    reason: Reason
    text: str
    broker: int | None = None
    side: Side | None = None


@dataclass(frozen=True, slots=True)
class SetRate:
    """Change a throttle from the current rate to the setpoint, in steps (quota_window/ramp.py)."""

    broker: int
    side: Side
    current_bytes_per_s: int
    setpoint_bytes_per_s: int
    reason: Reason
    text: str
    is_set_on_broker: bool = True  # The current rate is set on the broker itself; False: the broker inherits it.


@value
class AllowSteering:
    """Let the control law set this throttle every second until the next cycle, between its minimum and the ceiling."""

    broker: int
    side: Side
    current_bytes_per_s: int
    reason: Reason
    text: str
    is_set_on_broker: bool = True  # As in SetRate.


@dataclass(frozen=True, slots=True)
class RestoreRate:
    """Restore at once the rate from before the tuner's change. If ``value_bytes_per_s`` is None, remove the setting."""

    broker: int
    side: Side
    current_bytes_per_s: int
    value_bytes_per_s: int | None
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class ClearLists:
    """Remove a topic's throttled-replica lists after its move has ended."""

    topic: str
    sides: tuple[Side, ...]
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class StartRate:
    """Set at once a throttle on a side without one. The tuner writes the throttled-replica lists after the rate."""

    broker: int
    side: Side
    value_bytes_per_s: int
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class _PairsOfTopic:
    """The fields that ``AddPairs`` and ``RemovePairs`` share: (partition, broker) pairs of one topic, by list."""

    topic: str
    leader: tuple[Pair, ...]
    follower: tuple[Pair, ...]
    reason: Reason
    text: str

    @property
    def pairs(self) -> TopicThrottle:
        return TopicThrottle(
            ThrottledReplicas(pairs=frozenset(self.leader)), ThrottledReplicas(pairs=frozenset(self.follower))
        )


@dataclass(frozen=True, slots=True)
class AddPairs(_PairsOfTopic):
    """Add replicas of a topic to its throttled-replica lists, so that they count against the throttles."""


@dataclass(frozen=True, slots=True)
class RemovePairs(_PairsOfTopic):
    """Remove replicas that the tuner had added to a topic's throttled-replica lists."""


@dataclass(frozen=True, slots=True)
class Relinquish:
    """Leave a throttle that an operator or another tool changed alone, until ``until_ms``."""

    broker: int
    side: Side
    managed_bytes_per_s: int
    current_bytes_per_s: int | None
    until_ms: int
    reason: Reason
    text: str


Decision = (
    Hold
    | FollowSchedule
    | SetRate
    | AllowSteering
    | StartRate
    | AddPairs
    | RemovePairs
    | RestoreRate
    | ClearLists
    | Relinquish
)
# Decisions that write nothing to Kafka.
WITHOUT_WRITE = (Hold, FollowSchedule, AllowSteering, Relinquish)
# A decision that was carried out, and the error as text; None: it succeeded.
ExecutedDecision = tuple[Decision, str | None]


def action_of(decision: Decision) -> str:
    """Returns the action's name in metrics and in the journal."""
    match decision:
        case Hold():
            return "hold"
        case FollowSchedule():
            return "follow_schedule"
        case SetRate():
            return "set"
        case AllowSteering():
            return "allow_steering"
        case StartRate():
            return "start"
        case AddPairs():
            return "add_pairs"
        case RemovePairs():
            return "remove_pairs"
        case RestoreRate():
            return "restore"
        case ClearLists():
            return "clear_lists"
        case Relinquish():
            return "relinquish"
