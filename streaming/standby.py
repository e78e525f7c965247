"""Waits for the lease of the cluster's streams. Meanwhile it warms up the Spark session.

A cold session needs about ten seconds from the start of a query to its first batch, because Java loads and compiles the classes. So
a standby runs the query once without output.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

import kafka.errors
import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from streaming.errors import StreamError
from streaming.failure_causes import first_line
from streaming.shared.kafka.cluster import ClusterError

log = structlog.get_logger("stream")

# If there is no other stream, this stream gets the lease within this time, because Kafka answers the first member of a group after
# 3 s by default. Then a warm-up would only delay the first signals.
WARM_UP_AFTER_S = 4.0
_POLL_S = 0.1


class StreamLease(Protocol):
    """The lease of this stream (``PartLease``)."""

    def holds(self) -> bool: ...

    def stands_by(self) -> bool: ...

    def hangs(self) -> bool: ...

    def follows_another(self) -> bool: ...

    def sign(self) -> None: ...

    def close(self) -> None: ...


class StreamStandby:
    """Waits for the lease, each time that the stream does not hold it."""

    def __init__(
        self,
        lease: StreamLease,
        stop: threading.Event,
        warm_up: Callable[[Callable[[], bool]], None],
        on_change: Callable[[bool], None],
        on_wait: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """
        Args:
            warm_up: runs the query once without output; ends early when its argument returns true.
            on_change: called with True when the stream has the lease, and with False when it becomes a standby.
            on_wait: called again and again while the stream waits. Its argument tells whether the session is warm.
        """
        self._lease = lease
        self._stop = stop
        self._warm_up = warm_up
        self._on_change = on_change
        self._on_wait = on_wait
        self._is_warm = False

    def wait(self) -> bool:
        """Returns True once this stream has the lease, False if ``stop`` was set before."""
        if not self._lease.holds():
            self._on_change(False)
        until_s = time.monotonic() + WARM_UP_AFTER_S
        while not self._lease.holds() and not self._stop.wait(_POLL_S):
            self._on_wait(self._is_warm)
            if not self._is_warm and time.monotonic() >= until_s:
                self._is_warm = True
                self._try_warm_up()
        if self._stop.is_set():
            return False
        self._is_warm = True
        self._on_change(True)
        return True

    def _try_warm_up(self) -> None:
        began_s = time.monotonic()
        try:
            self._warm_up(self._is_over)
        # A query that cannot run reports its cause when it starts.
        except (PySparkException, Py4JError, kafka.errors.KafkaError, ClusterError, StreamError, OSError) as error:
            log.warning(
                "the standby could not be warmed up, so its first signals will take longer", error=first_line(error)
            )
            return
        if not self._is_over():
            log.info("the standby is warm", took_s=round(time.monotonic() - began_s, 1))

    def _is_over(self) -> bool:
        return self._stop.is_set() or self._lease.holds()
