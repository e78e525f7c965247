"""Limits how many connections or requests of an HTTP server are open at once: in all, from the network, and of one address.

Clients on this machine have places that those on the network cannot take.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from streaming.shared.addresses import counted_address, is_loopback


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """How many may be open at once."""

    total_max: int
    network_max: int
    per_address_max: int


class ConnectionSlots:
    """The places that are taken, by the address of the client. May be used by several threads."""

    def __init__(self, limits: SlotLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def acquire(self, address: str) -> bool:
        """Takes a place for this client; False: there is none."""
        counted = counted_address(address)
        with self._lock:
            if self._taken[counted] >= self._limits.per_address_max or self._taken.total() >= self._limits.total_max:
                return False
            from_network = sum(count for each, count in self._taken.items() if not is_loopback(each))
            if not is_loopback(counted) and from_network >= self._limits.network_max:
                return False
            self._taken[counted] += 1
            return True

    def release(self, address: str) -> None:
        counted = counted_address(address)
        with self._lock:
            self._taken[counted] -= 1
            if not self._taken[counted]:
                del self._taken[counted]
