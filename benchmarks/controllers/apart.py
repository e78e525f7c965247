"""Runs the storm and the latency probe in processes of their own.

In one process, encoding the requests of a storm or reading signals delays the requests that are timed: the measured latency of a
well-behaved tenant would grow with the size of the storm. In production these are different machines.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait

from benchmarks.apart import Apart
from benchmarks.controllers.storm import Request, Storm, StormTenant
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.controller_ping import ControllerPing
from tuner.runtime.mutation_quota.creation_probe import CreationProbe

_STARTS_S_MAX = 60.0
_BEGINS_S = 0.5  # Until all processes know when to begin.
# Requests in progress at the end are awaited. If quotas admit almost nothing, that takes minutes.
_ENDS_S_MAX = 300.0
_ANSWERS_S_MAX = 10.0


class Crowds:
    """Processes with groups of tenants; all groups begin at the same time."""

    def __init__(self, servers: Sequence[str], crowds: Sequence[Sequence[StormTenant]], seconds: float) -> None:
        self._seconds = seconds
        self._parts = [Apart(_blow, servers, list(crowd), seconds) for crowd in crowds if crowd]
        self._began_s = float("inf")

    def now_s(self) -> float:
        return time.monotonic() - self._began_s

    def blown(self, every_s: float, look: Callable[[float], None]) -> list[Request]:
        """Returns the results of all requests at the end of the storm; calls ``look`` in the meantime.

        Raises:
            ClusterError: a process has died, does not begin, or does not end.
        """
        requests: list[Request] = []
        pending = {part.line: part for part in self._parts}
        try:
            for part in self._parts:
                part.answer(_STARTS_S_MAX)
            self._began_s = time.monotonic() + _BEGINS_S
            for part in self._parts:
                part.tell(self._began_s)
            while pending:
                for line in wait(list(pending), timeout=every_s):
                    assert isinstance(line, Connection)
                    requests += pending.pop(line).answer()
                if self.now_s() > self._seconds + _ENDS_S_MAX:
                    raise ClusterError(f"a storm of {self._seconds:.0f} s has not ended after {self.now_s():.0f} s")
                if self.now_s() >= 0:
                    look(self.now_s())
        finally:
            for part in self._parts:
                part.end()
        return requests


class Feeling:
    """Measures the p90 of the topic-create latency with rheostat's probe, independently of rheostat."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._part = Apart(_feel, settings, topic)

    def felt_ms(self) -> float | None:
        self._part.tell(None)
        felt_ms: float | None = self._part.answer(_ANSWERS_S_MAX)
        return felt_ms

    def stop(self) -> None:
        self._part.end()


def _blow(line: Connection, servers: Sequence[str], tenants: Sequence[StormTenant], seconds: float) -> None:
    storm = Storm(servers)
    line.send(None)
    line.send(storm.run(tenants, seconds, began_s=line.recv()))


def _feel(line: Connection, settings: KafkaSettings, topic: str) -> None:
    probe = CreationProbe(ControllerPing(settings, "bench-felt", topic), rng=random.Random(1))
    probe.start()
    try:
        with suppress(EOFError):
            while True:
                line.recv()
                line.send(probe.p90_ms())
    finally:
        probe.stop()
