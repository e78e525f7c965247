"""The open connections of the HTTP server, their time limits, and which one is closed for a new one.

Intuition: a client that connects and says little costs a place. A time limit that its data extends would let it keep the
place for ever, and a full server that refuses newcomers would lock out health checks. So each phase of a connection has a
fixed time limit, and a newcomer that finds no place gets that of the connection that has waited longest for its client.

Invariants:
- Arriving data never moves the deadline of a phase.
- A connection whose request is being answered, and whose client reads the answer, is never closed for another. The number of
  such connections is bounded elsewhere (requests_at_once.py) below the size of the table, so a newcomer always finds a place.
- No connection from the network takes the place of one from this machine.
"""

from __future__ import annotations

import math
import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from streaming.shared.addresses import counted_address, is_loopback
from streaming.shared.connection_limits import SlotLimits

CONNECTIONS_MAX = 200
_CONNECTIONS_MIN = 20
UNREAD_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections may be open, and how many of them may be being answered.

    Requests and scrapes together are fewer than the connections, so that a newcomer always finds a place.
    """

    connections: int
    connections_per_address: int
    requests: SlotLimits
    scrapes: SlotLimits  # Of /metrics, which is answered also while all other requests are refused.


def limits_for_descriptors(descriptors: int) -> ConnectionLimits:
    """The limits of a process that may open so many files; negative: as many as it likes.

    Three quarters of them are for the tuner's own files and its connections to Kafka.
    """
    most = CONNECTIONS_MAX if descriptors < 0 else min(CONNECTIONS_MAX, max(_CONNECTIONS_MIN, descriptors // 4))
    requests = SlotLimits(most * 4 // 5, most * 3 // 5, most * 6 // 25)
    scrapes = SlotLimits(most // 10, most * 3 // 40, max(1, most // 40))
    return ConnectionLimits(most, most * 8 // 25, requests, scrapes)


def process_limits() -> ConnectionLimits:
    """The limits of this process."""
    return limits_for_descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


class Phase(Enum):
    """What a connection waits for."""

    HANDSHAKE = "the TLS handshake"
    HEAD = "the head of a request"
    BODY = "the body of a request"
    ANSWER = "the answer"
    IDLE = "the next request"
    CLOSING = "the end of the connection"


PHASE_S_MAX = {
    Phase.HANDSHAKE: math.inf,  # asyncio ends it, see acceptor.py.
    Phase.HEAD: 10.0,
    Phase.BODY: 30.0,
    Phase.ANSWER: math.inf,  # The route takes as long as it needs; events have no end.
    # Longer than Prometheus and the page wait between two requests. A connection closed just as the next one arrives is an error
    # to some clients, and one that all make anew costs each of them a handshake.
    Phase.IDLE: 20.0,
    Phase.CLOSING: 30.0,
}


def _nothing() -> None:
    """Before the owner of the socket has said how to close it."""


def _nothing_expires() -> bool:
    return False


@dataclass(eq=False, slots=True)
class OpenConnection:
    """One place in the table.

    Attributes:
        abort: closes the connection at once; set by the code that owns its socket.
        expire: called when the time of the phase is over; closes the connection, with an answer where one is possible, and
            returns whether its client was too slow: one that has just nothing more to ask is not.
        unread_since_s: since when the client has left so much of an answer unread that no more of it can be sent.
    """

    address: str
    is_loopback: bool
    since_s: float
    abort: Callable[[], None] = _nothing
    expire: Callable[[], bool] = _nothing_expires
    phase: Phase = Phase.HANDSHAKE
    deadline_s: float = math.inf
    unread_since_s: float | None = None

    def enter(self, phase: Phase, now_s: float) -> None:
        self.phase = phase
        self.since_s = now_s
        self.deadline_s = now_s + PHASE_S_MAX[phase]

    @property
    def waits_for_client(self) -> bool:
        return self.phase is not Phase.ANSWER or self.unread_since_s is not None

    def is_unread(self, now_s: float) -> bool:
        """Whether the client has left an answer unread for too long."""
        return self.unread_since_s is not None and now_s - self.unread_since_s > UNREAD_S_MAX

    def is_late(self, now_s: float) -> bool:
        """Whether the time of its phase is over, or its client has left an answer unread for too long."""
        return now_s > self.deadline_s or self.is_unread(now_s)


class ConnectionTable:
    """All open connections. To be used by one thread."""

    def __init__(self, connections_max: int, per_address_max: int) -> None:
        self._max = connections_max
        self._per_address_max = per_address_max
        self._open: dict[OpenConnection, None] = {}
        self._closed_early: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, address: str, now_s: float) -> OpenConnection | None:
        """Returns the place of a new connection; None: there is none, as all that could be given up are being answered.

        A full table, or an address with too many connections, gives up the connection that has waited longest.
        """
        counted = counted_address(address)
        local = is_loopback(address)
        mine = [each for each in self._open if each.address == counted]
        if len(mine) >= self._per_address_max:
            has_room = self._give_up(mine)
        elif len(self._open) >= self._max:
            has_room = self._give_up([each for each in self._open if local or not each.is_loopback])
        else:
            has_room = True
        if not has_room:
            self._closed_early[counted] += 1
            return None
        connection = OpenConnection(counted, local, now_s)
        self._open[connection] = None
        return connection

    def remove(self, connection: OpenConnection) -> None:
        self._open.pop(connection, None)

    def give_up_one(self) -> bool:
        """Closes the connection that has waited longest; False: none waits for its client."""
        return self._give_up(list(self._open))

    def expire_late(self, now_s: float) -> None:
        """Ends the connections whose time is up."""
        for connection in [each for each in self._open if each.is_late(now_s)]:
            self._closed_early[connection.address] += connection.expire()

    def take_closed_early(self) -> Counter[str]:
        """How many connections of each address were closed or refused for these limits since the last call."""
        closed, self._closed_early = +self._closed_early, Counter()
        return closed

    def _give_up(self, candidates: list[OpenConnection]) -> bool:
        waiting = [each for each in candidates if each.waits_for_client]
        if not waiting:
            return False
        counts = Counter(each.address for each in self._open)
        # The address with the most connections gives one up, so that many of one address cost no other its only one.
        victim = max(waiting, key=lambda each: (counts[each.address], -each.since_s))
        self._closed_early[victim.address] += 1
        self.remove(victim)
        victim.abort()
        return True
