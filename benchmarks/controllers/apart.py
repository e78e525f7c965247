"""Who blows and who feels, each in a process of its own.

In one process, who encodes a storm's requests, or reads signals, keeps those waiting that are timed beside it: a well-behaved
tenant's creation was late for the benchmark's sake, and more so the more of a storm there was. In life they are different
machines.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait

from rheostat.lab.storm import Request, Storm, Tenant
from streaming.kafka import KafkaSettings
from streaming.kafka.cluster import ClusterError
from streaming.kafka.controller_asker import ControllerAsker
from tuner.observe.creation_probe import CreationProbe

_SPAWN = multiprocessing.get_context("spawn")
_STARTS_S = 3.0  # A process, with all that it imports.
_ENDS_S_MAX = 90.0  # What is under way when the time is over is waited for.
_ANSWERS_S_MAX = 10.0


class Crowds:
    """Groups of tenants, all of which begin at the same moment."""

    def __init__(self, servers: Sequence[str], crowds: Sequence[Sequence[Tenant]], seconds: float) -> None:
        self._seconds = seconds
        self._began_s = time.monotonic() + _STARTS_S
        self._parts = [_Part(_blow, servers, list(crowd), seconds, self._began_s) for crowd in crowds if crowd]

    def now_s(self) -> float:
        return time.monotonic() - self._began_s

    def blown(self, every_s: float, look: Callable[[float], None]) -> list[Request]:
        """What came of all requests, in the end; ``look`` is called meanwhile.

        Raises:
            ClusterError: a process died, or does not end.
        """
        requests: list[Request] = []
        pending = {part.line: part for part in self._parts}
        try:
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
    """What 9 of 10 creations wait for, as rheostat's own asker feels it, and independent of it."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._part = _Part(_feel, settings, topic)

    def felt_ms(self) -> float | None:
        self._part.line.send(None)
        if not self._part.line.poll(_ANSWERS_S_MAX):
            raise ClusterError("the process that feels does not answer")
        felt_ms: float | None = self._part.answer()
        return felt_ms

    def stop(self) -> None:
        self._part.end()


class _Part:
    def __init__(self, target: Callable[..., None], *asked: object) -> None:
        self.line, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=target, args=(theirs, *asked), daemon=True)
        self._process.start()
        theirs.close()

    def answer(self):  # type: ignore[no-untyped-def]  # whatever the process sends
        try:
            return self.line.recv()
        except EOFError:
            raise ClusterError(f"a process of the benchmark's died, with code {self._process.exitcode}") from None

    def end(self) -> None:
        self.line.close()
        self._process.join(timeout=5.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(timeout=5.0)


def _blow(line: Connection, servers: Sequence[str], tenants: Sequence[Tenant], seconds: float, began_s: float) -> None:
    storm = Storm(servers)
    line.send(storm.run(tenants, seconds, began_s=began_s))


def _feel(line: Connection, settings: KafkaSettings, topic: str) -> None:
    probe = CreationProbe(ControllerAsker(settings, "bench-felt", topic), rng=random.Random(1))
    probe.start()
    try:
        with suppress(EOFError):
            while True:
                line.recv()
                line.send(probe.felt_ms())
    finally:
        probe.stop()
