"""Where the loop's word goes: to the board, to the charts, and to whoever listens. One cycle is one picture for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuner.api.decisions import DecisionStore, RecordedJournal
from tuner.api.events import EventHub
from tuner.api.history import RateHistoryStore
from tuner.api.status_store import CycleResult, StatusStore
from tuner.control.throttle.decision import Acted, Decision
from tuner.control.throttle.state import Memory
from tuner.core.cluster import LiveCluster, Observation
from tuner.core.operator_orders import Orders
from tuner.journal.entries import Entry
from tuner.journal.event_lines import outcome_text


@dataclass(frozen=True, slots=True)
class CycleSnapshot:
    """The last cycle."""

    result: CycleResult
    version: int  # Another one after each cycle.

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return self.result.decided


class Observers:
    """The loop's watcher, and what the routes read from."""

    def __init__(self, board: StatusStore) -> None:
        self.status = board
        self.history = RateHistoryStore()
        self.decisions = DecisionStore()
        self.hub = EventHub()
        self._lock = threading.Lock()
        self._version = 0
        self._forget: list[Callable[[], None]] = []

    # -- the loop's side ----------------------------------------------------------------------------------------------

    def record_cycle(self, observation: Observation, memory: Memory, decisions: tuple[Decision, ...]) -> None:
        # Before the version: who sees that makes what holds until the next cycle, of the picture and of what came before it.
        self.history.record_cycle(observation, self.status.limits)
        with self._lock:
            self.status.record_cycle(observation, memory, decisions)
            self._version += 1
        for forget in self._forget:
            forget()
        live = observation.live
        moving = len(live.moves) if isinstance(live, LiveCluster) else None
        self.hub.publish("cycle", {"at_ms": observation.now_ms, "moving_partitions": moving})

    def record_actions(self, acts: Sequence[Acted]) -> None:
        self.status.record_actions(acts)
        text, failure = outcome_text(acts)
        self.hub.publish("acted", {"text": text, "failure": failure})

    def wrap_journal(self, write: Callable[..., None]) -> RecordedJournal:
        """A journal that tells what it has taken."""
        return RecordedJournal(write, self.decisions)

    def load_history(self, entries: Sequence[Entry]) -> None:
        """What is on record from before this process acted."""
        self.decisions.load_history(entries)
        self.hub.publish("history", {"decisions": len(entries)})

    # -- the reader's side --------------------------------------------------------------------------------------------

    def on_new_cycle(self, forget: Callable[[], None]) -> None:
        """Who keeps a picture lets go of it as the next one comes: what of a large cluster is gone then takes a while to be
        freed, and whoever holds it last waits for that."""
        self._forget.append(forget)

    @property
    def version(self) -> int:
        return self._version

    def snapshot(self) -> CycleSnapshot:
        with self._lock:
            return CycleSnapshot(self.status.snapshot(), self._version)

    def orders(self) -> Orders:
        """As the loop has read them last."""
        seen = self.status.snapshot().observation
        return seen.orders if seen is not None else Orders()
