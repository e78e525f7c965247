"""Values that cluster calls return, and the errors they raise. An error names the call and the cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class ClusterError(Exception):
    """A call to the cluster failed; the message names the call and the reason."""


class Unreachable(ClusterError):
    """The cluster did not answer in time."""


class InvalidConfig(ClusterError):
    """Kafka rejects the value that the setting would have after the change; for a list setting, the whole resulting list."""


class MissingPermission(ClusterError):
    """Kafka refused the call; ``right`` is what an administrator must grant, e.g. ``DescribeConfigs on Cluster``."""

    def __init__(self, right: str, call: str) -> None:
        super().__init__(f"missing right: {right} (Kafka refused {call})")
        self.right = right


@dataclass(frozen=True, slots=True)
class Endpoint:
    node: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a consumer group.

    Attributes:
        address: the address from which the group's coordinator sees the member.
        topics: the topics to which it has subscribed; empty during a rebalance.
        assigned_topics: the topics of which a partition is assigned to it; empty during a rebalance.
    """

    client_id: str
    address: str
    topics: frozenset[str]
    assigned_topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class PartitionState:
    topic: str
    partition: int
    leader: int  # -1 without a leader.
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    # Replicas on a dead broker or failed disk. ``ClusterClient.partitions`` sets them, ``reassignments`` does not.
    offline: tuple[int, ...] = ()
    recovering: tuple[int, ...] = ()  # Replicas that left the ISR and catch up; set by ``RecoveryFinder`` only.


class TopicCreation(NamedTuple):
    """A topic to create."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfigValue:
    value: str
    source: int  # kafka_names.SOURCE_…


@dataclass(frozen=True, slots=True)
class Append:
    """Adds comma-separated entries to a list setting; an entry that it already has is not repeated."""

    entries: str


@dataclass(frozen=True, slots=True)
class Subtract:
    """Removes comma-separated entries from a list setting; missing entries are ignored. The result may be empty."""

    entries: str


Change = str | Append | Subtract | None  # New value, change of a list, or None: delete the setting.
