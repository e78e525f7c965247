"""Passes the results of each cycle to the status store, the rate history and the event listeners.

All readers see the same cycle: ``snapshot`` returns one consistent state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tuner.api.decisions import DecisionStore, RecordedJournal
from tuner.api.events import EventHub
from tuner.api.history import RateHistoryStore
from tuner.api.status_store import CycleResult, StatusStore
from tuner.control.throttle.decision import Decision, ExecutedDecision
from tuner.control.throttle.state import Memory
from tuner.core.cluster import LiveCluster, Observation
from tuner.core.operator_orders import Orders
from tuner.journal.entries import Entry
from tuner.journal.event_lines import outcome_text


@dataclass(frozen=True, slots=True)
class CycleSnapshot:
    """The last completed cycle."""

    result: CycleResult
    version: int  # Changes with each cycle.

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return self.result.cycle_decisions


class CycleListener(Protocol):
    """Receives each cycle and each group of acts."""

    def record_cycle(self, observation: Observation, memory: Memory, decisions: tuple[Decision, ...]) -> None: ...

    def record_actions(self, acts: Sequence[ExecutedDecision]) -> None: ...


class Observers:
    """Receives cycles, acts and journal entries from the loop, and holds the stores that the routes read. Thread-safe."""

    def __init__(self, status: StatusStore) -> None:
        self.status = status
        self.history = RateHistoryStore()
        self.decisions = DecisionStore()
        self.hub = EventHub()
        self._lock = threading.Lock()
        self._version = 0
        self._on_new_cycle: list[Callable[[], None]] = []
        self.listeners: list[CycleListener] = []

    # -- called by the loop ----------------------------------------------------------------------------------------------

    def record_cycle(self, observation: Observation, memory: Memory, decisions: tuple[Decision, ...]) -> None:
        # The history is updated before the version: a reader that sees the new version caches its response until the next cycle.
        self.history.record_cycle(observation, self.status.limits)
        with self._lock:
            self.status.record_cycle(observation, memory, decisions)
            self._version += 1
        for callback in self._on_new_cycle:
            callback()
        for listener in self.listeners:
            listener.record_cycle(observation, memory, decisions)
        live = observation.live
        moving = len(live.moves) if isinstance(live, LiveCluster) else None
        self.hub.publish("cycle", {"at_ms": observation.now_ms, "moving_partitions": moving})

    def record_actions(self, acts: Sequence[ExecutedDecision]) -> None:
        self.status.record_actions(acts)
        for listener in self.listeners:
            listener.record_actions(acts)
        text, failure = outcome_text(acts)
        self.hub.publish("acted", {"text": text, "failure": failure})

    def wrap_journal(self, write: Callable[..., None]) -> RecordedJournal:
        """Returns a journal that also adds its stored entries to the decision store."""
        return RecordedJournal(write, self.decisions)

    def load_history(self, entries: Sequence[Entry]) -> None:
        """Adds the journal entries of earlier processes, and publishes ``history``."""
        self.decisions.load_history(entries)
        self.hub.publish("history", {"decisions": len(entries)})

    # -- called by readers --------------------------------------------------------------------------------------------

    def on_new_cycle(self, callback: Callable[[], None]) -> None:
        """Registers a callback that the loop calls in each new cycle, so that holders of an older snapshot release it.

        Freeing the snapshot of a large cluster takes time, which would delay a response if the server's thread did it.
        """
        self._on_new_cycle.append(callback)

    @property
    def version(self) -> int:
        return self._version

    def snapshot(self) -> CycleSnapshot:
        with self._lock:
            return CycleSnapshot(self.status.snapshot(), self._version)

    def orders(self) -> Orders:
        """Returns the orders that the loop has read last."""
        observation = self.status.snapshot().observation
        return observation.orders if observation is not None else Orders()
