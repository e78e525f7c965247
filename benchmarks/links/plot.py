"""Draws the Pareto front: time against latency, one point per policy, and a line through the policies that no other one beats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.links.score import OURS_ALL, Row, front
from rheostat.line_chart import COLOURS

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 760, 460, 70, 60, 150, 60
_TICKS = 6


def svg(title: str, found: Sequence[Row], key: str) -> str:
    """Returns the picture.

    Args:
        found: totals of one scenario; a policy that did not end is left out.
        key: average or p99.
    """
    points = [
        (total["policy"], float(total["ratio_to_optimum"]), float(total["produce_latency_ratio"][key]))
        for total in found
        if total["ratio_to_optimum"] is not None
    ]
    wide = _step(max((x for _, x, _ in points), default=1.0))
    high = _step(max((y for _, _, y in points), default=1.0))
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def x_of(value: float) -> float:
        return _LEFT + value / (wide * _TICKS) * (right - _LEFT)

    def y_of(value: float) -> float:
        return bottom - value / (high * _TICKS) * (bottom - _TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img">',
        f'<title>{escape(title)}</title><rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="42" fill="#555">down and left is better; the line joins what no other policy beats</text>',
    ]
    for tick in range(_TICKS + 1):
        x, y = x_of(tick * wide), y_of(tick * high)
        parts += [
            f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>',
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>',
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick * wide:g}</text>',
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick * high:g}</text>',
        ]
    parts.append(f'<text x="{(_LEFT + right) / 2}" y="{bottom + 40}" text-anchor="middle">time ÷ T*</text>')
    middle = (_TOP + bottom) / 2
    parts.append(
        f'<text x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">'
        f"{escape(key)} acknowledgement ÷ idle</text>"
    )
    by_name = {name: (x, y) for name, x, y in points}
    best = [by_name[name] for name in front(found, key)]
    line = " ".join(f"{'L' if i else 'M'}{x_of(x):.1f} {y_of(y):.1f}" for i, (x, y) in enumerate(best))
    parts.append(f'<path d="{line}" fill="none" stroke="#999" stroke-dasharray="5 4"/>')
    for name, x, y in points:
        colour = COLOURS[1] if name in OURS_ALL else COLOURS[0]
        parts.append(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{x_of(x) + 8:.1f}" y="{y_of(y) - 6:.1f}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _step(highest: float) -> float:
    """Returns the distance of two ticks: 1, 2 or 5 times a power of ten."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest / _TICKS))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power * _TICKS >= highest * (1 - 1e-9))
