"""Whom a client quota is for, as Kafka keeps it: a user, a client-id, both, or all those that have none of their own.

Of those that fit a client the first one counts that exists: user and client-id, user and any client-id, user; any user and
client-id, any user and any client-id, any user; client-id, any client-id.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Default(Enum):
    """Kafka's ``<default>``: every name that has no entity of its own. A type of its own, as a user may be called anything."""

    DEFAULT = "<default>"


EntityName = str | Default


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """
    Raises:
        ValueError: neither is named; Kafka has no such entity.
    """

    user: EntityName | None = None
    client_id: EntityName | None = None

    def __post_init__(self) -> None:
        if self.user is None and self.client_id is None:
            raise ValueError("a quota is for a user, a client-id or both: name one of them")

    def __str__(self) -> str:
        """As kafka-configs prints it: ``user 'alice', client-id <default>``."""
        named = (("user", self.user), ("client-id", self.client_id))
        return ", ".join(f"{kind} {_shown(name)}" for kind, name in named if name is not None)


def _shown(name: EntityName) -> str:
    return name.value if isinstance(name, Default) else repr(name)
