"""Checks that the journal's topic exists while a standby waits for the lease, and recreates a deleted topic.

The lease is a partition of the journal's topic, so without the topic no tuner can ever act. Therefore a standby recreates the
topic, as every tuner does at its start. The content is lost: no tuner can restore the rates that were set before a move. The
standby logs this loss once, as an error.

Invariant: the standby creates rheostat's own topics and changes nothing else in the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from streaming.shared.contract import Topics
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.topics import ensure_topics

log = structlog.get_logger("tuner")

CHECK_EVERY_S = 2.0


class JournalTopic:
    """Checks the journal's topic for a standby that waits for the lease."""

    def __init__(
        self,
        client: ClusterClient,
        topics: Topics,
        on_recreated: Callable[[], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            on_recreated: called when the topic exists again. It makes the consumer group notice the new topic at once; without it,
                that takes minutes.
        """
        self._client = client
        self._topics = topics
        self._on_recreated = on_recreated
        self._monotonic = monotonic
        self._checked_s = float("-inf")
        self._problem: str | None = None
        self._was_missing = False  # Whether the topic was missing at the previous check.

    def find_problem(self) -> str | None:
        """Returns why no tuner can get the lease; None if the topic exists. Asks the cluster every ``CHECK_EVERY_S`` at most."""
        if self._monotonic() - self._checked_s < CHECK_EVERY_S:
            return self._problem
        self._checked_s = self._monotonic()
        try:
            exists = bool(self._client.partitions([self._topics.journal]))
        except ClusterError:
            return self._problem  # Another check reports an unreachable cluster.
        # A broker that has just started does not know any topic yet, so the topic has to be missing in two checks in a row.
        if not exists and self._was_missing:
            self._recreate()
        if exists and self._problem is not None:
            log.info("the journal's topic exists again", topic=self._topics.journal)
            self._problem = None
            self._on_recreated()
        self._was_missing = not exists
        return self._problem

    def _recreate(self) -> None:
        problem = f"the journal's topic {self._topics.journal} does not exist, and no tuner acts without a journal"
        if self._problem is None:
            log.error(
                "the journal's topic was deleted, so rheostat no longer knows which throttles it manages and which rates were set "
                "before",
                topic=self._topics.journal,
                do="when no partition moves any more, run `rheostat status`, and remove the throttles that are still set",
            )
        try:
            ensure_topics(self._client, self._topics)
        except ClusterError as error:
            problem = f"{problem}; it cannot be recreated: {error}"
        self._problem = problem
