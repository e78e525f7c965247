"""Stands in the controller's line like anybody who creates a topic, some times a second, and says how long that takes.

What the cluster counts does not show it: a broker's time of creations is of all of them, a storm's large ones too, and their
mean and median stay where they are while one in twenty takes three times as long (docs/performance.md). So rheostat asks itself,
through some brokers in turn, at moments that fall in with nobody's clock, and with a client that nothing else waits for.

Invariant: nothing is created by it. Where it may not ask, or nobody answers, nothing is told, and the reason is said once.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from streaming.kafka.cluster import ClusterError
from streaming.kafka.values import Endpoint, MissingRight
from tuner.model.felt_window import Asked, FeltWindow
from tuner.teardown import named

log = structlog.get_logger("tuner")

EVERY_S = 0.2  # On average; each is a fraction of a millisecond of the controller's time.
BROKERS_MAX = 5  # With more of them, each would be asked too seldom for a figure of its own.
_LOOK_EVERY_S = 30.0  # Who is there.
_NOBODY_REST_S = 1.0
_FAILED_REST_S = 30.0  # A broker that did not answer would hold up those that do.
_REFUSED_REST_S = 60.0
_STOP_S_MAX = 1.0
_IN_VAIN = 0.9  # Of the time-out: whatever failed sooner has failed for another reason.
# Woken so late we were late ourselves, and the answer would have been taken off the line as late.
_LATE_S_MAX = 0.05


class Asker(Protocol):
    timeout_s: float

    def brokers(self) -> Sequence[Endpoint]: ...

    def ask(self, broker: int) -> ClusterError | None: ...

    def close(self) -> None: ...


class CreationProbe:
    """A thread of its own, which alone uses the asker."""

    def __init__(self, asker: Asker, *, rng: random.Random, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._asker = asker
        self._rng = rng
        self._monotonic = monotonic
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._window = FeltWindow()
        self._brokers: tuple[int, ...] = ()
        self._looks_s = float("-inf")  # Who is there.
        self._turn = 0
        self._met: set[int] = set()  # To whom there is a connection: to make one is not what is asked for.
        self._rest_until_s: dict[int, float] = {}
        self._last: str | None = None  # What the last one of them said who did not answer.
        self._said: str | None = None
        self._thread = threading.Thread(target=self._run, name="creation-probe", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Whoever takes it down waits for no answer: one that is asked for just then is let come, and the thread ends after it."""
        self._stop.set()
        self._thread.join(timeout=_STOP_S_MAX)

    def felt_ms(self) -> float | None:
        """From any thread. None: too little is known."""
        with self._lock:
            felt_s = self._window.felt_s(self._monotonic())
        return None if felt_s is None else 1000 * felt_s

    def _run(self) -> None:
        due_s = self._monotonic()
        try:
            while not self._stop.wait(max(0.0, due_s - self._monotonic())):
                rest_s = self.once(due_s)
                # What fell due meanwhile is counted already.
                due_s = max(due_s, self._monotonic()) + rest_s + EVERY_S * self._rng.uniform(0.5, 1.5)
        finally:
            named("creation asker", self._asker.close)()

    def once(self, due_s: float) -> float:
        """Asks whose turn it is, and says how long to rest beyond the next one's time."""
        broker = self._next()
        if broker is None:
            return _NOBODY_REST_S
        began_s = self._monotonic()
        refused = self._asker.ask(broker)
        ended_s = self._monotonic()
        if isinstance(refused, MissingRight):
            self._say("it may not be asked for", str(refused))
            return _REFUSED_REST_S
        if refused is None:
            self._said = None
            counts = broker in self._met and began_s - due_s <= _LATE_S_MAX
            self._met.add(broker)
        else:
            # One that is known to be gone has made nobody wait.
            counts = ended_s - began_s >= _IN_VAIN * self._asker.timeout_s
            self._met.discard(broker)
            self._rest_until_s[broker] = ended_s + _FAILED_REST_S
            self._last = str(refused)
        if counts:
            with self._lock:
                self._window.add(Asked(began_s, ended_s - began_s, broker), EVERY_S)
        return 0.0

    def _next(self) -> int | None:
        """Whose turn it is; None: nobody's now."""
        now_s = self._monotonic()
        if now_s >= self._looks_s:
            try:
                self._brokers = self._some_of([broker.node for broker in self._asker.brokers()])
            except ClusterError as error:
                self._say("it is not known who is there", str(error))
                return None
            self._looks_s = self._monotonic() + _LOOK_EVERY_S
        there = [broker for broker in self._brokers if self._rest_until_s.get(broker, now_s) <= now_s]
        if not there:
            self._say("no broker answers", self._last)
            return None
        self._turn += 1
        return there[self._turn % len(there)]

    def _some_of(self, there: Sequence[int]) -> tuple[int, ...]:
        """Those of before that are still there, and others by chance; they are asked in no order of Kafka's."""
        kept = [broker for broker in self._brokers if broker in there]
        others = [broker for broker in there if broker not in kept]
        more = min(len(others), max(0, BROKERS_MAX - len(kept)))
        return (*kept, *self._rng.sample(others, more))

    def _say(self, trouble: str, error: str | None) -> None:
        """Once, until somebody answers again."""
        if trouble != self._said:
            log.warning("how long creations take is not felt, so nothing is raised", reason=trouble, error=error)
        self._said = trouble
