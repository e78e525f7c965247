"""Draws line charts over time as SVG: panels one below the other, with axes, units, a legend, marks and a caption.

The chart has a background of its own, and follows the reader's preference for a light or a dark one.

Invariant: the same lines give the same text. A value that is not finite (no throttle is set) is a gap, never a zero.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rheostat.errors import BadInputError
from rheostat.line_film import FRAME_HEIGHT, Frame, film_parts, mark_class
from streaming.shared.units import span_text

# The palette of Okabe and Ito, which colour-blind readers can distinguish.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
GREY = "#777777"  # For limits, objectives and other values to compare with.

# Replaces the colours of the attributes, for readers who prefer a dark background.
DARK_STYLE = """<style>@media (prefers-color-scheme: dark) {
rect[fill="white"] { fill: #15191f } text { fill: #e6e9ee } text[fill="#555"] { fill: #a9b1bc }
[stroke="#333"] { stroke: #a9b1bc } [stroke="#ddd"] { stroke: #343a44 } [stroke="#777777"] { stroke: #9aa3ae }
[stroke="#0072b2"] { stroke: #4ba9e8 } [stroke="#d55e00"] { stroke: #ff8b3d } [stroke="#009e73"] { stroke: #2cc99b }
[stroke="#cc79a7"] { stroke: #e59cc4 } [stroke="#000000"] { stroke: #ffffff }
}</style>"""

# Sizes in pixels.
_WIDTH, _LEFT, _RIGHT = 1020, 90, 210  # The picture, and the margins for the axis and for the legend.
_HEAD, _PANEL, _GAP, _FOOT = 58, 170, 46, 42  # Heights: title, one panel, space between panels, time axis.
_LINE_HEIGHT = 17
_CHARACTER_WIDTH = 7.6  # About, at the font size of the marks.
_CAPTION_CHARACTERS = 118  # Per line.
_TICKS = 5  # At most, on the axis of values.
# Distances of ticks on the time axis.
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel.

    Attributes:
        values: one value for each time; ∞ or NaN is a gap.
        dashed: for settings and values to compare with, such as a limit or an objective.
        stepped: whether each value applies until the next time, as for a setting or the bytes of a second.
    """

    label: str
    values: Sequence[float]
    colour: str
    dashed: bool = False
    stepped: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    lines: tuple[Line, ...]
    text_of: Callable[[float], str]  # Formats a value with its unit, for the axis.
    axis_min: float = 0.0  # The axis reaches at least this value, so that panels can share a scale.


@dataclass(frozen=True, slots=True)
class Mark:
    """An event: a vertical line in each panel, with its name above."""

    at_s: float
    label: str


def svg(
    title: str,
    subtitle: str,
    times_s: Sequence[float],
    panels: Sequence[Panel],
    *,
    time_label: str = "simulated time",
    marks: Sequence[Mark] = (),
    caption: str = "",
    film: Sequence[Frame] = (),
) -> str:
    """Returns the SVG text.

    Args:
        title: the title of the whole picture.
        subtitle: the line below the title.
        times_s: the time of each value, in order; the same for all lines.
        panels: the panels from top to bottom.
        time_label: the label of the time axis.
        marks: events within the time axis, in order.
        caption: sentences below the panels that explain the chart.
        film: sentences in order of time; the lines then appear one second after the other. Empty if the picture does not move.
    """
    begin_s, end_s = (times_s[0], times_s[-1]) if len(times_s) else (0.0, 0.0)
    span_s = max(end_s - begin_s, 1.0)

    def x_of(at_s: float) -> float:
        return _LEFT + (at_s - begin_s) / span_s * (_WIDTH - _LEFT - _RIGHT)

    rows = _mark_rows([(x_of(mark.at_s), mark.label) for mark in marks])
    row_count = max(rows) + 1 if rows else 0
    head = _HEAD + _LINE_HEIGHT * row_count
    bottom = head + len(panels) * (_PANEL + _GAP) - _GAP
    # A number and its unit stay on one line: a no-break space.
    caption_lines = textwrap.wrap(re.sub(r"(\d) ", "\\1\u00a0", caption), _CAPTION_CHARACTERS)
    foot = bottom + _FOOT + (FRAME_HEIGHT if film else 0)
    height = foot + (len(caption_lines) * _LINE_HEIGHT + 10 if caption_lines else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="14" role="img">',
        f"<title>{escape(title)}</title>",
        DARK_STYLE,
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="18" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="40" fill="#555">{escape(subtitle)}</text>',
    ]
    tops = [head + i * (_PANEL + _GAP) for i in range(len(panels))]
    for panel, top in zip(panels, tops, strict=True):
        parts += _panel(panel, top, x_of, times_s)
    if film:
        parts += film_parts(
            film, marks_s=[mark.at_s for mark in marks], begin_s=begin_s, span_s=span_s, plot=(_LEFT, _WIDTH - _RIGHT),
            curtains=[(top + 18, top + _PANEL + 1) for top in tops], text_at=(_LEFT, bottom + _FOOT + 16),
        )  # fmt: skip
    for number, (mark, row) in enumerate(zip(marks, rows, strict=True)):
        drawn = _mark(mark, x_of(mark.at_s), _HEAD + _LINE_HEIGHT * row, tops)
        parts += [f'<g class="{mark_class(number)}">', *drawn, "</g>"] if film else drawn
    for at_s in _time_ticks(begin_s, begin_s + span_s):
        x = x_of(at_s)
        parts.append(f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 5}" stroke="#333"/>')
        label = _time_label(at_s)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 19}" text-anchor="middle">{label}</text>')
    parts.append(
        f'<text x="{_WIDTH - _RIGHT}" y="{bottom + 36}" text-anchor="end" fill="#555">{escape(time_label)}</text>'
    )
    for i, text in enumerate(caption_lines):
        parts.append(f'<text x="{_LEFT}" y="{foot + 12 + i * _LINE_HEIGHT}">{escape(text)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def check_plot_path(plot: Path, option: str = "--plot") -> None:
    """Checks before a long run that its plot can be written there.

    Args:
        option: names the file, for messages.

    Raises:
        BadInputError: the folder does not exist.
    """
    if not plot.parent.is_dir():
        raise BadInputError(
            f"{option} {plot}: the folder {plot.parent} does not exist; create it, or name another folder"
        )


def write_plot(plot: Path, text: str, option: str = "--plot") -> None:
    """Writes a plot.

    Args:
        option: names the file, for messages.

    Raises:
        BadInputError: the file cannot be written.
    """
    try:
        plot.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"{option} {plot}: cannot be written: {error.strerror or error}") from error


def _panel(panel: Panel, top: float, x_of: Callable[[float], float], times_s: Sequence[float]) -> Iterable[str]:
    finite = [v for line in panel.lines for v in line.values if math.isfinite(v)]
    step, highest = _scale(max([*finite, panel.axis_min]))
    right, bottom = _WIDTH - _RIGHT, top + _PANEL

    def y_of(value: float) -> float:
        return bottom - value / highest * (_PANEL - 22)

    yield f'<text x="{_LEFT}" y="{top + 12}" font-weight="bold">{escape(panel.title)}</text>'
    for tick in range(round(highest / step) + 1):
        y = y_of(tick * step)
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{"#ddd" if tick else "#333"}"/>'
        text = panel.text_of(tick * step) if tick else "0"
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'
    yield f'<line x1="{_LEFT}" y1="{y_of(highest):.1f}" x2="{_LEFT}" y2="{bottom}" stroke="#333"/>'
    for n, line in enumerate(panel.lines):
        dashes = ' stroke-dasharray="6 4"' if line.dashed else ""
        style = f'stroke="{line.colour}" stroke-width="1.5" fill="none"{dashes}'
        yield f'<path d="{_path(line, times_s, x_of, y_of)}" {style} stroke-linejoin="round"/>'
        y = top + 30 + _LINE_HEIGHT * n
        yield f'<line x1="{right + 14}" y1="{y}" x2="{right + 38}" y2="{y}" {style}/>'
        yield f'<text x="{right + 44}" y="{y + 4}">{escape(line.label)}</text>'


def _path(line: Line, times_s: Sequence[float], x_of: Callable[[float], float], y_of: Callable[[float], float]) -> str:
    """Returns the line as commands of an SVG path; a value that is not finite interrupts the line."""
    parts: list[str] = []
    y_before: float | None = None  # None means a gap before this value.
    for value, at_s in zip(line.values, times_s, strict=True):
        if not math.isfinite(value):
            y_before = None
            continue
        x, y = x_of(at_s), y_of(value)
        if line.stepped and y_before is not None and y != y_before:
            parts.append(f"L{x:.1f} {y_before:.1f}")
        parts.append(f"{'M' if y_before is None else 'L'}{x:.1f} {y:.1f}")
        y_before = y
    return " ".join(parts)


def _mark(mark: Mark, x: float, label_top: float, panel_tops: Sequence[float]) -> Iterable[str]:
    """Draws the label of a mark, a line beside the label, and a line through each panel. The panels' titles stay uncovered."""
    spans = [(label_top, label_top + 12), *((top + 18, top + _PANEL) for top in panel_tops)]
    path = " ".join(f"M{x:.1f} {begin} V{end}" for begin, end in spans)
    yield f'<path d="{path}" stroke="#333" stroke-dasharray="2 3" class="mark"/>'
    yield f'<text x="{x + 4:.1f}" y="{label_top + 10}">{escape(mark.label)}</text>'


def _mark_rows(marks: Sequence[tuple[float, str]]) -> list[int]:
    """Returns the row of each label (0 is the topmost), so that no label covers another label.

    Args:
        marks: position and label, from left to right.
    """
    ends: list[float] = []  # Right end of the last label of each row.
    rows = []
    for x, label in marks:
        row = next((i for i, end in enumerate(ends) if end <= x), len(ends))
        if row == len(ends):
            ends.append(0.0)
        ends[row] = x + 12 + _CHARACTER_WIDTH * len(label)
        rows.append(row)
    return rows


def _scale(highest: float) -> tuple[float, float]:
    """Returns the distance of two ticks (1, 2 or 5 times a power of ten), and the topmost tick."""
    if highest <= 0:
        return 1.0, 1.0
    power = 10.0 ** math.floor(math.log10(highest / _TICKS))
    almost = 1 - 1e-9  # Rounding errors must not lead to a further tick.
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power * _TICKS >= highest * almost)
    return step, step * math.ceil(highest / step * almost)


def _time_label(at_s: float) -> str:
    if not at_s:
        return "0"
    return f"{at_s:g} s" if 0 < at_s < 60 else span_text(at_s)


def _time_ticks(begin_s: float, end_s: float) -> list[float]:
    step = next((s for s in _STEPS_S if (end_s - begin_s) / s <= 10), _STEPS_S[-1])
    first, last = math.ceil(begin_s / step), math.floor(end_s / step)
    return [float(n * step) for n in range(first, last + 1)]
