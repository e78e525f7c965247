"""Collects the signals of the last minute, so that a single command can tell whether a move has stalled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streaming.shared.contract import MoveSignal, MoveStep, Side, Signal
from tuner.core.cluster import BrokerSide
from tuner.runtime.observe.signals_reader import SignalReader


class SignalHistory(SignalReader):
    """Keeps the newest signals.

    The steps of a move signal (its progress per interval) reach back half a minute. ``merge_steps`` adds the steps of earlier
    signals.
    """

    def __init__(self, *reader_arguments: Any) -> None:
        super().__init__(*reader_arguments)
        self._steps: dict[BrokerSide, dict[int, MoveStep]] = {}

    def add(self, signal: Signal) -> None:
        super().add(signal)
        # Stalls are judged by destination. Steps of a backlog, which the stream worked off later, are not recent.
        if isinstance(signal, MoveSignal) and signal.side is Side.FOLLOWER and not signal.backlog:
            known_steps = self._steps.setdefault((signal.broker, signal.side), {})
            known_steps.update({step.at_ms: step for step in signal.steps})

    def merge_steps(self, since_ms: int = 0) -> None:
        """Gives each move all its steps that began after ``since_ms`` (epoch ms), so that only steps at the current rates count."""
        for (broker, side), signal in self.moves.items():
            if side is Side.FOLLOWER:
                steps = sorted(self._steps.get((broker, side), {}).values(), key=lambda step: step.at_ms)
                recent = tuple(step for step in steps if step.at_ms - 1000 * step.dt_s >= since_ms)
                self.moves[(broker, side)] = replace(signal, steps=recent)
