"""Follows the profiles topic in a thread of its own, so that the decision cycle never waits for it.

Profiles improve decisions, but no decision needs them. So if the topic is missing or cannot be read, this is only logged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import structlog
from kafka import KafkaConsumer

from streaming.shared.contract import BrokerProfile, ChangeEvent
from tuner.journal.topic_tail import KAFKA_ERRORS
from tuner.runtime.observe.profiles_reader import ProfilesReader

log = structlog.get_logger("tuner")

_EVERY_S = 15.0  # Profiles change every ten minutes at most.
_STOP_S_MAX = 2.0
_CLOSE_MS = 1_000


class ProfilesWatch:
    """Reads profiles until ``stop``."""

    def __init__(
        self,
        make_consumer: Callable[[], KafkaConsumer],
        topic: str,
        cluster: str,
        publish: Callable[[Mapping[int, BrokerProfile], Sequence[ChangeEvent]], None],
        *,
        every_s: float = _EVERY_S,
    ) -> None:
        """
        Args:
            make_consumer: called in the thread, and again after an error.
            publish: called in the thread with all profiles by broker and all events, after each read that returned records.
        """
        self._make_consumer = make_consumer
        self._topic = topic
        self._cluster = cluster
        self._publish = publish
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="profiles-watch", daemon=True)
        self.refused = 0  # Records that are not a valid profile.

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. A read in progress may continue for a while, and its result is dropped."""
        self._stop.set()
        self._thread.join(timeout=_STOP_S_MAX)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                consumer = self._make_consumer()
            except KAFKA_ERRORS as error:
                log.warning("the profiles topic cannot be read", topic=self._topic, error=str(error))
                self._stop.wait(self._every_s)
                continue
            try:
                self._follow(ProfilesReader(consumer, self._topic, self._cluster))
            finally:
                consumer.close(timeout_ms=_CLOSE_MS)

    def _follow(self, reader: ProfilesReader) -> None:
        while not self._stop.is_set():
            taken = reader.poll()
            self.refused = reader.refused.count
            if taken and not self._stop.is_set():
                self._publish(dict(reader.profiles), reader.events)
            self._stop.wait(self._every_s)
