"""How many bytes may pass in one direction of a broker, and where this number comes from."""

from __future__ import annotations

from tuner.core.value import value


@value
class LinkLimit:
    """The bytes/s that the law lets through in one direction of a broker, clients and replication together.

    Attributes:
        bytes_per_s: the limit; learned from the clients' latency, at most the capacity in the settings or a little more.
        capacity_bytes_per_s: the capacity in the settings; None: they have none.
    """

    bytes_per_s: float
    capacity_bytes_per_s: float | None = None
