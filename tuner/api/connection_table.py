"""The open connections of the HTTP server: their time limits, and which connection is closed if the table is full.

Each phase of a connection has a fixed time limit. If a new connection finds the table full, it replaces a connection that waits for
its client, so that slow or silent clients cannot lock out health checks.

Invariants:
- Arriving data never extends the deadline of a phase.
- A connection is never replaced while its request is processed and its client reads the response. requests_at_once.py limits
  the number of such connections to less than the table size, so that a new connection always finds a slot.
- A connection from the network never replaces one from this machine.
"""

from __future__ import annotations

import math
import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from streaming.shared.addresses import client_network, is_loopback
from streaming.shared.connection_limits import SlotLimits

CONNECTIONS_MAX = 200
_CONNECTIONS_MIN = 20
UNREAD_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The numbers of connections, and of requests in progress, that are allowed.

    Requests and scrapes together are fewer than the connections, so that a new connection always finds a slot.
    """

    connections: int
    connections_per_address: int
    requests: SlotLimits
    scrapes: SlotLimits  # Requests for /metrics, answered even while all other requests are refused.


def limits_for_descriptors(descriptors: int) -> ConnectionLimits:
    """Returns the limits for a process that may open ``descriptors`` files; negative means unlimited.

    A quarter of the descriptors is for HTTP; the rest is for the tuner's own files and its connections to Kafka.
    """
    connections = CONNECTIONS_MAX if descriptors < 0 else min(CONNECTIONS_MAX, max(_CONNECTIONS_MIN, descriptors // 4))
    requests = SlotLimits(
        total_max=connections * 4 // 5, network_max=connections * 3 // 5, per_address_max=connections * 6 // 25
    )
    scrapes = SlotLimits(
        total_max=connections // 10, network_max=connections * 3 // 40, per_address_max=max(1, connections // 40)
    )
    return ConnectionLimits(connections, connections * 8 // 25, requests, scrapes)


def process_limits() -> ConnectionLimits:
    """Returns the limits for this process."""
    return limits_for_descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


class Phase(Enum):
    """The part of a request that a connection is waiting for."""

    HANDSHAKE = "the TLS handshake"
    HEAD = "the head of a request"
    BODY = "the body of a request"
    RESPONSE = "the response"
    IDLE = "the next request"
    CLOSING = "the end of the connection"


PHASE_S_MAX = {
    Phase.HANDSHAKE: math.inf,  # asyncio limits it, see acceptor.py.
    Phase.HEAD: 10.0,
    Phase.BODY: 30.0,
    Phase.RESPONSE: math.inf,  # A route may take as long as it needs; the event stream never ends.
    # Longer than the interval between two requests of Prometheus or of the page, so that they reuse their connection.
    Phase.IDLE: 20.0,
    Phase.CLOSING: 30.0,
}


def _do_not_abort() -> None:
    """The default until the owner of the socket has set ``abort``."""


def _do_not_expire() -> bool:
    return False


@dataclass(eq=False, slots=True)
class OpenConnection:
    """One entry of the table.

    Attributes:
        abort: closes the connection at once; set by the code that owns its socket.
        expire: called when the time of the phase is over. It closes the connection, with a response if one is possible, and
            returns whether the client was too slow. An idle client is not too slow.
        unread_since_s: monotonic time at which the send buffer became full because the client does not read; None if the buffer has
            room.
    """

    address: str
    is_loopback: bool
    since_s: float
    abort: Callable[[], None] = _do_not_abort
    expire: Callable[[], bool] = _do_not_expire
    phase: Phase = Phase.HANDSHAKE
    deadline_s: float = math.inf
    unread_since_s: float | None = None

    def enter(self, phase: Phase, now_s: float) -> None:
        self.phase = phase
        self.since_s = now_s
        self.deadline_s = now_s + PHASE_S_MAX[phase]

    @property
    def waits_for_client(self) -> bool:
        return self.phase is not Phase.RESPONSE or self.unread_since_s is not None

    def is_unread(self, now_s: float) -> bool:
        """Returns whether the client has not read its response for too long."""
        return self.unread_since_s is not None and now_s - self.unread_since_s > UNREAD_S_MAX

    def is_late(self, now_s: float) -> bool:
        """Returns whether the time of the phase is over, or the client has not read its response for too long."""
        return now_s > self.deadline_s or self.is_unread(now_s)


class ConnectionTable:
    """All open connections. Not thread-safe."""

    def __init__(self, connections_max: int, per_address_max: int) -> None:
        self._max = connections_max
        self._per_address_max = per_address_max
        self._open: dict[OpenConnection, None] = {}
        self._closed_early: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, address: str, now_s: float) -> OpenConnection | None:
        """Registers a new connection, and returns its entry; None if it has to be refused.

        If the table is full, or the address has too many connections, a connection that waits for its client is closed. If there is
        none, because all their requests are in progress, the new connection is refused.
        """
        network = client_network(address)
        local = is_loopback(address)
        same_address = [connection for connection in self._open if connection.address == network]
        if len(same_address) >= self._per_address_max:
            has_slot = self._evict(same_address)
        elif len(self._open) >= self._max:
            has_slot = self._evict([connection for connection in self._open if local or not connection.is_loopback])
        else:
            has_slot = True
        if not has_slot:
            self._closed_early[network] += 1
            return None
        connection = OpenConnection(network, local, now_s)
        self._open[connection] = None
        return connection

    def remove(self, connection: OpenConnection) -> None:
        self._open.pop(connection, None)

    def evict_one(self) -> bool:
        """Closes a connection that waits for its client; returns False if there is none."""
        return self._evict(list(self._open))

    def expire_late(self, now_s: float) -> None:
        """Closes the connections whose time is over."""
        for connection in [entry for entry in self._open if entry.is_late(now_s)]:
            self._closed_early[connection.address] += connection.expire()

    def take_closed_early(self) -> Counter[str]:
        """Returns, by address, how many connections the table has closed or refused since the last call."""
        # The plus sign leaves out addresses with the count 0.
        closed, self._closed_early = +self._closed_early, Counter()
        return closed

    def _evict(self, candidates: list[OpenConnection]) -> bool:
        """Closes one candidate: of the address with the most connections, the candidate that has waited longest for its client."""
        waiting = [candidate for candidate in candidates if candidate.waits_for_client]
        if not waiting:
            return False
        counts = Counter(connection.address for connection in self._open)
        # The address with the most connections loses a connection, and not an address that has only one.
        victim = max(waiting, key=lambda candidate: (counts[candidate.address], -candidate.since_s))
        self._closed_early[victim.address] += 1
        self.remove(victim)
        victim.abort()
        return True
