"""The plot of the stall detector: the same text each time, a healthy move below the limit, and a stalled one above it."""

from __future__ import annotations

import math

from docs_build import stall_plot
from tuner.core.throttle_limits import StallLimits


def test_plot_is_deterministic_and_names_both_moves() -> None:
    picture = stall_plot.draw_stall_plot()
    assert picture == stall_plot.draw_stall_plot()
    for label, _, _ in stall_plot._MOVES:
        assert f">{label}</text>" in picture
    assert ">time since the first sample</text>" in picture


def test_only_the_stalled_move_exceeds_the_limit() -> None:
    limits, highest = StallLimits(), []
    for _, name, _ in stall_plot._MOVES:
        move = stall_plot.sampled(stall_plot.read(stall_plot.FOLDER / f"{name}.jsonl"), 5.0, 1)
        times_s = [float(at) for at in range(int(move.trace.ticks[-1].at_s) + 1)]
        lost_s = stall_plot._lost_s(move, times_s, limits)
        highest.append(max(value for value in lost_s if math.isfinite(value)))
    assert highest[0] < limits.stalled_lost_s <= highest[1]
