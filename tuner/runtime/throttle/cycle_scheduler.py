"""Decides when a throttle cycle runs before its regular time, and which cycles scan the whole cluster.

A cycle runs early when a step of a plan is about to begin or has ended, when a recovery has begun, when the last cycle has started
a rate, when an operator has given an order, or when the signals that the last cycle lacked have arrived.

Invariants:
    After each cycle, steps and orders cause no early cycle for a pause that depends on the CPU time and the duration of the cycle.
    While the controller is deciding whether a move has ended, neither orders nor ended steps cause an early cycle. While a rate is
    missing, neither steps nor orders do. Both cases need snapshots that are a regular cycle apart.
    The arrival of missing signals may cause an early cycle at any time.

Terms:
    early cycle  a cycle between two regular cycles.
    full scan    a snapshot of all brokers and topics, not only of those that take part in a move.
"""

from __future__ import annotations

from typing import Protocol

from tuner.control.throttle.decision import Decision
from tuner.control.throttle.missing_signals import are_signals_complete, find_missing_signals
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, Observation
from tuner.core.operator_orders import Orders
from tuner.runtime.clock import Clock
from tuner.runtime.ports import CurrentOrders
from tuner.runtime.throttle.steering_tick import LatestSignals

FULL_SCAN_EVERY = 6  # Number of regular cycles from one full scan to the next.
# If steps begin all the time, only early cycles run. For the interval of full scans, this number of early cycles therefore
# counts as one regular cycle.
EARLY_PER_REGULAR = 5
CHECK_EVERY_S = 1.0  # Interval of checks for missing signals and for orders.
# After a step has ended, no early cycle runs for this time. Often another step begins meanwhile, and one change of the replica
# lists then serves both; each change costs the brokers time.
ENDED_S_MIN = 2.0
# The pause after a cycle is four times its CPU time, so that early cycles use at most a fifth of the CPU.
_REST_PER_CYCLE = 4.0
# If brokers answer slowly, the pause is at least as long as the cycle, up to this limit: a longer pause would leave free slots of
# plans unused. An early cycle also begins at least this long after the beginning of the last cycle.
_EARLY_S_MIN = 1.0


class OrdersFeed(CurrentOrders, Protocol):
    """The operator orders, including orders that were replaced before a cycle could act on them."""

    # Earlier orders that were in force since the throttle controller last emptied this, the oldest first.
    superseded: tuple[Orders, ...]

    def follow(self, wait_ms: int = ...) -> None:
        """Reads new orders."""


class CycleScheduler:
    def __init__(self, orders: OrdersFeed, signals: LatestSignals, clock: Clock, *, signal_age_s_max: float) -> None:
        self._orders = orders
        self._signals = signals
        self._clock = clock
        self._signal_age_s_max = signal_age_s_max
        self._missing_signals: frozenset[BrokerSide] = frozenset()  # Sides whose signals the last cycle lacked.
        self._full_scan_in = 0  # Number of early cycles until the next full scan.
        self._is_early = False
        self._early_allowed_at_s = self._began_at_s = float("-inf")
        self._orders_read_at_s = float("-inf")
        self._orders_applied = orders.latest  # The orders that the last cycle applied.

    def is_early_cycle_due(self, *, requested: bool, step_ended: bool, memory: Memory) -> bool:
        """Returns whether a cycle has to run now. Call it every ``CHECK_EVERY_S``, and when a step may have been prepared.

        Args:
            requested: a step of a plan waits to be throttled before it begins, a recovery has begun, or a rate has started.
            step_ended: a step of a plan has ended, and its replicas are still on the throttled-replica lists.
        """
        now_s = self._clock.monotonic_s()
        if now_s >= self._orders_read_at_s + CHECK_EVERY_S:
            self._orders_read_at_s = now_s
            self._orders.follow(wait_ms=0)
        # Tools that move partitions in batches pause between the batches. Several snapshots without a move, each a regular cycle
        # after the last, show that the move has ended. So no early cycle may run while ``idle_snapshots`` counts these snapshots.
        has_ended = step_ended and now_s >= self._began_at_s + ENDED_S_MIN
        has_new_orders = self._orders.latest != self._orders_applied
        is_requested = requested or ((has_ended or has_new_orders) and not memory.idle_snapshots)
        # A tool that removes all rates at the end of its move takes longer than a second. An early cycle in between would take the
        # removal of the first rates for an operator's decision, so none runs while rates are missing.
        if is_requested and not memory.missing_rates and now_s >= self._early_allowed_at_s:
            self._is_early = True
            return True
        if not self._missing_signals:
            return False
        self._signals.poll()
        return are_signals_complete(
            self._missing_signals, self._signals.moves, self._clock.now_ms(), self._signal_age_s_max
        )

    def begin_cycle(self) -> bool:
        """Reads all orders for the cycle that begins now. Returns whether its snapshot has to be a full scan."""
        self._orders.follow()
        self._orders_applied = self._orders.latest
        if full := self._full_scan_in <= 0:
            self._full_scan_in = FULL_SCAN_EVERY * EARLY_PER_REGULAR
        self._full_scan_in -= 1 if self._is_early else EARLY_PER_REGULAR
        self._is_early = False
        return full

    def await_signals(self, decisions: tuple[Decision, ...], observation: Observation) -> None:
        """Notes the signals that this cycle lacked, so that their arrival causes an early cycle."""
        self._missing_signals = find_missing_signals(
            decisions, observation.move_signals, observation.now_ms, self._signal_age_s_max
        )

    def end_cycle(self, took_s: float, processor_s: float) -> None:
        """Starts the pause after a cycle.

        Args:
            took_s: duration of the cycle.
            processor_s: CPU seconds that the cycle used.
        """
        now_s = self._clock.monotonic_s()
        rest_s = max(_REST_PER_CYCLE * processor_s, min(took_s, _EARLY_S_MIN))
        self._began_at_s = now_s - took_s
        self._early_allowed_at_s = max(now_s - took_s + _EARLY_S_MIN, now_s + rest_s)
