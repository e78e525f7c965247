"""A fake cluster whose controller answers after a given time on a simulated clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from streaming.shared.kafka.cluster import ClusterError, Unreachable
from streaming.shared.kafka.values import Endpoint, MissingPermission


@dataclass
class FakeAsker:
    """A fake probe client.

    Args:
        takes_s: the controller's response time.
        silent: brokers that never answer.
        gone: brokers that are unreachable.
    """

    brokers_there: Sequence[int] = (1, 2, 3)
    takes_s: float = 0.01
    silent: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    refuses: bool = False
    away: bool = False
    connects_s: float = 0.0
    timeout_s: float = 5.0
    now_s: float = 0.0
    asked: list[int] = field(default_factory=list)
    closed: bool = False
    met: list[int] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now_s

    def brokers(self) -> Sequence[Endpoint]:
        if self.away:
            raise Unreachable("cannot describe the cluster")
        return [Endpoint(broker, "127.0.0.1", 9092) for broker in self.brokers_there]

    def connect(self, broker: int) -> ClusterError | None:
        self.met.append(broker)
        self.now_s += self.connects_s
        return self._reached(broker)

    def ping(self, broker: int) -> ClusterError | None:
        self.asked.append(broker)
        if self.refuses:
            return MissingPermission("AlterConfigs on Topic rheostat.journal", "to alter nothing of rheostat.journal")
        refused = self._reached(broker)
        if refused is None and self.takes_s < self.timeout_s:
            self.now_s += self.takes_s
        elif refused is None:
            self.now_s += self.timeout_s
            return Unreachable("the controller does not answer")
        return refused

    def _reached(self, broker: int) -> ClusterError | None:
        if self.away or broker in self.gone or broker not in self.brokers_there:
            return Unreachable(f"broker {broker} is not there")
        if broker in self.silent:
            self.now_s += self.timeout_s
            return Unreachable(f"broker {broker} does not answer")
        return None

    def close(self) -> None:
        self.closed = True
