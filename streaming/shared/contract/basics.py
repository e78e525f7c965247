"""Names that all parts of the contract use: topics, node roles, throttle sides and record versions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SCRAPE_VERSION = 1  # Version of the collector's records and of rejects.
SIGNAL_VERSION = 2

TopicPartition = tuple[str, int]


class Side(StrEnum):
    LEADER = "leader"
    FOLLOWER = "follower"


class NodeRole(StrEnum):
    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of rheostat's own topics. Usually the watched cluster has all of them."""

    metrics: str
    signals: str
    journal: str
    inputs: str
    rejects: str
    orders: str
    history: str
    profiles: str

    @property
    def of_measurements(self) -> tuple[str, ...]:
        """The topics that may be in another cluster than the watched one, which is then called the metrics cluster."""
        return self.metrics, self.signals, self.rejects, self.history, self.profiles

    @property
    def of_tuner(self) -> tuple[str, ...]:
        """The topics that are always in the watched cluster."""
        return self.journal, self.orders, self.inputs

    @classmethod
    def with_prefix(cls, prefix: str) -> Topics:
        return cls(
            metrics=f"{prefix}.metrics",
            signals=f"{prefix}.signals",
            journal=f"{prefix}.journal",
            inputs=f"{prefix}.inputs",
            rejects=f"{prefix}.rejects",
            orders=f"{prefix}.orders",
            history=f"{prefix}.history",
            profiles=f"{prefix}.profiles",
        )
