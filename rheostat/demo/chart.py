"""Draws a recorded run of the demo: throttles, remaining bytes and produce latency over time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rheostat.demo.recording import Recording
from rheostat.line_chart import COLOURS, GREY, Line, Mark, Panel, svg
from rheostat.line_film import Frame
from streaming.shared.units import rate_text, size_text


def draw_rescue(recording: Recording, film: Sequence[Frame] = ()) -> str:
    """Returns the chart of a run as SVG text.

    Args:
        film: the sentences of a film; empty if the chart does not move.
    """
    seconds = len(recording.remaining_bytes)
    steady_state = rate_text(recording.steady_state_bytes_per_s)
    throttles = (
        Line("leader side", _values(recording.leader_throttle_bytes_per_s), COLOURS[1], stepped=True),
        Line("follower side", _values(recording.follower_throttle_bytes_per_s), COLOURS[0], stepped=True),
        Line("steady-state replication", [recording.steady_state_bytes_per_s] * seconds, GREY, dashed=True),
    )
    latencies = (
        Line("slowest of 20 records", _values(recording.produce_max_ms), COLOURS[1]),
        Line("median", _values(recording.produce_median_ms), COLOURS[0]),
    )
    return svg(
        "The rescue of a stalled reassignment",
        f"rheostat demo, on a real cluster of three brokers; producers write {rate_text(recording.write_bytes_per_s)}",
        [float(second) for second in range(seconds)],
        (
            Panel("Replication throttles", throttles, rate_text),
            Panel("Left to copy", (Line("all partitions", _values(recording.remaining_bytes), COLOURS[2]),), size_text),
            Panel("Produce latency, acks=all", latencies, _ms),
        ),
        time_label="time since the producers' start",
        marks=[Mark(event.at_s, event.label) for event in recording.events],
        caption=(
            f"The leader's throttle also carries the in-sync replica, so the move gains only above {steady_state}. Below it "
            "the bytes left to copy grow, until the tuner raises the throttle. No line means that no throttle is set. "
            "Latency can peak when the new replicas join the ISR, as acks=all then waits for them as well."
        ),
        film=film,
    )


def _values(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _ms(value: float) -> str:
    return f"{value:g} ms"
