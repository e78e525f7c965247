"""Finds the signals that a cycle lacked, so that the next cycle can start as soon as these signals arrive.

The sizes and write rates of a new move are known after two scrapes, often just after a cycle. The tuner checks for these signals
every second, so that the move does not keep an arbitrary rate for most of a cycle.

Invariant: only incomplete signals cause an early cycle. If a cycle held a side for another reason, a new signal does not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from streaming.shared.contract import MoveSignal
from tuner.control.throttle.decision import Decision, Hold, Reason
from tuner.core.cluster import BrokerSide
from tuner.core.freshness import Freshness, freshness

_SIGNAL_REASONS = {Reason.SIGNALS_MISSING, Reason.SIGNALS_STALE, Reason.SIGNALS_CONTRADICT}


def find_missing_signals(
    decisions: Iterable[Decision], moves: Mapping[BrokerSide, MoveSignal], now_ms: int, age_s_max: float
) -> frozenset[BrokerSide]:
    """Returns the sides that a cycle held because their signals are missing, old or incomplete."""
    held = {
        (d.broker, d.side)
        for d in decisions
        if isinstance(d, Hold) and d.reason in _SIGNAL_REASONS and d.broker is not None and d.side is not None
    }
    return frozenset(side for side in held if not _is_complete(moves.get(side), now_ms, age_s_max))


def are_signals_complete(
    sides: Collection[BrokerSide], moves: Mapping[BrokerSide, MoveSignal], now_ms: int, age_s_max: float
) -> bool:
    """Whether the signals of all sides are complete. A cycle for each complete signal would be one a second on a large cluster."""
    return bool(sides) and all(_is_complete(moves.get(side), now_ms, age_s_max) for side in sides)


def _is_complete(signal: MoveSignal | None, now_ms: int, age_s_max: float) -> bool:
    if signal is None or freshness(signal, now_ms, age_s_max) is not Freshness.FRESH or signal.moving_partitions == 0:
        return False
    return signal.remaining_bytes is not None and signal.steady_state_bytes_per_s is not None
