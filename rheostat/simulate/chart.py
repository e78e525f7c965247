"""Draws a simulated run: copied bytes and throttles by broker, remaining bytes, and client latency."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rheostat.line_chart import COLOURS, GREY, Line, Panel, svg
from rheostat.simulate.latency_facts import find_latency_facts, latency_sentences
from streaming.shared.units import rate_text, size_text, span_text
from tuner.simulation.numbers import Floats
from tuner.simulation.scenario import Scenario
from tuner.simulation.trace import Trace

_POINTS_MAX = 600  # More points would not be visible at the width of the picture.
_BROKERS_MAX = 4  # Each broker takes two lines of the legend: its copied bytes and its throttle.


def draw_run(scenario: Scenario, trace: Trace) -> str:
    """Returns the chart of a run as SVG text."""
    seconds = len(trace.remaining_bytes)
    bin_s = max(1, math.ceil(seconds / _POINTS_MAX))
    times_s = [float(at) for at in range(0, seconds, bin_s)]
    ended = f"ended after {span_text(trace.summary.duration_s)}" if trace.summary.completed else "did not end"
    subtitle = f"policy {trace.policy}, seed {trace.world.seed}: {ended}; a point is {bin_s} s"
    facts = find_latency_facts(trace)
    caption = "" if facts is None else " ".join(latency_sentences(facts))
    return svg(scenario.name, subtitle, times_s, panels(trace, bin_s), caption=caption)


def panels(trace: Trace, bin_s: int) -> tuple[Panel, ...]:
    """Returns the panels of a run; each point covers ``bin_s`` seconds."""

    def mean(values: Floats) -> list[float]:
        return _binned(values, bin_s, np.mean)

    def worst(values: Floats) -> list[float]:
        return _binned(values, bin_s, np.max)

    objective_ms = trace.world.latency.objective_ms
    points = math.ceil(len(trace.remaining_bytes) / bin_s)
    return (
        _sides("Copied out of brokers, and the leader throttles", trace, "leader", mean),
        _sides("Copied into brokers, and the follower throttles", trace, "follower", mean),
        Panel("Left to copy", (Line("all moves", mean(trace.remaining_bytes), COLOURS[0]),), size_text),
        Panel(
            "Clients' p99, the worst second of each point",
            (
                Line("slowest broker", worst(trace.p99_ms.max(axis=1)), COLOURS[1]),
                Line("median broker", worst(np.median(trace.p99_ms, axis=1)), COLOURS[0]),
                Line("objective", [objective_ms] * points, GREY, dashed=True),
            ),
            _ms,
        ),
    )


def _sides(title: str, trace: Trace, side: str, mean: Callable[[Floats], list[float]]) -> Panel:
    copied = trace.catch_up_out_bytes_per_s if side == "leader" else trace.catch_up_in_bytes_per_s
    limits = trace.leader_rate_bytes_per_s if side == "leader" else trace.follower_rate_bytes_per_s
    total = copied.sum(axis=0)
    by_total = np.argsort(-total, kind="stable")  # Indexes of the brokers, the busiest first.
    busiest = sorted(int(i) for i in by_total[:_BROKERS_MAX] if total[i] > 0)
    lines = []
    for i, colour in zip(busiest, COLOURS, strict=False):
        broker = trace.world.brokers[i].broker
        lines.append(Line(f"broker {broker}", mean(copied[:, i]), colour))
        limit = mean(limits[:, i])
        if any(map(math.isfinite, limit)):
            lines.append(Line(f"broker {broker}: throttle", limit, colour, dashed=True))
    others = int((total > 0).sum()) - len(busiest)
    shown = f"{title} (the busiest {len(busiest)} of {len(busiest) + others})" if others else title
    return Panel(shown, tuple(lines), rate_text)


def _binned(values: Floats, bin_s: int, reduce: Callable[[Floats], np.floating]) -> list[float]:
    return [float(reduce(values[i : i + bin_s])) for i in range(0, len(values), bin_s)]


def _ms(value: float) -> str:
    return f"{value:g} ms"
