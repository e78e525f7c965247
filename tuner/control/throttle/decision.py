"""Decisions as values: what to do, to which throttle, and why, in a word for machines and a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import Pair, ThrottledReplicas, TopicThrottle
from tuner.core.value import value


class Reason(StrEnum):
    # Not knowing: hold.
    CLUSTER_NOT_SEEN = "cluster_not_seen"
    SETTINGS_UNREADABLE = "settings_unreadable"
    SIGNALS_MISSING = "signals_missing"
    SIGNALS_STALE = "signals_stale"
    SIGNALS_CONTRADICT = "signals_contradict"
    # A person said so.
    PAUSED = "paused"
    RELEASED = "released"
    OVERRIDDEN = "overridden"
    RESTORED = "restored"
    # Nothing of ours: hold.
    EXTERNALLY_OWNED = "externally_owned"
    PRESERVED = "preserved"
    NOT_THROTTLED = "not_throttled"
    # Well, or too early to say: hold.
    WATCHING = "watching"
    PROGRESSING = "progressing"
    RATE_IS_CHANGING = "rate_is_changing"
    WITHIN_DEADBAND = "within_deadband"
    AT_CEILING = "at_ceiling"
    # Steered by the law, every second.
    FOLLOWS_CLIENTS = "follows_clients"
    NO_HEADROOM = "no_headroom"
    DEADLINE_NOT_MET = "deadline_not_met"
    LOAD_NOT_MEASURED = "load_not_measured"
    ISR_RECOVERY = "isr_recovery"
    # Not well, and not ours to cure by raising: hold and say so.
    NO_LEADER = "no_leader"
    LIST_FULL = "list_full"
    BROKER_DOWN = "broker_down"
    INFEASIBLE = "infeasible"
    STALLED_UNTHROTTLED = "stalled_unthrottled"
    STALLED_NOT_THROTTLE_BOUND = "stalled_not_throttle_bound"
    STALLED_FETCHER_BOUND = "stalled_fetcher_bound"
    STALLED_SOURCE_BOUND = "stalled_source_bound"
    STALLED_DESTINATION_BOUND = "stalled_destination_bound"
    STALLED_REPLICA_DEAD = "stalled_replica_dead"
    # Act.
    STALLED_BELOW_STEADY_STATE = "stalled_below_steady_state"
    STALLED_THROTTLE_BOUND = "stalled_throttle_bound"
    RESCUE_NEEDS_MORE = "rescue_needs_more"
    MOVE_FOUND = "move_found"
    WINDOW_WARMUP = "window_warmup"
    PLAN_RATE = "plan_rate"
    IN_SYNC = "in_sync"
    CLEARED_BY_TOOL = "cleared_by_tool"
    STALE_DECAY = "stale_decay"
    MOVE_ENDED = "move_ended"
    EXTERNAL_CHANGE = "external_change"
    LATE_PREDECESSOR_WRITE = "late_predecessor_write"


# A move has stalled, and it is not a throttle that holds it.
NOT_THROTTLE_LIMITED = frozenset(
    {
        Reason.STALLED_UNTHROTTLED,
        Reason.STALLED_NOT_THROTTLE_BOUND,
        Reason.STALLED_FETCHER_BOUND,
        Reason.STALLED_SOURCE_BOUND,
        Reason.STALLED_DESTINATION_BOUND,
        Reason.STALLED_REPLICA_DEAD,
    }
)


@value
class Hold:
    broker: int | None  # None: the cluster as a whole.
    side: Side | None
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class SetRate:
    """Take the throttle from ``live`` to ``wanted``, through the slew."""

    broker: int
    side: Side
    current_bytes_per_s: int
    setpoint_bytes_per_s: int
    reason: Reason
    text: str
    is_own: bool = True  # Whether ``live`` is set on the broker itself; else it is inherited, and nothing stands there.


@value
class AllowSteering:
    """Until the next cycle the law may turn this throttle, every second, between the floor and the operator's ceiling."""

    broker: int
    side: Side
    current_bytes_per_s: int
    reason: Reason
    text: str
    is_own: bool = True  # As for SetRate.


@dataclass(frozen=True, slots=True)
class RestoreRate:
    """The reason ended: the throttle becomes what it was, at once; None removes it."""

    broker: int
    side: Side
    current_bytes_per_s: int
    value_bytes_per_s: int | None
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class ClearLists:
    """The move ended: its topic's throttled-replica lists go, as they name nobody who moves."""

    topic: str
    sides: tuple[Side, ...]
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class StartRate:
    """Put a throttle where none is in force, at once: the list that needs it comes after it."""

    broker: int
    side: Side
    value_bytes_per_s: int
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class _PairsOfTopic:
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
    """Replicas of one topic that are to count against the throttles from now on, by side."""


@dataclass(frozen=True, slots=True)
class RemovePairs(_PairsOfTopic):
    """Replicas of one topic that we had listed and that are to count no more, by side."""


@dataclass(frozen=True, slots=True)
class Relinquish:
    """Somebody else changed what we had set: theirs from now on."""

    broker: int
    side: Side
    managed_bytes_per_s: int
    current_bytes_per_s: int | None
    until_ms: int
    reason: Reason
    text: str


Decision = Hold | SetRate | AllowSteering | StartRate | AddPairs | RemovePairs | RestoreRate | ClearLists | Relinquish
Acted = tuple[Decision, str | None]  # What was carried out, and why it failed; None: it went well.


def action_of(decision: Decision) -> str:
    """One word, for metrics and the journal."""
    match decision:
        case Hold():
            return "hold"
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
