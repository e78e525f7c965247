"""When does a cycle come before its time, and what does it look at?

Intuition: a guard on his rounds. Between two of them he comes when he is called (a step is about to begin or has ended, somebody
has given an order) or when what he had to do without has arrived; he never runs, and however often he is called, every so often
he still walks the whole building.

Invariant: a cycle that is called for rests as long as the last one weighed on the processor or on the brokers. None is called
for by an order or an end between two looks that tell whether a move has ended, nor by anything while a rate is missing: those
are told apart by looks that are a cycle apart.

Vocabulary:
    early  for what is announced, has ended or is ordered, beside the cycles that come by themselves.
    full   a look at everything, not only at what moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tuner.control.throttle.decision import Decision
from tuner.control.throttle.missing_signals import awaited, have_come
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, Observation
from tuner.core.operator_orders import Orders
from tuner.runtime.throttle.steering_tick import NewestSignals

FULL_LOOK_EVERY = 6
# So many of them count as one that comes by itself: where steps begin all the time, no other kind may come.
EARLY_A_CYCLE = 5
LOOK_EVERY_S = 1.0  # For signals that were missing, and for orders.
# What has ended waits so long for what is about to begin, as every change of lists costs brokers something, and one does for both.
ENDED_S_MIN = 2.0
# Of a large cluster's processor early cycles may have a fifth. Brokers that are slow to answer get as long to rest, but no more
# than a second: slots that have come free would stand empty.
_EARLY_S_MIN, _REST_PER_CYCLE = 1.0, 4.0


class OrdersGiven(Protocol):
    @property
    def latest(self) -> Orders: ...

    overtaken: tuple[Orders, ...]  # What was in force since this was emptied, before the latest; the oldest first.

    def follow(self, wait_ms: int = ...) -> None: ...


class CycleScheduler:
    def __init__(
        self,
        orders: OrdersGiven,
        signals: NewestSignals,
        *,
        signal_age_s_max: float,
        wall_clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._orders = orders
        self._signals = signals
        self._signal_age_s_max = signal_age_s_max
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._awaited: frozenset[BrokerSide] = frozenset()
        self._full_in = 0  # Until everything is looked at, in early cycles.
        self._early = False
        self._rested_at_s = self._began_at_s = float("-inf")
        self._heard_at_s = float("-inf")  # When orders were listened for last.
        self._heeded = orders.latest  # By the last cycle.

    def are_due(self, *, announced: bool, ended: bool, memory: Memory) -> bool:
        """Whether one is: all that the last cycle lacked has come, a step is about to begin or has ended, or somebody has given an
        order. To be asked every ``LOOK_EVERY_S``, and whenever a step may have been announced."""
        now_s = self._monotonic()
        if now_s >= self._heard_at_s + LOOK_EVERY_S:
            self._heard_at_s = now_s
            self._orders.follow(wait_ms=0)
        # Whether a move has ended is told by looks that are a cycle apart: tools that move in batches have pauses.
        rested = ended and now_s >= self._began_at_s + ENDED_S_MIN
        called = (rested or self._orders.latest != self._heeded) and not memory.idle_looks
        # A rate that was not there at the last look may be one of many that a tool is removing: a second later it would be
        # taken for a person's word.
        if (announced or called) and not memory.missing and now_s >= self._rested_at_s:
            self._early = True
            return True
        if not self._awaited:
            return False
        self._signals.poll()
        now_ms = round(self._wall_clock() * 1000)
        return have_come(self._awaited, self._signals.moves, now_ms, self._signal_age_s_max)

    def begins(self) -> bool:
        """A cycle does, early or not, and heeds all orders given until now. Returns whether its look is to be a full one."""
        self._orders.follow()
        self._heeded = self._orders.latest
        if full := self._full_in <= 0:
            self._full_in = FULL_LOOK_EVERY * EARLY_A_CYCLE
        self._full_in -= 1 if self._early else EARLY_A_CYCLE
        self._early = False
        return full

    def lacks(self, decisions: tuple[Decision, ...], observation: Observation) -> None:
        """What this cycle had to do without is waited for."""
        self._awaited = awaited(decisions, observation.moves, observation.now_ms, self._signal_age_s_max)

    def ends(self, took_s: float, processor_s: float) -> None:
        """
        Args:
            took_s, processor_s: by the clock, and what it has used of the processor.
        """
        now_s = self._monotonic()
        rest_s = max(_REST_PER_CYCLE * processor_s, min(took_s, _EARLY_S_MIN))
        self._began_at_s = now_s - took_s
        self._rested_at_s = max(now_s - took_s + _EARLY_S_MIN, now_s + rest_s)
