"""`rheostat plan estimate` on a screen: the answer first, then both ways to it, and each throttle of the plan."""

from __future__ import annotations

import math

from rich import box
from rich.console import Console
from rich.table import Table

from rheostat.plan.estimate.report import EstimateReport
from rheostat.plan.estimate.text import differences, remarks, sentences, side_name
from streaming.shared.units import rate_text, size_text, span_text
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import RateVerdict, drain_s, fluid_optimum_s, rate_bytes_per_s_min, rate_for_time

ROWS_MAX = 20
_COLOUR = {RateVerdict.ENDS: "green", RateVerdict.TOO_SLOW: "yellow", RateVerdict.NEVER_ENDS: "red"}


def show(made: EstimateReport, console: Console) -> None:
    if made.nothing_to_copy:
        _line(console, "Nothing is to be copied: every partition of the plan is on its target brokers already.")
    else:
        for line in sentences(made):
            _line(console, line, _COLOUR[made.best.verdict])
        console.print(_both(made))
        if made.counted is not None:
            console.print(_throttles(made))
        for line in (*differences(made), *remarks(made)):
            _line(console, f"• {line}")
    for line in made.figures.notes:
        _line(console, f"• {line}")
    _line(console, f"Figures from {made.figures.source}. Nothing was changed.", "dim")


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, soft_wrap=True)


def _both(made: EstimateReport) -> Table:
    kip, by_formula, by_count = made.figures.kip73, made.kip73, made.counted
    loads = made.loads.values()
    rows: list[tuple[str, str, str]] = [
        ("MoveRatio", f"{kip.move_ratio:.4g}", ""),
        ("TotalLogSizePerBroker", size_text(kip.log_bytes_per_broker), ""),
        ("#Brokers", str(kip.brokers), ""),
        (
            "to copy through one throttle",
            size_text(kip.bytes_to_move),
            size_text(max((load.remaining_bytes for load in loads), default=0.0)),
        ),
        (
            "keeping up takes",
            rate_text(kip.bytes_in_per_s_max),
            rate_text(max((load.steady_state_bytes_per_s for load in loads), default=0.0)),
        ),
        (
            "smallest rate that ends",
            _rate(by_formula.rate_bytes_per_s_min),
            _rate(by_count.rate_bytes_per_s_min if by_count is not None else None),
        ),
    ]
    if made.asked.time_s is not None:
        needed = by_count.rate_bytes_per_s_needed if by_count is not None else None
        rows.append(
            (
                f"rate to end within {span_text(made.asked.time_s)}",
                _rate(by_formula.rate_bytes_per_s_needed),
                _rate(needed),
            )
        )
    if made.best.rate_bytes_per_s is not None:
        rate = made.best.rate_bytes_per_s
        rows.append(
            (f"time at {rate_text(rate)}", _span(drain_s(kip.load(), rate)), _span(fluid_optimum_s(loads, rate)))
        )
    found = _table("Both ways", "")
    for column in ("KIP-73", *(["counted by broker"] if by_count is not None else [])):
        found.add_column(column, justify="right")
    for row in rows:
        found.add_row(*(row if by_count is not None else row[:2]))
    return found


def _throttles(made: EstimateReport) -> Table:
    """The throttles that something is copied through, the slowest first."""
    time_s, rate = made.asked.time_s, made.best.rate_bytes_per_s

    def slowness(side: BrokerSide) -> float:
        taken_s = drain_s(made.loads[side], made.rate_bytes_per_s)
        return math.inf if taken_s is None else taken_s

    sides = sorted(made.loads, key=slowness, reverse=True)
    cut = f", the {ROWS_MAX} slowest of {len(sides)} (--json has all)" if len(sides) > ROWS_MAX else ""
    found = _table(f"Throttles that something is copied through{cut}", "throttle")
    columns = ["to copy", "keeping up", "smallest that ends"]
    columns += [f"time at {rate_text(rate)}"] if rate is not None else []
    columns += [f"needs to end within {span_text(time_s)}"] if time_s is not None else []
    for column in columns:
        found.add_column(column, justify="right")
    for side in sides[:ROWS_MAX]:
        load = made.loads[side]
        cells = [
            size_text(load.remaining_bytes),
            rate_text(load.steady_state_bytes_per_s),
            rate_text(rate_bytes_per_s_min(load)),
        ]
        cells += [_span(drain_s(load, rate))] if rate is not None else []
        cells += [rate_text(rate_for_time(load, time_s))] if time_s is not None else []
        found.add_row(side_name(side), *cells)
    return found


def _table(title: str, first: str) -> Table:
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column(first)
    return made


def _rate(bytes_per_s: int | None) -> str:
    return "" if bytes_per_s is None else rate_text(bytes_per_s)


def _span(seconds: float | None) -> str:
    return "never" if seconds is None else span_text(seconds)
