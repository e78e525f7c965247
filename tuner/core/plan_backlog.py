"""Adds the bytes that plans still have to copy to the measured bytes of the moves in progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streaming.shared.contract import MoveSignal
from tuner.core.cluster import BrokerSide


def add_pending_bytes(
    moves: Mapping[BrokerSide, MoveSignal], pending: Mapping[BrokerSide, float]
) -> dict[BrokerSide, MoveSignal]:
    """Returns the signals as the control law needs them: a side is done when its plan is done, not when its running moves are done.

    Args:
        pending: bytes that plans have not begun to copy, by side.
    """
    signals = dict(moves)
    for side, signal in moves.items():
        if signal.remaining_bytes is not None and side in pending:
            signals[side] = replace(signal, remaining_bytes=signal.remaining_bytes + pending[side])
    return signals
