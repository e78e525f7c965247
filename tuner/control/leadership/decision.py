"""Defines the decisions about elections of preferred leaders: each has an action, a reason for programs, and a sentence."""

from __future__ import annotations

from enum import StrEnum

from streaming.shared.contract import TopicPartition
from tuner.core.value import value


class LeadershipReason(StrEnum):
    """Why a decision was made."""

    PARTITIONS_UNREADABLE = "partitions_unreadable"
    KAFKA_ELECTS = "kafka_elects"
    LEADERS_IN_PLACE = "leaders_in_place"
    PAUSED = "paused"
    CATCHES_UP = "catches_up"
    JUST_CAUGHT_UP = "just_caught_up"
    SETTLING = "settling"
    LOAD_NOT_MEASURED = "load_not_measured"
    CLIENTS_WAIT = "clients_wait"
    HANDLERS_BUSY = "handlers_busy"
    VETOED = "vetoed"
    WATCHED = "watched"
    CAUGHT_UP = "caught_up"


@value
class HoldElection:
    """Elect no leader now.

    Attributes:
        broker: the broker that waits for its leaders; None: the reason concerns no single broker.
    """

    broker: int | None
    reason: LeadershipReason
    text: str


@value
class ElectLeaders:
    """Make the preferred replica of each partition its leader.

    Attributes:
        broker: the broker with the preferred replicas.
    """

    broker: int
    partitions: tuple[TopicPartition, ...]
    reason: LeadershipReason
    text: str


LeadershipDecision = HoldElection | ElectLeaders


def election_action(decision: LeadershipDecision) -> str:
    """Returns the action's name in metrics and in the journal."""
    return "elect_leaders" if isinstance(decision, ElectLeaders) else "hold_election"
