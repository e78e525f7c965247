"""The newest decision about preferred leaders, for the status and the metrics. The loop writes, the server reads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import Labels, metric_family
from tuner.control.leadership.decision import LeadershipDecision, election_action
from tuner.control.leadership.survey import LeaderSurvey


class LeadershipStatusStore:
    """Holds the newest decision, and counts decisions. Thread-safe."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._lock = threading.Lock()
        self._survey: LeaderSurvey | None = None
        self._decision: LeadershipDecision | None = None
        self._counts: Counter[tuple[str, str]] = Counter()

    def record_election(self, survey: LeaderSurvey | None, decision: LeadershipDecision) -> None:
        """Publishes a decision; the survey is None if the partitions cannot be read."""
        with self._lock:
            self._survey, self._decision = survey, decision
            self._counts[election_action(decision), decision.reason.value] += 1

    def clear(self) -> None:
        """Drops the state, because this tuner has become a standby."""
        with self._lock:
            self._survey = self._decision = None

    def as_json(self) -> dict[str, Any] | None:
        """Returns the newest decision as JSON values; None if there is none."""
        with self._lock:
            survey, decision = self._survey, self._decision
        if decision is None:
            return None
        return {
            "partitions_without_preferred_leader": survey.displaced_count if survey is not None else None,
            "broker": decision.broker,
            "action": election_action(decision),
            "reason": decision.reason.value,
            "text": decision.text,
        }

    def snapshot(self) -> tuple[LeaderSurvey | None, dict[tuple[str, str], int]]:
        """Returns the newest survey and the counts of decisions."""
        with self._lock:
            return self._survey, dict(self._counts)


class LeadershipCollector(Collector):
    """Collects the metrics of preferred leaders."""

    def __init__(self, store: LeadershipStatusStore) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        labels: Labels = (self._store.cluster,)
        survey, counts = self._store.snapshot()
        yield metric_family(
            TunerMetric.LEADERS_DISPLACED, {labels: float(survey.displaced_count)} if survey is not None else {}
        )
        yield metric_family(TunerMetric.LEADERSHIP_DECISIONS, {(*labels, *key): float(n) for key, n in counts.items()})
