"""The move as the cluster itself tells it, independent of everything rheostat computes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rheostat.demo.view import DemoView
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS
from streaming.shared.units import size_text


@dataclass(frozen=True, slots=True)
class MoveSample:
    at_s: float  # time.monotonic
    moving: bool
    remaining_bytes: int | None
    leader_bytes: int | None


class MoveWatch:
    """One topic moving from a leader to a destination."""

    def __init__(self, client: ClusterClient, topic: str, partitions: int, leader: int, destination: int) -> None:
        self._client = client
        self._topic = topic
        self._keys = [(topic, p) for p in range(partitions)]
        self.leader = leader
        self.destination = destination
        self.looks: list[MoveSample] = []

    def look(self) -> MoveSample:
        moving = any(state.topic == self._topic for state in self._client.reassignments())
        sizes = self._client.log_sizes([self.leader, self.destination], self._keys)
        source, target = sizes[self.leader], sizes[self.destination]
        remaining = leader_bytes = None
        if not isinstance(source, ClusterError) and not isinstance(target, ClusterError):
            leader_bytes = sum(source.values())
            remaining = sum(max(0, size - target.get(key, 0)) for key, size in source.items())
        look = MoveSample(time.monotonic(), moving, remaining, leader_bytes)
        self.looks.append(look)
        return look

    def show(self, view: DemoView, what: str) -> bool:
        """Looks, and tells it beside ``what``; whether it still moves."""
        look = self.look()
        remains = "unknown" if look.remaining_bytes is None else f"{size_text(look.remaining_bytes)} remain"
        view.now(f"{what}; {remains}" if look.moving else what)
        return look.moving

    def trend_bytes_per_s(self, since_s: float) -> float | None:
        """Change of what remains, per second, from the first look after ``since_s`` to the last."""
        known = [(k.at_s, k.remaining_bytes) for k in self.looks if k.at_s >= since_s and k.remaining_bytes is not None]
        if len(known) < 2 or known[-1][0] <= known[0][0]:
            return None
        return (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0])

    def write_bytes_per_s(self, since_s: float) -> float | None:
        known = [(k.at_s, k.leader_bytes) for k in self.looks if k.at_s >= since_s and k.leader_bytes is not None]
        if len(known) < 2 or known[-1][0] <= known[0][0]:
            return None
        return (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0])

    def throttle_keys(self) -> list[str]:
        """Every throttle setting that stands anywhere in the cluster, as ``where: key``."""
        brokers = [endpoint.node for endpoint in self._client.brokers()]
        found = []
        for broker, configs in sorted(self._client.broker_configs(brokers, RATE_KEYS.values()).items()):
            if isinstance(configs, ClusterError):
                raise configs
            found += [f"broker {broker}: {key}" for key in configs]
        topics = {state.topic for state in self._client.partitions()}
        for topic, values in sorted(self._client.topic_configs(topics, LIST_KEYS.values()).items()):
            found += [f"topic {topic}: {key}" for key in values]
        return found
