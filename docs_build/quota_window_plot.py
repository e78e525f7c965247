"""Draws the bytes that pass a throttle on real brokers after a change of its rate: once in one write, once in 22 steps."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.bursts.methods import DOWN_S, END_S, QUOTA_S, UP_S, Method, changes, in_one_step, linear
from benchmarks.bursts.recordings import TICK_S, read
from rheostat.line_chart import COLOURS, Line, Panel, svg
from streaming.shared.units import rate_text

_SECONDS = math.floor(UP_S + DOWN_S + END_S)
# For each panel: title, name of the recording, and method of writing the rate. The first run of each recording changes its rate
# at 25 and 50 s.
_RECORDINGS = (
    ("One write", "step", in_one_step),
    ("22 steps of 0.5 s", "ramp_22", linear(22, 0.5)),
)


def draw_quota_window_plot() -> str:
    """Returns the plot as SVG text."""
    passed = {name: passed_by_second(name) for _, name, _ in _RECORDINGS}
    highest = max(value for values in passed.values() for value in values if math.isfinite(value))
    return svg(
        "What passes a throttle after a change of its rate",
        "recorded on a pair of real brokers, Kafka 4.2 with default settings; bytes of each second",
        [float(second) for second in range(_SECONDS + 1)],
        [
            Panel(
                title,
                (
                    Line("copied", [*passed[name], math.nan], COLOURS[0], stepped=True),
                    Line("mean of 11 s", [math.nan, *window_means(passed[name])], COLOURS[2]),
                    Line("throttle", rate_by_second(method), COLOURS[1], dashed=True, stepped=True),
                ),
                rate_text,
                axis_min=highest,
            )
            for title, name, method in _RECORDINGS
        ],
        time_label="time since the first byte",
        caption=(
            "Kafka compares the throttle with the mean of about 11 s. A step up leaves room in this window, so a burst passes, "
            "then nothing, then the burst's echo. A step down passes nothing until the old bytes have left the window. "
            "Small steps give the window time to follow."
        ),
    )


def passed_by_second(name: str) -> list[float]:
    """Returns the bytes of each second of a recording's first run."""
    run = read(name)[0]
    ticks = round(1 / TICK_S)
    grown = np.array(run.grown_kb[: _SECONDS * ticks], dtype=np.float64) * 1e3
    padded = np.pad(grown, (0, _SECONDS * ticks - len(grown)), constant_values=math.nan)
    return [float(value) for value in padded.reshape(_SECONDS, ticks).sum(axis=1)]


def window_means(passed: list[float]) -> list[float]:
    """Returns, for the end of each second, the mean of the last 11 s; a gap during the first 11 s."""
    return [
        math.fsum(passed[second + 1 - QUOTA_S : second + 1]) / QUOTA_S if second + 1 >= QUOTA_S else math.nan
        for second in range(len(passed))
    ]


def rate_by_second(method: Method) -> list[float]:
    """Returns the rate that is set at the start of each second."""
    writes = [write for change in changes((0.0, 0.0)) for write in method(*change)]
    return [
        next((rate for at_s, rate in reversed(writes) if at_s <= second), math.nan) for second in range(_SECONDS + 1)
    ]
