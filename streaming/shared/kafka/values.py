"""What a cluster answers, as values, and how it can fail to answer, as errors that name the call and the cause."""

from __future__ import annotations

from dataclasses import dataclass


class ClusterError(Exception):
    """The cluster did not give the answer; the text says which call and why."""


class Unreachable(ClusterError):
    """No answer within the time allowed."""


class InvalidConfig(ClusterError):
    """Kafka finds the value wrong that the change would leave: of a part of a list, the value it would have with that part."""


class MissingPermission(ClusterError):
    """Kafka refused; ``right`` is what an administrator has to grant, e.g. ``DescribeConfigs on Cluster``."""

    def __init__(self, right: str, call: str) -> None:
        super().__init__(f"missing right: {right} (Kafka refused {call})")
        self.right = right


@dataclass(frozen=True, slots=True)
class Endpoint:
    node: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    topic: str
    partition: int
    leader: int  # -1 while there is none.
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()  # Whose broker or disk is gone; known of partitions, not of reassignments.


@dataclass(frozen=True, slots=True)
class ConfigValue:
    value: str
    source: int  # words.SOURCE_…


@dataclass(frozen=True, slots=True)
class Append:
    """Entries, separated by commas, that a list setting gets; those that it has stay once."""

    entries: str


@dataclass(frozen=True, slots=True)
class Subtract:
    """Entries that a list setting loses; of those that it does not have nothing is said. What is left may be empty text."""

    entries: str


Change = str | Append | Subtract | None  # A setting's new value, a change of the list that it is, or None: it goes.
