"""The rate limit of one direction of a broker, and its source."""

from __future__ import annotations

from enum import StrEnum

from streaming.shared.units import rate_text
from tuner.core.value import value


class LinkSource(StrEnum):
    """What determines a limit."""

    SETTINGS = "settings"  # tuner.capacity is the start and the bound of the search.
    LINK = "link"  # The speed of the link, from the metrics of the broker's machine, bounds what was learned.
    LEARNED = "learned"  # The latency of the clients.


@value
class LinkLimit:
    """The rate (bytes/s) to which the law limits one direction of a broker, clients and replication together.

    Attributes:
        bytes_per_s: the limit, learned from the clients' latency. It is at most slightly above the capacity in the settings.
        capacity_bytes_per_s: the capacity in the settings; None: they have none.
        link_speed_bytes_per_s: the speed of the link, if it bounds the limit; None: it does not, or it is not known.
    """

    bytes_per_s: float
    capacity_bytes_per_s: float | None = None
    link_speed_bytes_per_s: float | None = None

    @property
    def source(self) -> LinkSource:
        if self.capacity_bytes_per_s is not None:
            return LinkSource.SETTINGS
        return LinkSource.LEARNED if self.link_speed_bytes_per_s is None else LinkSource.LINK

    @property
    def text(self) -> str:
        """Returns the limit by the link speed, as a part of a sentence; empty if it limits nothing."""
        if self.source is not LinkSource.LINK or self.link_speed_bytes_per_s is None:
            return ""
        return f"the broker's link carries {rate_text(self.link_speed_bytes_per_s)}, according to the metrics of its machine"
