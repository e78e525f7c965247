"""The names that every part of the contract uses: topics, roles, sides, and the version of it all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SCHEMA_VERSION = 1


class Side(StrEnum):
    LEADER = "leader"
    FOLLOWER = "follower"


class Role(StrEnum):
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

    @classmethod
    def with_prefix(cls, prefix: str) -> Topics:
        return cls(
            f"{prefix}.metrics", f"{prefix}.signals", f"{prefix}.journal", f"{prefix}.inputs", f"{prefix}.rejects"
        )
