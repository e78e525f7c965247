"""Observes the move with Kafka's own API, independently of rheostat's measurements."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from rheostat.demo.view import DemoView
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, ConfigValue
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS
from streaming.shared.units import size_text


@dataclass(frozen=True, slots=True)
class MoveSample:
    """One observation of the move. A value is None if a broker did not answer. A throttle is also None if it is not set."""

    at_s: float  # time.monotonic
    moving: bool
    remaining_bytes: int | None
    leader_bytes: int | None
    leader_throttle_bytes_per_s: float | None = None
    follower_throttle_bytes_per_s: float | None = None


class MoveWatch:
    """Observes one topic that moves from a leader to a destination."""

    def __init__(self, client: ClusterClient, topic: str, partitions: int, leader: int, destination: int) -> None:
        self._client = client
        self._topic = topic
        self._keys = [(topic, p) for p in range(partitions)]
        self.leader = leader
        self.destination = destination
        self.samples: list[MoveSample] = []

    def take_sample(self) -> MoveSample:
        """Reads the reassignments, log sizes and throttles, and adds a sample."""
        moving = any(state.topic == self._topic for state in self._client.reassignments())
        sizes = self._client.log_sizes([self.leader, self.destination], self._keys)
        source, target = sizes[self.leader], sizes[self.destination]
        remaining = leader_bytes = None
        if not isinstance(source, ClusterError) and not isinstance(target, ClusterError):
            leader_bytes = sum(source.values())
            remaining = sum(max(0, size - target.get(key, 0)) for key, size in source.items())
        configs = self._client.broker_configs([self.leader, self.destination], RATE_KEYS.values())
        sample = MoveSample(
            time.monotonic(),
            moving,
            remaining_bytes=remaining,
            leader_bytes=leader_bytes,
            leader_throttle_bytes_per_s=_rate(configs[self.leader], Side.LEADER),
            follower_throttle_bytes_per_s=_rate(configs[self.destination], Side.FOLLOWER),
        )
        self.samples.append(sample)
        return sample

    def show(self, view: DemoView, activity: str) -> bool:
        """Takes a sample, shows it after ``activity``, and returns whether the topic still moves."""
        sample = self.take_sample()
        remaining = "unknown" if sample.remaining_bytes is None else f"{size_text(sample.remaining_bytes)} remain"
        view.show_activity(f"{activity}; {remaining}" if sample.moving else activity)
        return sample.moving

    def trend_bytes_per_s(self, since_s: float) -> float | None:
        """Returns the change of the remaining bytes per second, from the first sample after ``since_s`` to the last."""
        return _slope([(sample.at_s, sample.remaining_bytes) for sample in self.samples if sample.at_s >= since_s])

    def write_bytes_per_s(self, since_s: float) -> float | None:
        """Returns the growth of the leader's log per second, from the first sample after ``since_s`` to the last."""
        return _slope([(sample.at_s, sample.leader_bytes) for sample in self.samples if sample.at_s >= since_s])

    def throttle_settings(self) -> list[str]:
        """Returns every throttle setting in the cluster, as ``broker or topic: key``."""
        brokers = [endpoint.node for endpoint in self._client.brokers()]
        settings = []
        for broker, configs in sorted(self._client.broker_configs(brokers, RATE_KEYS.values()).items()):
            if isinstance(configs, ClusterError):
                raise configs
            settings += [f"broker {broker}: {key}" for key in configs]
        topics = {state.topic for state in self._client.partitions()}
        for topic, values in sorted(self._client.topic_configs(topics, LIST_KEYS.values()).items()):
            settings += [f"topic {topic}: {key}" for key in values]
        return settings


def _rate(configs: Mapping[str, ConfigValue] | ClusterError, side: Side) -> float | None:
    if isinstance(configs, ClusterError) or (config := configs.get(RATE_KEYS[side])) is None:
        return None
    return float(config.value)


def _slope(points: list[tuple[float, int | None]]) -> float | None:
    """Returns the change per second from the first to the last known value; None if fewer than two values are known."""
    known = [(at_s, value) for at_s, value in points if value is not None]
    if not known:
        return None
    (first_s, first), (last_s, last) = known[0], known[-1]
    return (last - first) / (last_s - first_s) if last_s > first_s else None
