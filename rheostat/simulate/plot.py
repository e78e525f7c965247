"""Draws line charts over time as SVG: panels one below the other, with axes, units and a legend.

Invariant: the same lines give the same text. A value that is not finite (no throttle is set) is a gap, never a zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from streaming.shared.units import span_text

# The palette of Okabe and Ito, which colour-blind readers can distinguish.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")

_WIDTH, _LEFT, _RIGHT = 1000, 90, 190
_HEAD, _PANEL, _GAP, _FOOT = 58, 170, 46, 42
_TICKS = 5
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)


@dataclass(frozen=True, slots=True)
class Line:
    label: str
    values: Sequence[float]  # One value for each time; ∞ or NaN is a gap.
    colour: str
    dashed: bool = False  # For settings, such as a limit or an objective.


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    lines: tuple[Line, ...]
    text_of: Callable[[float], str]  # Formats a value with its unit, for the axis.


def svg(
    title: str,
    subtitle: str,
    times_s: Sequence[float],
    panels: Sequence[Panel],
    *,
    time_label: str = "simulated time",
) -> str:
    """Returns the SVG text.

    Args:
        title: the title of the whole picture.
        subtitle: the line below the title.
        times_s: the time of each value, in order; the same for all lines.
        panels: the panels from top to bottom.
        time_label: the label of the time axis.
    """
    height = _HEAD + len(panels) * (_PANEL + _GAP) + _FOOT - _GAP
    begin_s, end_s = (times_s[0], times_s[-1]) if len(times_s) else (0.0, 0.0)
    span_s = max(end_s - begin_s, 1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="40" fill="#555">{escape(subtitle)}</text>',
    ]

    def x_of(at_s: float) -> float:
        return _LEFT + (at_s - begin_s) / span_s * (_WIDTH - _LEFT - _RIGHT)

    for i, panel in enumerate(panels):
        parts += _panel(panel, _HEAD + i * (_PANEL + _GAP), x_of, times_s)
    bottom = height - _FOOT
    for at_s in _time_ticks(begin_s, begin_s + span_s):
        x = x_of(at_s)
        parts.append(f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 5}" stroke="#333"/>')
        label = f"{at_s:g} s" if 0 < at_s < 60 else span_text(at_s) if at_s else "0"
        parts.append(f'<text x="{x:.1f}" y="{bottom + 19}" text-anchor="middle">{label}</text>')
    parts.append(
        f'<text x="{_WIDTH - _RIGHT}" y="{bottom + 36}" text-anchor="end" fill="#555">{escape(time_label)}</text>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel, top: float, x_of: Callable[[float], float], times_s: Sequence[float]) -> Iterable[str]:
    finite = [v for line in panel.lines for v in line.values if math.isfinite(v)]
    step, highest = _scale(max(finite, default=0.0))
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
        style = f'stroke="{line.colour}" stroke-width="1.5" fill="none"' + (
            ' stroke-dasharray="6 4"' if line.dashed else ""
        )
        yield f'<path d="{_path(line.values, times_s, x_of, y_of)}" {style} stroke-linejoin="round"/>'
        y = top + 30 + 17 * n
        yield f'<line x1="{right + 14}" y1="{y}" x2="{right + 38}" y2="{y}" {style}/>'
        yield f'<text x="{right + 44}" y="{y + 4}">{escape(line.label)}</text>'


def _path(
    values: Sequence[float], times_s: Sequence[float], x_of: Callable[[float], float], y_of: Callable[[float], float]
) -> str:
    parts, drawing = [], False
    for value, at_s in zip(values, times_s, strict=True):
        if not math.isfinite(value):
            drawing = False
            continue
        parts.append(f"{'L' if drawing else 'M'}{x_of(at_s):.1f} {y_of(value):.1f}")
        drawing = True
    return " ".join(parts)


def _scale(highest: float) -> tuple[float, float]:
    """Returns the distance of two ticks (1, 2 or 5 times a power of ten), and the topmost tick."""
    if highest <= 0:
        return 1.0, 1.0
    power = 10.0 ** math.floor(math.log10(highest / _TICKS))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power * _TICKS >= highest * (1 - 1e-9))
    return step, step * math.ceil(highest / step * (1 - 1e-9))


def _time_ticks(begin_s: float, end_s: float) -> list[float]:
    step = next((s for s in _STEPS_S if (end_s - begin_s) / s <= 10), _STEPS_S[-1])
    first = math.ceil(begin_s / step)
    return [float(n * step) for n in range(first, math.floor(end_s / step) + 1)]
