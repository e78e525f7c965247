"""Draws recoveries: copied bytes, the rate through the throttle, and the latency of clients, one line for each policy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.recoveries.score import Row
from rheostat.line_chart import COLOURS, GREY, Line, Panel, svg
from streaming.shared.units import rate_text, size_text

NAMES = {
    "none": "no throttle",
    "static-50": "static, 50 %",
    "static-90": "static, 90 %",
    "act": "recovery: act",
}
# A stop of some seconds would make everything else flat.
_LATENCY_MS_SHOWN = 1_000.0


def draw(rows: Sequence[Row]) -> str:
    """Returns the picture of the last run of each policy, as SVG."""
    last = {str(row["policy"]): row for row in rows}
    seconds = max((len(row["seconds"]) for row in last.values()), default=0)
    objective_ms = max((row["objective_ms"] for row in last.values()), default=0.0)
    colours = {policy: COLOURS[(1, 4, 3, 0)[i % 4]] for i, policy in enumerate(last)}

    def lines(key: str, scale: float = 1.0, *, stepped: bool = False, most: float = math.inf) -> tuple[Line, ...]:
        return tuple(
            Line(
                NAMES.get(policy, policy),
                _padded([_scaled(s[key], scale, most) for s in row["seconds"]], seconds),
                colours[policy],
                stepped=stepped,
            )
            for policy, row in last.items()
        )

    objective = Line("objective (p99)", [objective_ms] * seconds, GREY, dashed=True)
    row = next(iter(last.values()), None)
    return svg(
        "A broker comes back with an empty disk",
        ""
        if row is None
        else f"three brokers, links of {row['link_mbit_per_s']:g} Mbit/s, "
        f"{size_text(row['lacking_bytes'])} to copy, clients write with acks=all",
        [float(second + 1) for second in range(seconds)],
        (
            Panel("On the disk of the returning broker", lines("copied_MB", 1e6), size_text),
            Panel("Highest throttle of a leader", lines("leader_rate", stepped=True), rate_text),
            Panel(
                "Slowest of 50 requests in each second",
                (*lines("worst_ms", most=_LATENCY_MS_SHOWN), objective),
                lambda value: f"{value:g} ms",
            ),
        ),
        time_label="time since the start of the broker's process",
        caption=(
            "A line ends when every replica is in sync. Without a line no throttle is set. Latencies above "
            f"{_LATENCY_MS_SHOWN:g} ms are drawn at {_LATENCY_MS_SHOWN:g} ms."
        ),
    )


def _scaled(value: float | None, scale: float, most: float) -> float:
    return math.nan if value is None else min(scale * value, most)


def _padded(values: list[float], count: int) -> list[float]:
    return [*values, *[math.nan] * (count - len(values))]
