"""Draws the forecast of a move: the load of clients, the throttle, and the progress of the throttle whose copies end last."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rheostat.line_chart import COLOURS, GREY, Line, Mark, Panel, svg
from rheostat.start_report import StartReport, duration_text, end_text
from rheostat.start_times import local_text
from streaming.shared.units import rate_text, size_text
from tuner.core.cluster import BrokerSide
from tuner.planning.copy_forecast import CopyPeriod, LoadCase
from tuner.planning.start_time import StartEstimate, remaining_at

_POINTS = 400
_AFTER_MS = 3600 * 1000  # The plot continues for this time after the last end.
_SHOWN_MS_MIN = 24 * 3600 * 1000


def draw_start(report: StartReport) -> str:
    """Returns the drawing as SVG text. Its times count from the start of the forecast."""
    chosen, now_ms = report.chosen, report.forecast.now_ms
    assert chosen.binding is not None  # The plan copies something.
    side = chosen.binding.side
    ends_ms = [e.end_ms for e in (chosen, report.now) if e.end_ms is not None]
    until_ms = max([now_ms + _SHOWN_MS_MIN, chosen.start_ms, *(end_ms + _AFTER_MS for end_ms in ends_ms)])
    times_ms = [now_ms + round((until_ms - now_ms) * n / _POINTS) for n in range(_POINTS + 1)]
    marks = [Mark((chosen.start_ms - now_ms) / 1000, "start")]
    if chosen.end_ms is not None:
        marks.append(Mark((chosen.end_ms - now_ms) / 1000, "end"))
    return svg(
        f"Forecast of a move: the copies through the {side[1]} throttle of broker {side[0]}, which end last",
        f"Now is {local_text(now_ms)}. A start {local_text(chosen.start_ms)} takes {duration_text(chosen)} and ends "
        f"{end_text(chosen)}",
        [(at_ms - now_ms) / 1000 for at_ms in times_ms],
        [
            _load_panel(report, side, times_ms),
            _throttle_panel(report, side, times_ms),
            _progress_panel(report, side, times_ms),
        ],
        time_label="time from now",
        marks=marks,
        caption="The band around the load shows the mean error of earlier forecasts over the same time. The throttle is "
        "the ceiling, or less if the capacity is known and clients leave less. The part of the throttle above steady-state "
        "replication copies the plan.",
    )


def _load_panel(report: StartReport, side: BrokerSide, times_ms: Sequence[int]) -> Panel:
    def line(label: str, case: LoadCase, colour: str, *, dashed: bool) -> Line:
        values = _values(report.forecast.periods(side, case), times_ms, lambda period: period.client_bytes_per_s)
        return Line(label, values, colour, dashed=dashed, stepped=True)

    lines = (
        line("forecast", LoadCase.EXPECTED, COLOURS[0], dashed=False),
        line("lower load", LoadCase.LOW, COLOURS[5], dashed=True),
        line("higher load", LoadCase.HIGH, COLOURS[5], dashed=True),
        line("as now", LoadCase.PRESENT, GREY, dashed=True),
    )
    return Panel("Load of clients", lines, rate_text)


def _throttle_panel(report: StartReport, side: BrokerSide, times_ms: Sequence[int]) -> Panel:
    periods = report.forecast.periods(side)
    throttle = _values(periods, times_ms, lambda period: period.rate_bytes_per_s)
    steady_state = _values(periods, times_ms, lambda period: period.steady_state_bytes_per_s)
    ceilings = [report.forecast.limits.at(at_ms).ceiling_bytes_per_s for at_ms in times_ms]
    lines = (
        Line("throttle", throttle, COLOURS[1], stepped=True),
        Line("steady-state replication", steady_state, COLOURS[4], stepped=True),
        Line("ceiling", ceilings, GREY, dashed=True, stepped=True),
    )
    return Panel("Throttle", lines, rate_text)


def _progress_panel(report: StartReport, side: BrokerSide, times_ms: Sequence[int]) -> Panel:
    def line(label: str, estimate: StartEstimate, colour: str, *, dashed: bool) -> Line:
        remaining = report.forecast.loads[side].remaining_bytes
        periods = report.forecast.periods(side)
        values = [
            remaining_at(remaining, periods, estimate.start_ms, max(at_ms, estimate.start_ms)) for at_ms in times_ms
        ]
        return Line(label, values, colour, dashed=dashed)

    lines = [line("this start", report.chosen, COLOURS[2], dashed=False)]
    if report.chosen.start_ms != report.now.start_ms:
        lines.append(line("start now", report.now, GREY, dashed=True))
    return Panel("Bytes that remain", tuple(lines), size_text)


def _values(
    periods: Sequence[CopyPeriod], times_ms: Sequence[int], value_of: Callable[[CopyPeriod], float | None]
) -> list[float]:
    """Returns a value for each time; NaN, a gap, if it is not known. Both sequences are in order."""
    values: list[float] = []
    index = 0
    for at_ms in times_ms:
        while index + 1 < len(periods) and periods[index].until_ms <= at_ms:
            index += 1
        value = value_of(periods[index])
        values.append(math.nan if value is None else value)
    return values
