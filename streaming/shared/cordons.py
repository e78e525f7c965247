"""The cordoned log directories of a broker (KIP-1066), and the version of Kafka that they need. Does no I/O.

Kafka puts no new replica on a cordoned log directory, and keeps the replicas that it has. If all log directories of a broker are
cordoned, the broker is cordoned. The setting ``cordoned.log.dirs`` names the directories; ``*`` names all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from streaming.shared.kafka_names import ALL_LOG_DIRS


class CordonSource(StrEnum):
    """Where the setting of a broker comes from."""

    BROKER = "broker"  # Set on the broker at runtime.
    CLUSTER_DEFAULT = "cluster_default"  # Set at runtime for all brokers.
    FILE = "file"  # In the broker's properties file.


@dataclass(frozen=True, slots=True)
class BrokerCordon:
    """The log directories of a broker, and the setting that cordons some of them.

    Attributes:
        directories: all log directories, as the broker's own settings name them; empty if not known.
        entries: the value of ``cordoned.log.dirs``, in order; empty if nothing is cordoned.
        source: where the value comes from; None means Kafka's default.
    """

    directories: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    source: CordonSource | None = None

    @property
    def cordoned(self) -> tuple[str, ...]:
        """The cordoned log directories."""
        if ALL_LOG_DIRS in self.entries:
            return self.directories or (ALL_LOG_DIRS,)
        return self.entries

    @property
    def is_broker_cordoned(self) -> bool:
        """Whether the broker has no log directory that takes new replicas."""
        return ALL_LOG_DIRS in self.entries or (bool(self.directories) and {*self.directories} <= {*self.entries})


def cordoned_brokers(cordons: Mapping[int, BrokerCordon]) -> frozenset[int]:
    """Returns the brokers that take no new replicas."""
    return frozenset(broker for broker, cordon in cordons.items() if cordon.is_broker_cordoned)


def split_entries(value: str) -> tuple[str, ...]:
    """Returns the entries of a list setting."""
    return tuple(entry.strip() for entry in value.split(",") if entry.strip())
