"""Limits how many connections or requests of an HTTP server are open at once: in all, from the network, and of one address.

Clients on this machine have places that those on the network cannot take.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from streaming.shared.addresses import counted_address, is_loopback


@dataclass(frozen=True, slots=True)
class PlaceLimits:
    """How many may be open at once."""

    in_all: int
    from_network: int
    per_address: int


class Places:
    """The places that are taken, by the address of the client. May be used by several threads."""

    def __init__(self, limits: PlaceLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, address: str) -> bool:
        """Takes a place for this client; False: there is none."""
        counted = counted_address(address)
        with self._lock:
            if self._taken[counted] >= self._limits.per_address or self._taken.total() >= self._limits.in_all:
                return False
            from_network = sum(count for each, count in self._taken.items() if not is_loopback(each))
            if not is_loopback(counted) and from_network >= self._limits.from_network:
                return False
            self._taken[counted] += 1
            return True

    def give_back(self, address: str) -> None:
        counted = counted_address(address)
        with self._lock:
            self._taken[counted] -= 1
            if not self._taken[counted]:
                del self._taken[counted]
