"""Limits the open connections or requests of an HTTP server: in total, from the network, and per client address.

Slots above ``network_max`` are reserved for clients on this machine.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from streaming.shared.addresses import client_network, is_loopback


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """The highest numbers of connections that may be open at once."""

    total_max: int
    network_max: int
    per_address_max: int


class ConnectionSlots:
    """Counts the slots in use by client address. Thread-safe."""

    def __init__(self, limits: SlotLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def acquire(self, address: str) -> bool:
        """Takes a slot for this client; returns False if none is free."""
        client = client_network(address)
        with self._lock:
            if self._taken[client] >= self._limits.per_address_max or self._taken.total() >= self._limits.total_max:
                return False
            network_count = sum(count for other, count in self._taken.items() if not is_loopback(other))
            if not is_loopback(client) and network_count >= self._limits.network_max:
                return False
            self._taken[client] += 1
            return True

    def release(self, address: str) -> None:
        client = client_network(address)
        with self._lock:
            self._taken[client] -= 1
            if not self._taken[client]:
                del self._taken[client]
