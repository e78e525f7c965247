"""Stands in the controller's line like anybody who creates a topic, ten times a second, and says how long that takes.

What the cluster counts does not show it: a broker's time of creations is of all of them, a storm's large ones too, and their
mean and median stay where they are while one in twenty takes three times as long (docs/performance.md). So rheostat asks itself,
through some brokers in turn, at moments that fall in with nobody's clock, and with a client that nothing else waits for.

Invariant: nothing is created or altered by it. Where it may not ask, or nobody answers, nothing is told, and why is said once.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.values import Endpoint, MissingPermission
from streaming.shared.teardown import named_teardown
from tuner.control.mutation_quota.probe_window import ProbeRequest, ProbeWindow

log = structlog.get_logger("tuner")

EVERY_S = (
    0.1  # On average; each is a fraction of a millisecond of its time. With half as many it wavers half as much again.
)
BROKERS_MAX = 5  # With more of them, each would be asked too seldom for a figure of its own.
_LOOK_EVERY_S = 30.0  # Who is there.
_NOBODY_REST_S = 1.0
_FAILED_REST_S = 30.0  # A broker that did not answer would hold up those that do.
_REFUSED_REST_S = 60.0
_STOP_S_MAX = 1.0
_IN_VAIN = 0.9  # Of the time-out: whatever failed sooner has failed for another reason.
# Woken so late we were late ourselves, and the answer would have been taken off the line as late.
_LATE_S_MAX = 0.05
_SLOW_S = 1.0  # Who answers sooner shows that it was not the controller that kept another broker's answer back.


class ProbeClient(Protocol):
    timeout_s: float

    def brokers(self) -> Sequence[Endpoint]: ...

    def connect(self, broker: int) -> ClusterError | None:
        """Makes a connection."""

    def ping(self, broker: int) -> ClusterError | None: ...

    def close(self) -> None: ...


class CreationProbe:
    """A thread of its own, which alone uses the asker."""

    def __init__(
        self, asker: ProbeClient, *, rng: random.Random, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._asker = asker
        self._rng = rng
        self._monotonic = monotonic
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._window = ProbeWindow()
        self._brokers: tuple[int, ...] = ()
        self._looks_s = float("-inf")  # Who is there.
        self._turn = 0
        self._met: set[int] = set()  # To whom there is a connection.
        self._rest_until_s: dict[int, float] = {}
        self._in_vain: ProbeRequest | None = (
            None  # Not counted yet: who is asked next tells whether it was the controller.
        )
        self._said: str | None = None
        self._thread = threading.Thread(target=self._run, name="creation-probe", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Whoever takes it down waits for no answer: one that is asked for just then is let come, and the thread ends after it."""
        self._stop.set()
        if self._thread.ident is None:
            self._asker.close()
        else:
            self._thread.join(timeout=_STOP_S_MAX)

    def p90_ms(self) -> float | None:
        """From any thread. None: too little is known."""
        with self._lock:
            p90_s = self._window.p90_s(self._monotonic())
        return None if p90_s is None else 1000 * p90_s

    def _run(self) -> None:
        due_s = self._monotonic()
        try:
            while not self._stop.wait(max(0.0, due_s - self._monotonic())):
                try:
                    rest_s = self.once(due_s)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is no reason to be blind for the rest of the term
                    self._say("something nobody foresaw", f"{type(error).__name__}: {error}")
                    self._met.clear()
                    rest_s = _REFUSED_REST_S
                # What fell due meanwhile is counted already.
                due_s = max(due_s, self._monotonic()) + rest_s + EVERY_S * self._rng.uniform(0.5, 1.5)
        finally:
            named_teardown("controller asker", self._asker.close)()

    def once(self, due_s: float) -> float:
        """Asks whose turn it is, and says how long to rest beyond the next one's time."""
        broker = self._next()
        if broker is None:
            return _NOBODY_REST_S
        # To make a connection is not what is asked for, and a broker that lets nobody in is not the controller.
        if broker not in self._met:
            refused = self._asker.connect(broker)
            if refused is not None:
                return self._failed(broker, refused)
            self._met.add(broker)
            return 0.0
        began_s = self._monotonic()
        refused = self._asker.ping(broker)
        ended_s = self._monotonic()
        asked = ProbeRequest(began_s, ended_s - began_s, broker)
        if isinstance(refused, MissingPermission):
            self._say("it may not be asked for", str(refused))
            return _REFUSED_REST_S
        if refused is None:
            self._said = None
            self._rest_until_s.pop(broker, None)
            self._count(asked if began_s - due_s <= _LATE_S_MAX else None, slow=asked.took_s >= _SLOW_S)
            return 0.0
        # Whatever failed sooner has made nobody wait.
        if asked.took_s >= _IN_VAIN * self._asker.timeout_s:
            confirmed = self._in_vain is not None or len(self._brokers) == 1
            self._count(asked if confirmed else None, slow=confirmed)
            self._in_vain = None if confirmed else asked
        return self._failed(broker, refused)

    def _count(self, asked: ProbeRequest | None, *, slow: bool) -> None:
        """
        Args:
            slow: so was what was waited for in vain before it: it was not one broker's own.
        """
        before, self._in_vain = self._in_vain, None
        with self._lock:
            for one in (before if slow else None, asked):
                if one is not None:
                    self._window.add(one, EVERY_S)

    def _failed(self, broker: int, refused: ClusterError) -> float:
        now_s = self._monotonic()
        self._met.clear()
        alone = self._rest_until_s.get(broker, now_s) > now_s
        self._rest_until_s[broker] = now_s + _FAILED_REST_S
        if not alone:
            return 0.0
        self._say("no broker answers", str(refused))
        return _NOBODY_REST_S

    def _next(self) -> int | None:
        """Whose turn it is; None: nobody is known."""
        now_s = self._monotonic()
        if now_s >= self._looks_s:
            try:
                self._brokers = self._some_of([broker.node for broker in self._asker.brokers()], now_s)
            except ClusterError as error:
                self._met.clear()
                self._say("it is not known who is there", str(error))
                return None
            self._looks_s = self._monotonic() + _LOOK_EVERY_S
        if not self._brokers:
            return None
        there = [broker for broker in self._brokers if not self._rests(broker, now_s)]
        # Where none is left, the one that has rested for longest: else nothing would be known while nobody answers.
        there = there or [min(self._brokers, key=lambda broker: self._rest_until_s[broker])]
        self._turn += 1
        return there[self._turn % len(there)]

    def _rests(self, broker: int, now_s: float) -> bool:
        return self._rest_until_s.get(broker, now_s) > now_s

    def _some_of(self, there: Sequence[int], now_s: float) -> tuple[int, ...]:
        """Those of before that are still there and well, others by chance, and who rests only where there are no others."""
        kept = [broker for broker in self._brokers if broker in there and not self._rests(broker, now_s)]
        fresh = [broker for broker in there if broker not in self._brokers and not self._rests(broker, now_s)]
        more = self._rng.sample(fresh, min(len(fresh), BROKERS_MAX - len(kept)))
        rest = [broker for broker in there if self._rests(broker, now_s)]
        return (*kept, *more, *rest)[:BROKERS_MAX]

    def _say(self, trouble: str, error: str) -> None:
        """Once, until somebody answers again."""
        if trouble != self._said:
            log.warning("how long creations take is not felt, so nothing is raised", reason=trouble, error=error)
        self._said = trouble
