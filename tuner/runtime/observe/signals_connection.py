"""Connects the reader of the signals to a metrics cluster that is another cluster than the watched one.

The tuner must act in the watched cluster even while the metrics cluster does not answer: it restores the settings that a killed
tuner has left, and carries out orders. So a thread connects to the metrics cluster, and until then there are no signals.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from kafka import KafkaConsumer

from streaming.shared.kafka.settings import PemError
from tuner.journal.topic_tail import KAFKA_ERRORS

log = structlog.get_logger("tuner")

_EVERY_S = 5.0
_STOP_S_MAX = 1.0
_CLOSE_MS = 1_000


class SignalsConnection:
    """Connects once, and tries again until it succeeds or is stopped."""

    def __init__(
        self,
        create_consumer: Callable[[], KafkaConsumer],
        attach: Callable[[KafkaConsumer], None],
        *,
        every_s: float = _EVERY_S,
    ) -> None:
        """
        Args:
            create_consumer: called in the thread, and again after an error.
            attach: called in the thread with the consumer.
        """
        self._create_consumer = create_consumer
        self._attach = attach
        self._every_s = every_s
        self._consumer: KafkaConsumer | None = None
        self._lock = threading.Lock()  # Of ``_consumer`` and ``_stop``.
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signals-connection", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and closes the consumer. A consumer that is being created is closed by the thread."""
        with self._lock:
            self._stop.set()
        self._thread.join(timeout=_STOP_S_MAX)
        if self._consumer is not None:
            self._consumer.close(timeout_ms=_CLOSE_MS)

    def _run(self) -> None:
        logged: str | None = None
        while not self._stop.is_set():
            try:
                consumer = self._create_consumer()
            except (*KAFKA_ERRORS, PemError) as error:
                text = f"{type(error).__name__}: {error}"
                if text != logged:
                    log.warning(
                        "the metrics cluster does not answer, so there are no signals; trying again", error=text
                    )
                logged = text
                self._stop.wait(self._every_s)
                continue
            with self._lock:
                if not self._stop.is_set():
                    self._consumer = consumer
                    self._attach(consumer)
                    return
            consumer.close(timeout_ms=_CLOSE_MS)
