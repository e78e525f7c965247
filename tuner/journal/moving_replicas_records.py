"""Groups the replicas that were seen moving by topic, and finds the topics whose record has to be written again."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.control.throttle.incremental.delta_mapping import added_since

MovingReplicas = Mapping[tuple[str, int], frozenset[int]]  # Brokers by topic and partition.
ReplicasByTopic = dict[str, dict[int, frozenset[int]]]


class MovingReplicasByTopic:
    """Groups moving replicas by topic. Keeps the groups between calls, as grouping tens of thousands of partitions takes time."""

    def __init__(self) -> None:
        self._replicas: MovingReplicas | None = None  # The replicas that ``_by_topic`` groups.
        self._by_topic: ReplicasByTopic = {}

    def grown_topics(self, before: MovingReplicas, after: MovingReplicas) -> ReplicasByTopic:
        """Returns all moving replicas of the topics that have more moving replicas than ``before``.

        The other topics need no new record, as partitions are only added while moves run.
        """
        if after is before:
            return {}
        added = added_since(before, after)
        # If partitions may be gone, or ``before`` was never grouped, everything is grouped again.
        continues_grouping = added is not None and self._replicas is before
        if not continues_grouping:
            self._by_topic = {}
        if added is None:
            added = {key: brokers for key, brokers in after.items() if before.get(key) is not brokers}
        for topic, partition in added if continues_grouping else after:
            self._by_topic.setdefault(topic, {})[partition] = after[(topic, partition)]
        self._replicas = after
        return {topic: dict(self._by_topic[topic]) for topic in dict.fromkeys(topic for topic, _ in added)}
