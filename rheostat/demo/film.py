"""Draws a recorded run of the demo as a film, with a sentence for each of its events."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rheostat.demo.chart import draw_rescue
from rheostat.demo.recording import Event, Recording
from rheostat.line_film import Frame
from streaming.shared.units import rate_text, size_text


def draw_film(recording: Recording) -> str:
    """Returns the film as SVG text."""
    first = Frame(0.0, f"Producers write {rate_text(recording.write_bytes_per_s)}.")
    frames = [Frame(event.at_s, _sentence(event, recording)) for event in recording.events]
    return draw_rescue(recording, film=[first, *frames])


def _sentence(event: Event, recording: Recording) -> str:
    texts: dict[str, Callable[[], str]] = {
        "move starts": lambda: (
            f"An operator starts a move with a throttle of {_at(recording.leader_throttle_bytes_per_s, event, rate_text)}."
        ),
        "tuner starts": lambda: (
            f"The move falls behind: {_at(recording.remaining_bytes, event, size_text)} are left to copy. Now the tuner starts."
        ),
        "stall found": lambda: (
            f"The tuner finds the stall: new writes alone take {rate_text(recording.steady_state_bytes_per_s)}. It raises the "
            "throttle."
        ),
        "move complete": lambda: "The move is complete.",
        "throttle removed": lambda: "The tuner has removed the throttle.",
    }
    return texts[event.label]() if event.label in texts else f"{event.label.capitalize()}."


def _at(values: Sequence[float | None], event: Event, to_text: Callable[[float], str]) -> str:
    """Returns the first known value from the event on, as text. Without such a value, returns a text that says so."""
    known = (value for value in values[math.floor(event.at_s) :] if value is not None)
    value = next(known, None)
    return "an unknown value" if value is None else to_text(value)
