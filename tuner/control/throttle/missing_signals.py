"""Which signals did a cycle have to do without, and have they come since?

Intuition: a move that has just begun cannot be steered before its sizes and write rates have been measured twice, and until then
it goes at whatever rate stood there. What was missing in one cycle is there a second or two later, and would then lie for most
of a cycle. So the signals that a cycle lacked are looked for every second, and the next one begins when they have come.

Invariant: what is awaited was not there when the cycle looked; so a signal that is there and doubted for another reason brings
on no cycle, and one that never comes costs a look a second.
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
    """The sides that were held in this cycle and whose signals do not tell all that is needed."""
    held = {
        (d.broker, d.side)
        for d in decisions
        if isinstance(d, Hold) and d.reason in _SIGNAL_REASONS and d.broker is not None and d.side is not None
    }
    return frozenset(side for side in held if not _is_complete(moves.get(side), now_ms, age_s_max))


def are_signals_complete(
    sides: Collection[BrokerSide], moves: Mapping[BrokerSide, MoveSignal], now_ms: int, age_s_max: float
) -> bool:
    """All of them: a cycle for each that comes would be one a second on a large cluster."""
    return bool(sides) and all(_is_complete(moves.get(side), now_ms, age_s_max) for side in sides)


def _is_complete(signal: MoveSignal | None, now_ms: int, age_s_max: float) -> bool:
    if signal is None or freshness(signal, now_ms, age_s_max) is not Freshness.FRESH or signal.moving_partitions == 0:
        return False
    return signal.remaining_bytes is not None and signal.steady_state_bytes_per_s is not None
