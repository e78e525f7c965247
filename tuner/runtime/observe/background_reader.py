"""A thread that reads a topic, so that the decision cycle never waits for it.

No decision needs a topic that is read in this way. So if the topic is missing or cannot be read, the thread logs the error and
tries again.

A thread that fills a store of the API reads nothing until the first request, because only the page and the API need the store. A
topic may have hundreds of megabytes, so after each piece of work the thread pauses for as long as the work took.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog
from kafka import KafkaConsumer

from tuner.api.read_on_request import ReadOnRequest
from tuner.journal.topic_tail import KAFKA_ERRORS

log = structlog.get_logger("tuner")

POLL_RECORDS_MAX = 20  # Records that one poll may unpack.
_WORK_S_MIN = 0.005  # Shorter work needs no pause.
_PAUSE_S_MAX = 0.05
_AGAIN_S = 10.0
_STOP_S_MAX = 2.0
_CLOSE_MS = 1_000


class BackgroundReader:
    """Calls ``follow`` with a new consumer, and again after an error, until ``stop``."""

    def __init__(
        self,
        name: str,
        create_consumer: Callable[[], KafkaConsumer],
        topic: str,
        follow: Callable[[KafkaConsumer, BackgroundReader], None],
        *,
        store: ReadOnRequest | None = None,
        again_s: float | None = None,
    ) -> None:
        """
        Args:
            name: the name of the topic in sentences, such as "history topic". It is also the name of the thread.
            create_consumer: called in the thread. The consumer begins at the earliest record if its position is lost.
            follow: reads until ``is_stopping``; returns early if the topic does not exist yet. After each piece of work, it calls
                ``pause`` or ``wait``.
            store: the thread begins once a request asks for this store, and reports errors to the store; None if the thread begins
                at once.
            again_s: seconds until the next attempt after an error; None means ten seconds.
        """
        self._name = name
        self._create_consumer = create_consumer
        self._topic = topic
        self._store = store
        self._follow = follow
        self._again_s = _AGAIN_S if again_s is None else again_s
        self._worked_from_s = 0.0
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader of the {name}", daemon=True)

    def start(self) -> None:
        if self._store is None:
            self._wake.set()
        else:
            self._store.on_request = self._wake.set
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. A poll in progress may continue for a second."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout=_STOP_S_MAX)

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    def wait(self, time_s: float) -> None:
        """Waits until the time has passed or the thread has to stop."""
        self._stop.wait(time_s)

    def pause(self) -> None:
        """Waits for as long as the work since the last pause took, if that was more than a moment."""
        worked_s = time.monotonic() - self._worked_from_s
        if worked_s >= _WORK_S_MIN:
            self._stop.wait(min(worked_s, _PAUSE_S_MAX))
            self._worked_from_s = time.monotonic()

    def _run(self) -> None:
        self._wake.wait()
        while not self.is_stopping:
            try:
                consumer = self._create_consumer()
                try:
                    self._follow(consumer, self)
                finally:
                    consumer.close(timeout_ms=_CLOSE_MS)
            except KAFKA_ERRORS as error:
                if self._store is not None:
                    self._store.mark_unreadable(f"the {self._name} {self._topic} cannot be read: {error}")
                log.warning(f"the {self._name} cannot be read; trying again", topic=self._topic, error=str(error))
            self._stop.wait(self._again_s)
