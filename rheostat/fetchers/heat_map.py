"""Draws a heat map of fetcher threads: one row per follower, one column per leader, and in each cell one stripe per thread.

A busier thread is darker. If a cell has one dark stripe next to empty stripes, partitions collide on that thread.
Invariant: the same loads give the same text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil

from tuner.core.fetcher_load import (
    FetchedReplica,
    Fetchers,
    FetcherThread,
    FetchPair,
    loads_by_thread,
)

_LABELS_MAX = 30  # With more labels in a row or column, the broker ids would overlap.
BROKERS_MAX = 40  # With more brokers, stripes are too thin to see: a cell then shows only its busiest thread.

_SHADES = " ░▒▓█"
_PALE, _DARK = (247, 251, 255), (8, 48, 107)
# Sizes in pixels.
_LEFT = 60  # Margin to the left of each map.
_HEAD = 64  # Height of the title and subtitle.
_GAP = 50  # Space above and below each map.
_MAP_SIDE = 640  # Width and height of each map.


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One of the maps that a picture shows side by side.

    Attributes:
        title: the line above the map.
        fetchers: the number of threads of each follower.
        by_pair: the partitions that each follower copies from each leader.
    """

    title: str
    fetchers: Fetchers
    by_pair: Mapping[FetchPair, Sequence[FetchedReplica]]

    def brokers(self) -> tuple[list[int], list[int]]:
        """Returns all followers, and all leaders."""
        return sorted({f for f, _ in self.by_pair}), sorted({leader for _, leader in self.by_pair})

    def loads(self) -> dict[FetcherThread, float]:
        """Returns the load of each thread."""
        return {thread: load for thread, (load, _) in loads_by_thread(self.by_pair, self.fetchers).items()}


def as_text(maps: Sequence[HeatMap]) -> str:
    """Returns the maps as text: one character per thread, from blank (idle) to full (the busiest thread of all maps)."""
    max_load = _max_load(maps)
    parts: list[str] = []
    for heat_map in maps:
        followers, leaders = heat_map.brokers()
        loads = heat_map.loads()
        threads_max = max(heat_map.fetchers.values(), default=1)
        cell_width = max(threads_max, len(str(max(leaders, default=0))))
        label_width = max((len(str(f)) for f in followers), default=1)
        parts += [
            heat_map.title,
            "follower ↓ leader →",
            " " * label_width + " │" + "│".join(f"{b:>{cell_width}}" for b in leaders) + "│",
        ]
        for follower in followers:
            cells = []
            for leader in leaders:
                thread_loads = [loads.get((follower, leader, t), 0.0) for t in range(heat_map.fetchers[follower])]
                text = (
                    "".join(shade(load, max_load) for load in thread_loads)
                    if (follower, leader) in heat_map.by_pair
                    else "·"
                )
                cells.append(f"{text:<{cell_width}}")
            parts.append(f"{follower:>{label_width}} │" + "│".join(cells) + "│")
        parts.append("")
    return "\n".join(parts)


def as_svg(title: str, subtitle: str, maps: Sequence[HeatMap]) -> str:
    """Returns the maps as an SVG picture, side by side.

    Args:
        subtitle: names the unit of the loads.
    """
    max_load = _max_load(maps)
    width = _LEFT + len(maps) * (_MAP_SIDE + _LEFT)
    height = _HEAD + _GAP + _MAP_SIDE + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="40" fill="#555">{escape(subtitle)}</text>',
    ]
    for i, heat_map in enumerate(maps):
        parts += _panel(heat_map, _LEFT + i * (_MAP_SIDE + _LEFT), _HEAD + _GAP, max_load)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(heat_map: HeatMap, left: float, top: float, max_load: float) -> list[str]:
    followers, leaders = heat_map.brokers()
    loads = heat_map.loads()
    cell_side = _MAP_SIDE / max(len(followers), len(leaders), 1)
    parts = [f'<text x="{left}" y="{top - 28}" font-weight="bold">{escape(heat_map.title)}</text>']
    label_every = max(1, ceil(len(leaders) / _LABELS_MAX))
    for x, leader in enumerate(leaders):
        if x % label_every == 0:
            label_x = left + (x + 0.5) * cell_side
            parts.append(f'<text x="{label_x:.1f}" y="{top - 8}" text-anchor="middle">{leader}</text>')
    for y, follower in enumerate(followers):
        if y % label_every == 0:
            label_y = top + (y + 0.5) * cell_side + 4
            parts.append(f'<text x="{left - 8}" y="{label_y:.1f}" text-anchor="end">{follower}</text>')
        for x, leader in enumerate(leaders):
            if (follower, leader) in heat_map.by_pair:
                thread_loads = [loads.get((follower, leader, t), 0.0) for t in range(heat_map.fetchers[follower])]
                parts += _cell(
                    thread_loads if len(followers) <= BROKERS_MAX else [max(thread_loads)],
                    left + x * cell_side,
                    top + y * cell_side,
                    cell_side,
                    max_load,
                )
    parts.append(
        f'<text x="{left}" y="{top + len(followers) * cell_side + 20:.1f}" fill="#555">rows: followers, columns: leaders, '
        "stripes: threads</text>"
    )
    return parts


def _cell(thread_loads: Sequence[float], x: float, y: float, side: float, max_load: float) -> list[str]:
    """Returns the stripes of one cell as SVG, one per load; ``x`` and ``y`` are its left upper corner."""
    width = (side - 2) / len(thread_loads)
    return [
        f'<rect x="{x + 1 + i * width:.1f}" y="{y + 1:.1f}" width="{width:.1f}" height="{side - 2:.1f}" '
        f'fill="{_colour(load / max_load)}" stroke="#ccc" stroke-width="0.3"/>'
        for i, load in enumerate(thread_loads)
    ]


def _max_load(maps: Sequence[HeatMap]) -> float:
    """Returns the load of the busiest thread of all maps; 1.0 if all threads are idle, because the caller divides by it."""
    return max((load for heat_map in maps for load in heat_map.loads().values()), default=0.0) or 1.0


def shade(load: float, max_load: float) -> str:
    """Returns a blank for an idle thread, and otherwise one of the four darker characters."""
    return _SHADES[0] if load <= 0 else _SHADES[1 + min(3, int(4 * load / max_load))]


def _colour(share: float) -> str:
    """Returns a colour between pale (0) and dark (1) as "#rrggbb"."""
    return "#" + "".join(f"{round(pale + (dark - pale) * share):02x}" for pale, dark in zip(_PALE, _DARK, strict=True))
