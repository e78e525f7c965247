"""Turns a line chart into a film: the lines appear from left to right in some seconds, with a sentence for each part.

The film is a part of the SVG and needs no script, so that it also plays as an image of a page. A reader who prefers reduced motion,
or a program that knows no animation, sees the whole chart and the last sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

_LENGTH_S = 20
_DRAWN_PERCENT = 85.0  # After this part of the film the whole chart stays.
_STEP_PERCENT = 0.05  # The time in which a sentence replaces the sentence before it.
FRAME_HEIGHT = 34


@dataclass(frozen=True, slots=True)
class Frame:
    """A sentence that is shown from a time on until the next sentence."""

    at_s: float
    text: str


def film_parts(
    frames: Sequence[Frame],
    *,
    marks_s: Sequence[float],
    begin_s: float,
    span_s: float,
    plot: tuple[float, float],
    curtains: Iterable[tuple[float, float]],
    text_at: tuple[float, float],
) -> list[str]:
    """Returns the elements that hide the future of the chart, and the sentences.

    Args:
        frames: in order of time; at least one.
        marks_s: the times of the marks. The elements of a mark have the class ``mark_class`` of its number.
        begin_s, span_s: the time axis.
        plot: left and right edge of the lines.
        curtains: top and bottom of each area with lines.
        text_at: position of the sentences.
    """
    left, right = plot
    style = [
        f"@keyframes play {{ from {{ transform: scaleX(1) }} {_DRAWN_PERCENT:g}%, to {{ transform: scaleX(0) }} }}",
        f".curtain {{ opacity: 1; transform: scaleX(0); transform-origin: {right:g}px 0 }}",
        f".curtain {{ animation: play {_LENGTH_S}s linear infinite }}",
        f".frame {{ animation: {_LENGTH_S}s linear infinite }}",
        *_keyframes([_percent(frame.at_s, begin_s, span_s) for frame in frames]),
        *(_appearance(number, _percent(at_s, begin_s, span_s)) for number, at_s in enumerate(marks_s)),
        "@media (prefers-reduced-motion: reduce) { * { animation: none !important } }",
    ]
    parts = [f"<style>{' '.join(style)}</style>"]
    for top, bottom in curtains:
        size = f'x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}"'
        parts.append(f'<rect class="curtain" {size} fill="white" opacity="0"/>')
    x, y = text_at
    for number, frame in enumerate(frames):
        visible = int(number == len(frames) - 1)
        parts.append(
            f'<text class="frame f{number}" x="{x:g}" y="{y:g}" font-size="17" font-weight="bold" opacity="{visible}">'
            f"{escape(frame.text)}</text>"
        )
    return parts


def mark_class(number: int) -> str:
    return f"m{number}"


def _percent(at_s: float, begin_s: float, span_s: float) -> float:
    """Returns the part of the film after which this time of the chart is drawn."""
    return max(0.0, min(1.0, (at_s - begin_s) / span_s)) * _DRAWN_PERCENT


def _appearance(number: int, start: float) -> str:
    name = mark_class(number)
    steps = f"0%, {start:.2f}% {{ opacity: 0 }} {start + _STEP_PERCENT:.2f}%, 100% {{ opacity: 1 }}"
    return f"@keyframes {name} {{ {steps} }} .{name} {{ animation: {name} {_LENGTH_S}s linear infinite }}"


def _keyframes(starts: Sequence[float]) -> Iterable[str]:
    """Yields the visibility of each sentence, from its start until the start of the next sentence."""
    starts = [0.0, *starts[1:]]
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else 100.0
        steps = []
        if start > 0:
            steps += [f"0%, {max(0.0, start - _STEP_PERCENT):.2f}% {{ opacity: 0 }}"]
        steps += [f"{start:.2f}%, {max(start, end - _STEP_PERCENT):.2f}% {{ opacity: 1 }}"]
        if end < 100:
            steps += [f"{end:.2f}%, 100% {{ opacity: 0 }}"]
        yield f"@keyframes f{number} {{ {' '.join(steps)} }} .f{number} {{ animation-name: f{number} }}"
