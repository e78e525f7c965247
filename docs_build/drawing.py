"""Draws boxes, arrows and text as SVG, with a background of its own that follows the reader's preference for light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape


class Fill(StrEnum):
    """The colours of boxes; on a dark background the style replaces them."""

    PLAIN = "#eef1f5"
    BLUE = "#cfe4f5"
    ORANGE = "#fbe0cd"
    GREEN = "#cdeee2"
    GREY = "#dcdfe4"


_STYLE = """<style>@media (prefers-color-scheme: dark) {
rect[fill="white"] { fill: #15191f } text { fill: #e6e9ee } text[fill="#555"] { fill: #a9b1bc }
[stroke="#333"] { stroke: #a9b1bc } [stroke="#ddd"] { stroke: #343a44 } path[fill="#333"] { fill: #a9b1bc }
[fill="#eef1f5"] { fill: #262d37 } [fill="#cfe4f5"] { fill: #173c58 } [fill="#fbe0cd"] { fill: #5a2f12 }
[fill="#cdeee2"] { fill: #10493a } [fill="#dcdfe4"] { fill: #39414d }
}</style>"""
_ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse">'
    '<path d="M0 0 L8 4 L0 8 z" fill="#333"/></marker>'
)
_LINE_HEIGHT = 17


@dataclass(slots=True)
class Drawing:
    """A picture that is drawn piece by piece; ``text`` at the end returns it."""

    title: str
    width: int
    height: int
    _parts: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, fill: Fill, lines: Sequence[str] = ()) -> None:
        """Draws a box with centred lines of text; the first line is bold if there are several."""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" stroke="#333"/>'
        )
        top = y + height / 2 - (len(lines) - 1) * _LINE_HEIGHT / 2 + 4.5
        for i, line in enumerate(lines):
            self.label(x + width / 2, top + i * _LINE_HEIGHT, line, anchor="middle", bold=i == 0 and len(lines) > 1)

    def label(
        self, x: float, y: float, words: str, *, anchor: str = "start", bold: bool = False, faint: bool = False
    ) -> None:
        weight, colour = ' font-weight="bold"' if bold else "", ' fill="#555"' if faint else ""
        self._parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{weight}{colour}>{escape(words)}</text>')

    def arrow(self, *points: tuple[float, float], both_ends: bool = False) -> None:
        """Draws a line through the points, with an arrowhead at the end."""
        path = " ".join(f"{'L' if i else 'M'}{x:g} {y:g}" for i, (x, y) in enumerate(points))
        start = ' marker-start="url(#arrow)"' if both_ends else ""
        self._parts.append(
            f'<path d="{path}" fill="none" stroke="#333" stroke-width="1.3"{start} marker-end="url(#arrow)"/>'
        )

    def rule(self, x: float, top: float, bottom: float, *, strong: bool = False) -> None:
        """Draws a vertical dashed line."""
        colour = "#333" if strong else "#ddd"
        self._parts.append(
            f'<line x1="{x:g}" y1="{top:g}" x2="{x:g}" y2="{bottom:g}" stroke="{colour}" stroke-dasharray="3 3"/>'
        )

    def text(self) -> str:
        """Returns the SVG text."""
        head = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" font-family="system-ui, sans-serif" font-size="14" role="img">',
            f"<title>{escape(self.title)}</title>",
            _STYLE,
            f"<defs>{_ARROW}</defs>",
            f'<rect width="{self.width}" height="{self.height}" fill="white"/>',
        ]
        return "\n".join([*head, *self._parts, "</svg>"]) + "\n"
