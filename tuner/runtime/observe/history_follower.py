"""Follows the history topic for the week of each broker (tuner/api/week_store.py), in a thread of its own.

The thread reads nothing until the first request for a week, because only the page and the API need it. A week of a thousand brokers
is 700 MB of JSON. So after each piece of work the thread pauses for as long as the work took, and the tuner's decisions do not wait
for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog
from kafka import KafkaConsumer

from streaming.shared.contract import HistoryPeriod
from streaming.shared.kafka.history_topic import HistoryTopic
from tuner.api.week_store import PERIOD_MS, SLOTS, WeekStore
from tuner.journal.topic_tail import KAFKA_ERRORS
from tuner.runtime.clock import Clock

log = structlog.get_logger("tuner")

POLL_RECORDS_MAX = 20  # Records that one poll may unpack.
_WORK_S_MIN = 0.005  # Shorter work needs no pause.
_PAUSE_S_MAX = 0.05
_POLL_MS = 1_000
_AGAIN_S = 10.0
_STOP_S_MAX = 2.0
_CLOSE_MS = 1_000


class HistoryFollower:
    """Reads the last week of the history topic once a week is asked for, and then its new periods, until ``stop``."""

    def __init__(
        self, create_consumer: Callable[[], KafkaConsumer], topic: str, store: WeekStore, clock: Clock
    ) -> None:
        """
        Args:
            create_consumer: called in the thread; its consumer begins at the earliest record if its position is lost.
        """
        self._create_consumer = create_consumer
        self._topic = topic
        self._store = store
        self._clock = clock
        self._worked_from_s = 0.0
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history-follower", daemon=True)

    def start(self) -> None:
        self._store.on_request = self._wake.set
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. A poll in progress may continue for a second."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout=_STOP_S_MAX)

    def _run(self) -> None:
        self._wake.wait()
        while not self._stop.is_set():
            try:
                consumer = self._create_consumer()
                try:
                    self._follow(consumer)
                finally:
                    consumer.close(timeout_ms=_CLOSE_MS)
            except KAFKA_ERRORS as error:
                self._store.mark_unreadable(f"the history topic {self._topic} cannot be read: {error}")
                log.warning("the history topic cannot be read", topic=self._topic, error=str(error))
            self._stop.wait(_AGAIN_S)

    def _follow(self, consumer: KafkaConsumer) -> None:
        """Reads until ``stop``; returns early if the topic does not exist yet."""
        history = HistoryTopic(consumer, self._topic)
        for period in history.periods(self._store.cluster, self._clock.now_ms() - SLOTS * PERIOD_MS):
            self._add(period)
            if self._stop.is_set():
                return
        self._store.mark_read()
        while consumer.assignment() and not self._stop.is_set():
            for period in history.new_periods(self._store.cluster, _POLL_MS):
                self._add(period)

    def _add(self, period: HistoryPeriod) -> None:
        self._store.add(period, self._clock.now_ms())
        worked_s = time.monotonic() - self._worked_from_s
        if worked_s >= _WORK_S_MIN:
            self._stop.wait(min(worked_s, _PAUSE_S_MAX))
            self._worked_from_s = time.monotonic()
