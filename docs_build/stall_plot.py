"""Draws how the stall detector judges two recorded moves: a healthy move in bursts, and a move behind a throttle that is too
low."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from benchmarks.stalls.recordings import FOLDER, read
from benchmarks.stalls.traces import Sampled, sampled
from rheostat.line_chart import COLOURS, GREY, Line, Panel, svg
from streaming.shared.units import size_text
from tuner.control.throttle.diagnosis.stall_detector import judge_steps
from tuner.control.throttle.state import StallState
from tuner.core.throttle_limits import StallLimits

_PERIOD_S = 5.0  # The collector's default interval.
_SEED = 1  # The seed of the random jitter of the scrapes.
_MOVES = (
    ("healthy, in bursts", "cycle_leader_side", COLOURS[0]),
    ("too low, raised at 60 s", "raised_by_hand", COLOURS[1]),
)


def draw_stall_plot() -> str:
    """Returns the plot as SVG text."""
    moves = [
        (label, sampled(read(FOLDER / f"{name}.jsonl"), _PERIOD_S, _SEED), colour) for label, name, colour in _MOVES
    ]
    limits = StallLimits()
    times_s = [float(at) for at in range(math.ceil(max(move.trace.ticks[-1].at_s for _, move, _ in moves)) + 1)]
    backlogs = tuple(Line(label, _backlog(move, times_s), colour) for label, move, colour in moves)
    lost = [Line(label, _lost_s(move, times_s, limits), colour) for label, move, colour in moves]
    lost.append(Line("limit: stalled", [limits.stalled_lost_s] * len(times_s), GREY, dashed=True))
    return svg(
        "Two moves, as the stall detector sees them",
        f"recorded on real brokers, Kafka 4.2; a sample every {_PERIOD_S:g} s",
        times_s,
        (Panel("Left to copy", backlogs, size_text), Panel("Lost progress", tuple(lost), lambda value: f"{value:g} s")),
        time_label="time since the first sample",
    )


def _backlog(move: Sampled, times_s: Sequence[float]) -> list[float]:
    return _held([(tick.at_s, tick.remaining_bytes) for tick in move.trace.ticks], times_s)


def _lost_s(move: Sampled, times_s: Sequence[float], limits: StallLimits) -> list[float]:
    state, points = StallState(), [(0.0, 0.0)]
    for step, expected in zip(move.steps, move.expected_bytes_per_s, strict=True):
        state = judge_steps(state, [step], expected, limits)
        points.append((step.at_ms / 1000, state.lost_s))
    return _held(points, times_s)


def _held(points: Sequence[tuple[float, float]], times_s: Sequence[float]) -> list[float]:
    """Returns the newest value at each time; a gap after the last point."""
    ends = [end for _, (end, _) in pairwise(points)]
    values, index = [], 0
    for at_s in times_s:
        while index < len(ends) and ends[index] <= at_s:
            index += 1
        values.append(math.nan if at_s > points[-1][0] + 1 else points[index][1])
    return values
