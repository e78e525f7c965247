"""Shows the answer of `rheostat plan estimate` on a terminal: sentences, a table of both estimates, and a table of throttles."""

from __future__ import annotations

import math

from rich import box
from rich.console import Console
from rich.table import Table

from rheostat.plan.estimate.report import EstimateReport
from rheostat.plan.estimate.text import differences, remarks, sentences, side_name
from rheostat.start_report import StartReport, describe_start, duration_text, end_text, interval_text
from rheostat.start_times import local_text
from streaming.shared.units import rate_text, size_text, span_text
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import RateVerdict, drain_s, fluid_optimum_s, rate_bytes_per_s_min, rate_for_time

ROWS_MAX = 20
_COLOUR = {RateVerdict.ENDS: "green", RateVerdict.TOO_SLOW: "yellow", RateVerdict.NEVER_ENDS: "red"}


def show(report: EstimateReport, console: Console) -> None:
    """Prints the whole answer."""
    if report.has_nothing_to_copy:
        _print_line(console, "There is nothing to copy: every partition of the plan is on its target brokers already.")
    else:
        for line in sentences(report):
            _print_line(console, line, _COLOUR[report.best.verdict])
        console.print(_estimates_table(report))
        if report.per_side is not None:
            console.print(_throttles_table(report))
        for line in (*differences(report), *remarks(report)):
            _print_line(console, f"• {line}")
    for line in report.figures.notes:
        _print_line(console, f"• {line}")
    _print_line(console, f"Figures from {report.figures.source}. Nothing was changed.", "dim")


def show_start(report: StartReport, console: Console) -> None:
    """Prints when the plan should start, and a table of starts."""
    for line in describe_start(report):
        _print_line(console, line)
    console.print(_starts_table(report))


def _starts_table(report: StartReport) -> Table:
    table = _make_table("Starts", "start")
    for column in ("takes", "ends", "ends, with the mean error of forecasts"):
        table.add_column(column, justify="right")
    by_start = {estimate.start_ms: estimate for estimate in (*report.candidates, report.best, report.chosen)}
    for start_ms, estimate in sorted(by_start.items()):
        name = local_text(start_ms)
        if start_ms == report.now.start_ms:
            name += " (now)"
        if start_ms == report.best.start_ms:
            name += " (best)"
        table.add_row(name, duration_text(estimate), end_text(estimate), interval_text(estimate))
    return table


def _print_line(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, soft_wrap=True)


def _estimates_table(report: EstimateReport) -> Table:
    kip, kip_estimate, side_estimate = report.figures.kip73, report.kip73, report.per_side
    loads = report.loads.values()
    rows: list[tuple[str, str, str]] = [
        ("MoveRatio", f"{kip.move_ratio:.4g}", ""),
        ("TotalLogSizePerBroker", size_text(kip.log_bytes_per_broker), ""),
        ("#Brokers", str(kip.brokers), ""),
        (
            "most bytes through one throttle",
            size_text(kip.bytes_to_move),
            size_text(max((load.remaining_bytes for load in loads), default=0.0)),
        ),
        (
            "steady-state replication",
            rate_text(kip.bytes_in_per_s_max),
            rate_text(max((load.steady_state_bytes_per_s for load in loads), default=0.0)),
        ),
        (
            "lowest rate that ends the move",
            _rate(kip_estimate.rate_bytes_per_s_min),
            _rate(side_estimate.rate_bytes_per_s_min if side_estimate is not None else None),
        ),
    ]
    if report.options.time_s is not None:
        needed = side_estimate.rate_bytes_per_s_needed if side_estimate is not None else None
        rows.append(
            (
                f"rate to end within {span_text(report.options.time_s)}",
                _rate(kip_estimate.rate_bytes_per_s_needed),
                _rate(needed),
            )
        )
    if report.best.rate_bytes_per_s is not None:
        rate = report.best.rate_bytes_per_s
        rows.append(
            (f"time at {rate_text(rate)}", _span(drain_s(kip.load(), rate)), _span(fluid_optimum_s(loads, rate)))
        )
    table = _make_table("Both estimates", "")
    for column in ("KIP-73", *(["per broker side"] if side_estimate is not None else [])):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*(row if side_estimate is not None else row[:2]))
    return table


def _throttles_table(report: EstimateReport) -> Table:
    """Returns the table of the throttles that data is copied through, the slowest first."""
    time_s, rate = report.options.time_s, report.best.rate_bytes_per_s

    def slowness(side: BrokerSide) -> float:
        taken_s = drain_s(report.loads[side], report.rate_bytes_per_s)
        return math.inf if taken_s is None else taken_s

    sides = sorted(report.loads, key=slowness, reverse=True)
    cut = f", the {ROWS_MAX} slowest of {len(sides)} (--json has all)" if len(sides) > ROWS_MAX else ""
    table = _make_table(f"Throttles that data is copied through{cut}", "throttle")
    columns = ["to copy", "steady state", "lowest rate that ends"]
    columns += [f"time at {rate_text(rate)}"] if rate is not None else []
    columns += [f"rate to end within {span_text(time_s)}"] if time_s is not None else []
    for column in columns:
        table.add_column(column, justify="right")
    for side in sides[:ROWS_MAX]:
        load = report.loads[side]
        cells = [
            size_text(load.remaining_bytes),
            rate_text(load.steady_state_bytes_per_s),
            rate_text(rate_bytes_per_s_min(load)),
        ]
        cells += [_span(drain_s(load, rate))] if rate is not None else []
        cells += [rate_text(rate_for_time(load, time_s))] if time_s is not None else []
        table.add_row(side_name(side), *cells)
    return table


def _make_table(title: str, first_column: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first_column)
    return table


def _rate(bytes_per_s: int | None) -> str:
    return "" if bytes_per_s is None else rate_text(bytes_per_s)


def _span(seconds: float | None) -> str:
    return "never" if seconds is None else span_text(seconds)
