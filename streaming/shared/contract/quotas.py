"""The entity to which a Kafka client quota applies: a user, a client-id, both, or a default.

A default applies to names that have no quota of their own.

When several quota entities match a client, Kafka applies the first that exists in this order: user and client-id, user and any
client-id, user; any user and client-id, any user and any client-id, any user; client-id, any client-id.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Default(Enum):
    """Kafka's ``<default>``: every name without its own entity. It is a type, not a string, because a user can have any name."""

    DEFAULT = "<default>"


EntityName = str | Default


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """A user, a client-id, or a pair of both.

    Raises:
        ValueError: user and client_id are both None; Kafka has no such entity.
    """

    user: EntityName | None = None
    client_id: EntityName | None = None

    def __post_init__(self) -> None:
        if self.user is None and self.client_id is None:
            raise ValueError("a quota applies to a user, a client-id or both: name at least one")

    def __str__(self) -> str:
        """Returns the entity as kafka-configs prints it: ``user 'alice', client-id <default>``."""
        parts = (("user", self.user), ("client-id", self.client_id))
        return ", ".join(f"{kind} {_name_text(name)}" for kind, name in parts if name is not None)


def _name_text(name: EntityName) -> str:
    return name.value if isinstance(name, Default) else repr(name)
