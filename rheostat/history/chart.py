"""Draws the history of the busiest brokers: clients, replication and latency, one point for each period."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from rheostat.history.report import HistoryReport
from rheostat.history.view import by_load
from rheostat.line_chart import COLOURS, Line, Panel, svg
from streaming.shared.contract import PERIOD_S, BrokerHistory
from streaming.shared.units import rate_text, span_text

_BROKERS_MAX = 6


def draw_history(report: HistoryReport) -> str:
    """Returns the chart as SVG text. A period without a value of the broker is a gap."""
    busiest = sorted(row.broker for row in by_load(report)[:_BROKERS_MAX])
    first_ms, last_ms = report.periods[0].start_ms, report.periods[-1].start_ms
    starts_ms = range(first_ms, last_ms + 1, PERIOD_S * 1000)
    by_start = {p.start_ms: {b.broker: b for b in p.brokers} for p in report.periods}

    def panel(title: str, value: Callable[[BrokerHistory], float | None], text_of: Callable[[float], str]) -> Panel:
        lines = [
            Line(f"broker {broker}", _values(by_start, starts_ms, broker, value), colour)
            for broker, colour in zip(busiest, COLOURS, strict=False)
        ]
        return Panel(title, tuple(lines), text_of)

    others = len(report.rows) - len(busiest)
    shown = f"the busiest {len(busiest)} of {len(report.rows)} brokers" if others else "all brokers"
    begin = datetime.fromtimestamp(first_ms / 1000, UTC)
    return svg(
        f"Load of {report.cluster}",
        f"{shown}; a point is a mean over {span_text(PERIOD_S)}",
        [(start_ms - first_ms) / 1000 for start_ms in starts_ms],
        (
            panel("Clients, in", lambda b: b.client_in_bytes_per_s, rate_text),
            panel("Clients, out", lambda b: b.client_out_bytes_per_s, rate_text),
            panel("Replication, in", lambda b: b.replication_in_bytes_per_s, rate_text),
            panel("Clients' produce p99, median", lambda b: b.produce_p99_ms, _ms),
            panel("Partitions that move or recover", lambda b: b.moving_partitions_max, lambda count: f"{count:g}"),
        ),
        time_label=f"time since {begin:%Y-%m-%d %H:%M} UTC",
    )


def _values(
    by_start: dict[int, dict[int, BrokerHistory]],
    starts_ms: Sequence[int],
    broker: int,
    value: Callable[[BrokerHistory], float | None],
) -> list[float]:
    periods = [by_start.get(start_ms, {}).get(broker) for start_ms in starts_ms]
    values = [None if period is None else value(period) for period in periods]
    return [math.nan if number is None else max(0.0, number) for number in values]


def _ms(value: float) -> str:
    return f"{value:g} ms"
