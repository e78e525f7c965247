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
    """The names of rheostat's own topics in the cluster it watches."""

    metrics: str
    signals: str
    journal: str
    inputs: str
    rejects: str
    orders: str
    history: str
    profiles: str

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
