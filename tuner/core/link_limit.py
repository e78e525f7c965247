"""The rate limit of one direction of a broker, and its source."""

from __future__ import annotations

from tuner.core.value import value


@value
class LinkLimit:
    """The rate (bytes/s) to which the law limits one direction of a broker, clients and replication together.

    Attributes:
        bytes_per_s: the limit, learned from the clients' latency. It is at most slightly above the capacity in the settings.
        capacity_bytes_per_s: the capacity in the settings; None: they have none.
    """

    bytes_per_s: float
    capacity_bytes_per_s: float | None = None
