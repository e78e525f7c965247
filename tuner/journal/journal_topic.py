"""Whether the journal's topic is there, asked by a tuner that waits for its turn; made anew where it is not.

Intuition: the lease is a partition of the journal's topic, so without the topic nobody acts, and nobody would ever again. To make
it anew is what every tuner does at its start. What was on record is lost with it, which is said once, and loudly: values that
stood before a move cannot be put back any more.

Invariant: nothing is changed in the cluster but rheostat's own topics. Who acts on them has to have the lease and the journal
as ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from streaming.shared.contract import Topics
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.topics import ensure_topics

log = structlog.get_logger("tuner")

LOOK_EVERY_S = 2.0


class JournalTopic:
    def __init__(
        self,
        client: ClusterClient,
        topics: Topics,
        on_back: Callable[[], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            on_back: it is there again. A member of the lease's group that was given nothing would learn of it minutes later.
        """
        self._client = client
        self._topics = topics
        self._on_back = on_back
        self._monotonic = monotonic
        self._asked_s = float("-inf")
        self._gone: str | None = None
        self._missed = False  # At the look before.

    def gone(self) -> str | None:
        """Why nobody can have the lease; None: for no such reason. Asks the cluster at most every ``LOOK_EVERY_S``."""
        if self._monotonic() - self._asked_s < LOOK_EVERY_S:
            return self._gone
        self._asked_s = self._monotonic()
        try:
            there = bool(self._client.partitions([self._topics.journal]))
        except ClusterError:
            return self._gone  # Whether the cluster answers at all is asked elsewhere.
        if not there:
            self._missing()
        elif self._gone is not None:
            log.info("the journal's topic is there again", topic=self._topics.journal)
            self._gone = None
            self._on_back()
        self._missed = not there
        return self._gone

    def _missing(self) -> None:
        # A broker that has just started knows of no topic yet: who is missed once is asked for again.
        if not self._missed:
            return
        said = f"the journal's topic {self._topics.journal} is not there, and without a journal nobody acts"
        if self._gone is None:
            log.error(
                "the journal's topic is gone: what was ours and what stood before is not on record any more",
                topic=self._topics.journal,
                do="look at what stands when nothing moves any more: rheostat status",
            )
        try:
            ensure_topics(self._client, self._topics)
        except ClusterError as error:
            said = f"{said}; it cannot be made anew: {error}"
        self._gone = said
