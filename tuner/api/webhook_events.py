"""Finds the events for webhooks: partitions begin to move (found), moves stall or are done, and the tuner acts.

Events come from cycles that read the cluster. After a restart during a move, ``found`` and the stalls are reported again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streaming.shared.short_lists import join_names
from tuner.control.throttle.decision import ExecutedDecision
from tuner.control.throttle.state import Memory
from tuner.core import formatting
from tuner.core.cluster import LiveCluster, Observation
from tuner.core.value import value
from tuner.journal.event_lines import outcome_text

ACTED_EVERY_MS = 60_000
_NAMED_MAX = 5


@value
class ExternalEvent:
    """An event for receivers.

    Attributes:
        kind: found, stalled, acted or done.
        text: a sentence for people.
        details: figures for programs.
    """

    kind: str
    at_ms: int
    text: str
    details: dict[str, Any]


class EventTracker:
    """Compares each cycle with the cycle before."""

    def __init__(self) -> None:
        self._moving_count = 0
        self._stalled: frozenset[int] = frozenset()
        self._acts: list[ExecutedDecision] = []  # The newest acts, for the text of the next event.
        self._counts = {"written": 0, "failed": 0}
        self._acted_at_ms: int | None = None  # When the last event about acts was made.

    def note_actions(self, acts: Sequence[ExecutedDecision]) -> None:
        """Keeps acts for the next event, which a later cycle makes from their counts and from the newest acts."""
        failed = sum(failure is not None for _, failure in acts)
        self._acts = list(acts)
        self._counts["failed"] += failed
        self._counts["written"] += len(acts) - failed

    def events(self, observation: Observation, memory: Memory) -> list[ExternalEvent]:
        """Returns the events of a cycle; none if the cluster could not be read."""
        if not isinstance(observation.live, LiveCluster):
            return []
        now_ms = observation.now_ms
        return [
            *self._moves(observation.live, now_ms),
            *self._stalls(observation.live, memory, now_ms),
            *self._acted(now_ms),
            *self._done(observation.live, now_ms),
        ]

    def _moves(self, live: LiveCluster, now_ms: int) -> list[ExternalEvent]:
        if self._moving_count or not live.moves:
            return []
        self._moving_count = len(live.moves)
        names = join_names((f"{move.topic}-{move.partition}" for move in live.moves), _NAMED_MAX)
        details = {"partitions": len(live.moves), "topics": len({move.topic for move in live.moves})}
        return [ExternalEvent("found", now_ms, f"partitions move: {names}", details)]

    def _stalls(self, live: LiveCluster, memory: Memory, now_ms: int) -> list[ExternalEvent]:
        stalled = (
            frozenset(broker for broker, state in memory.stalls.items() if state.stalled) if live.moves else frozenset()
        )
        new, self._stalled = sorted(stalled - self._stalled), stalled
        if not new:
            return []
        text = f"the moves onto these brokers have stalled: {formatting.brokers(new, _NAMED_MAX)}"
        return [ExternalEvent("stalled", now_ms, text, {"brokers": new})]

    def _acted(self, now_ms: int) -> list[ExternalEvent]:
        waits = self._acted_at_ms is not None and 0 <= now_ms - self._acted_at_ms < ACTED_EVERY_MS
        if not self._acts or waits:
            return []
        text, failure = outcome_text(self._acts)
        details = {**self._counts, "last_failure": failure}
        self._acts, self._counts, self._acted_at_ms = [], {"written": 0, "failed": 0}, now_ms
        return [ExternalEvent("acted", now_ms, text, details)]

    def _done(self, live: LiveCluster, now_ms: int) -> list[ExternalEvent]:
        if live.moves or not self._moving_count:
            return []
        self._moving_count = 0
        return [ExternalEvent("done", now_ms, "no partition moves any more", {})]
