"""What was seen moving, as it goes on record: topic by topic, and of those only the ones of which more is seen than before."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.control.throttle.incremental.delta_mapping import grown_since

Seen = Mapping[tuple[str, int], frozenset[int]]
Rows = dict[str, dict[int, frozenset[int]]]


class MovingReplicasByTopic:
    """Tens of thousands of partitions are sorted by topic once, and what joins them is put to its topic."""

    def __init__(self) -> None:
        self._seen: Seen | None = None
        self._rows: Rows = {}

    def grown(self, before: Seen, seen: Seen) -> Rows:
        """All that is seen of the topics of which more is seen than ``before``: while moves run, partitions only join."""
        if seen is before:
            return {}
        more = grown_since(before, seen)
        if more is None:
            more = {key: brokers for key, brokers in seen.items() if before.get(key) is not brokers}
            self._rows = {}  # What is not there any more is only found by beginning anew.
        elif self._seen is not before:
            self._rows = {}
        for topic, partition in more if self._rows else seen:
            self._rows.setdefault(topic, {})[partition] = seen[(topic, partition)]
        self._seen = seen
        return {topic: dict(self._rows[topic]) for topic in dict.fromkeys(topic for topic, _ in more)}
