"""The lines of requests at brokers: each broker forwards one request at a time to the controller.

Invariant: requests through one broker keep their order.
"""

from __future__ import annotations

from collections import deque

Request = tuple[int, float]  # Number of the client, and when it sent the request to the broker.


class ForwardingLines:
    def __init__(self, brokers: int) -> None:
        self.brokers = brokers
        self._free_at_s = [0.0] * brokers
        self._waiting: list[deque[Request]] = [deque() for _ in range(brokers)]

    def broker_of(self, number: int) -> int:
        return number % self.brokers if self.brokers else 0

    def join(self, broker: int, request: Request, now_s: float) -> float | None:
        """Puts a request into a line.

        Returns:
            None: the broker is free and forwards the request at once. Otherwise when the broker is ready for it if it is the first
            that waits, and 0 if it is not the first.
        """
        if not self.brokers:
            return None
        line = self._waiting[broker]
        if not line and self._free_at_s[broker] <= now_s:
            return None
        line.append(request)
        return self._free_at_s[broker] if len(line) == 1 else 0.0

    def next_waiting(self, broker: int) -> Request:
        return self._waiting[broker].popleft()

    def occupy(self, broker: int, until_s: float) -> bool:
        """Notes when the broker gets the answer to the request that it forwards now; returns whether another one waits."""
        if not self.brokers:
            return False
        self._free_at_s[broker] = until_s
        return bool(self._waiting[broker])
