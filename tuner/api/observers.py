"""Where the loop's word goes: to the board, to the charts, and to whoever listens. One cycle is one picture for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuner.api.decisions import Decisions, RecordedJournal
from tuner.api.events import Hub
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

    snapshot: CycleResult
    version: int  # Another one after each cycle.

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return self.snapshot.decided


class Observers:
    """The loop's watcher, and what the routes read from."""

    def __init__(self, board: StatusStore) -> None:
        self.board = board
        self.history = RateHistoryStore()
        self.decisions = Decisions()
        self.hub = Hub()
        self._lock = threading.Lock()
        self._version = 0
        self._forget: list[Callable[[], None]] = []

    # -- the loop's side ----------------------------------------------------------------------------------------------

    def observed(self, observation: Observation, memory: Memory, decisions: tuple[Decision, ...]) -> None:
        # Before the version: who sees that makes what holds until the next cycle, of the picture and of what came before it.
        self.history.observed(observation, self.board.limits)
        with self._lock:
            self.board.observed(observation, memory, decisions)
            self._version += 1
        for forget in self._forget:
            forget()
        live = observation.live
        moving = len(live.moves) if isinstance(live, LiveCluster) else None
        self.hub.tell("cycle", {"at_ms": observation.now_ms, "moving_partitions": moving})

    def acted(self, acts: Sequence[Acted]) -> None:
        self.board.acted(acts)
        text, failure = outcome_text(acts)
        self.hub.tell("acted", {"text": text, "failure": failure})

    def on_record(self, write: Callable[..., None]) -> RecordedJournal:
        """A journal that tells what it has taken."""
        return RecordedJournal(write, self.decisions)

    def begin_with(self, entries: Sequence[Entry]) -> None:
        """What is on record from before this process acted."""
        self.decisions.begin_with(entries)
        self.hub.tell("history", {"decisions": len(entries)})

    # -- the reader's side --------------------------------------------------------------------------------------------

    def when_older(self, forget: Callable[[], None]) -> None:
        """Who keeps a picture lets go of it as the next one comes: what of a large cluster is gone then takes a while to be
        freed, and whoever holds it last waits for that."""
        self._forget.append(forget)

    @property
    def version(self) -> int:
        return self._version

    def picture(self) -> CycleSnapshot:
        with self._lock:
            return CycleSnapshot(self.board.snapshot(), self._version)

    def orders(self) -> Orders:
        """As the loop has read them last."""
        seen = self.board.snapshot().observation
        return seen.orders if seen is not None else Orders()
