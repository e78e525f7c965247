"""A thread that fills a store of the API from a topic, once a request asks for the store.

The thread reads nothing until the first request, because only the page and the API need these stores. A topic may have hundreds of
megabytes. So after each piece of work the thread pauses for as long as the work took, and the tuner's decisions do not wait for it.
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
    """Calls ``follow`` with a new consumer once the store is asked for, and again after an error, until ``stop``."""

    def __init__(
        self,
        name: str,
        create_consumer: Callable[[], KafkaConsumer],
        topic: str,
        store: ReadOnRequest,
        follow: Callable[[KafkaConsumer, BackgroundReader], None],
    ) -> None:
        """
        Args:
            name: of the topic in sentences, such as "history topic"; also names the thread.
            create_consumer: called in the thread; its consumer begins at the earliest record if its position is lost.
            follow: reads until ``is_stopping``; returns early if the topic does not exist yet. It calls ``pause`` after each piece
                of work.
        """
        self._name = name
        self._create_consumer = create_consumer
        self._topic = topic
        self._store = store
        self._follow = follow
        self._worked_from_s = 0.0
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader of the {name}", daemon=True)

    def start(self) -> None:
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
                self._store.mark_unreadable(f"the {self._name} {self._topic} cannot be read: {error}")
                log.warning(f"the {self._name} cannot be read", topic=self._topic, error=str(error))
            self._stop.wait(_AGAIN_S)
