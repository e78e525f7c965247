"""Adds what a plan has still to copy to what is measured of the moves under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streaming.shared.contract import MoveSignal
from tuner.core.cluster import BrokerSide


def with_pending(
    moves: Mapping[BrokerSide, MoveSignal], pending: Mapping[BrokerSide, float]
) -> dict[BrokerSide, MoveSignal]:
    """The signals as the law should see them: a side is done when the plan is, not when that is done which runs now."""
    return {
        side: signal
        if signal.remaining_bytes is None or side not in pending
        else replace(signal, remaining_bytes=signal.remaining_bytes + pending[side])
        for side, signal in moves.items()
    }
