"""The controller's time for creating or deleting topics, as measured on controllers of both kinds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerCost:
    """Work of the controller's single thread, in ms."""

    per_request_ms: float = 0.0
    per_topic_ms: float = 0.0
    per_partition_ms: float = 0.0

    def work_s(self, topics: float, partitions: float, requests: float = 0.0) -> float:
        ms = requests * self.per_request_ms + topics * self.per_topic_ms + partitions * self.per_partition_ms
        return ms / 1000


# KIP-599: 5,000 topics × 4 partitions, replicated three times on 9 brokers, kept the controller busy for about 2 minutes.
ZOOKEEPER = ControllerCost(per_partition_ms=6.0)
# Kafka 4.2 on a small machine, from AvgIdleRatio: 0.04 to 0.08 ms a partition and 0.9 ms a topic.
KRAFT = ControllerCost(per_topic_ms=0.9, per_partition_ms=0.06)
