"""Samples a move with the calls and sums of collector and stream, without a pipeline.

Bytes are compared by partition, and count only if two successive samples have the partition, so that a joining one is no jump. If a
broker does not answer, the sample is missing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.stalls.world import STEADY_STATE_OVER_S, Tick
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, PartitionState
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS, TopicThrottle

ENDLESS = 1e12  # What a side without a throttle lets through.


@dataclass(slots=True)
class Watch:
    """Samples one topic, and sums its bytes as signals do."""

    client: ClusterClient
    topic: str
    source: int
    target: int
    began_s: float = field(default_factory=time.monotonic)
    gained: float = 0.0
    written: float = 0.0
    ticks: list[Tick] = field(default_factory=list)
    _before: dict[int, tuple[int, int]] = field(default_factory=dict)  # Partition → bytes on leader and destination.
    _writes: list[tuple[float, dict[int, int]]] = field(default_factory=list)

    def look(self) -> bool:
        """Takes a sample, and returns whether the move still runs."""
        try:
            moving = [s for s in self.client.reassignments() if s.topic == self.topic]
            at_s = time.monotonic() - self.began_s
            sizes = self.client.log_sizes([self.source, self.target], [(self.topic, s.partition) for s in moving])
            surplus = self._surplus(moving, sizes.get(self.source), at_s) if moving else None
        except ClusterError:
            return True  # A look that is missing.
        source, target = sizes.get(self.source), sizes.get(self.target)
        if not moving:
            return False
        if not isinstance(source, dict) or not isinstance(target, dict) or surplus is None:
            return True
        now = {
            s.partition: (source[key], target.get(key, 0))
            for s in moving
            if (key := (self.topic, s.partition)) in source
        }
        for partition, (led, own) in now.items():
            if partition in self._before:
                self.written += max(0, led - self._before[partition][0])
                self.gained += max(0, own - self._before[partition][1])
        self._before = now
        remaining = sum(max(0, led - own) for led, own in now.values())
        self.ticks.append(Tick(at_s, self.gained, self.written, remaining, surplus))
        return True

    def _surplus(self, moving: Sequence[PartitionState], source: object, at_s: float) -> float | None:
        """Returns the tighter side's throttle minus steady-state replication, by the writes of the last half minute."""
        if not isinstance(source, dict):
            return None
        self._writes.append((at_s, {s.partition: source.get((self.topic, s.partition), 0) for s in moving}))
        self._writes = [(t, led) for t, led in self._writes if t >= at_s - STEADY_STATE_OVER_S]
        throttle = TopicThrottle.from_configs(
            self.client.topic_configs([self.topic], LIST_KEYS.values()).get(self.topic, {})
        )
        rates = self.client.broker_configs([self.source, self.target], RATE_KEYS.values())
        allowed = [ENDLESS]
        for side, broker in ((Side.LEADER, self.source), (Side.FOLLOWER, self.target)):
            found = rates[broker]
            if isinstance(found, ClusterError) or RATE_KEYS[side] not in found:
                continue
            listed = throttle.leader if side is Side.LEADER else throttle.follower
            steady_state = sum(
                self._write_rate(s.partition)
                * (len((set(s.isr) | set(s.adding)) - {s.leader}) if side is Side.LEADER else 1)
                for s in moving
                if listed.includes(s.partition, broker)
            )
            allowed.append(float(found[RATE_KEYS[side]].value) - steady_state)
        return min(allowed)

    def _write_rate(self, partition: int) -> float:
        known = [(t, led[partition]) for t, led in self._writes if partition in led]
        (from_s, first), (to_s, last) = known[0], known[-1]
        return (last - first) / (to_s - from_s) if to_s > from_s else 0.0
