"""Collects the signals of the last minute, so that a single command can tell whether a move has stalled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streaming.shared.contract import MoveSignal, MoveStep, Side, Signal
from tuner.core.cluster import BrokerSide
from tuner.runtime.observe.signals_reader import SignalReader


class SignalHistory(SignalReader):
    """Keeps the newest signals. A signal has only the steps of half a minute; ``merge_steps`` adds those of earlier signals."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._steps: dict[BrokerSide, dict[int, MoveStep]] = {}

    def take(self, signal: Signal) -> None:
        super().take(signal)
        if isinstance(signal, MoveSignal) and signal.side is Side.FOLLOWER and not signal.backlog:
            self._steps.setdefault((signal.broker, signal.side), {}).update({s.at_ms: s for s in signal.steps})

    def merge_steps(self, since_ms: int = 0) -> None:
        """Gives each move all its steps since ``since_ms`` (epoch ms), so that only steps at the current rates count."""
        for side, signal in self.moves.items():
            steps = self._steps.get(side, {})
            merged = tuple(steps[at_ms] for at_ms in sorted(steps) if at_ms - 1000 * steps[at_ms].dt_s >= since_ms)
            self.moves[side] = replace(signal, steps=merged) if side[1] is Side.FOLLOWER else signal
