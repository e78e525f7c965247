"""The picture of `rheostat status --watch`: how far, how fast, since when, why; one screen of a terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rheostat.signal_tables import printable
from rheostat.status import ordered
from tuner.decide import words
from tuner.decide.words import span

REFRESH_S = 2.0
SAMPLES = 24  # Of a small chart: a minute or so.
ROWS_MAX = 20  # Brokers; a terminal is no longer than that.
_BARS = "▁▂▃▄▅▆▇█"


class Course:
    """What a single look cannot tell: how much was lacking at most, and how the rates went."""

    def __init__(self) -> None:
        self.peaks: dict[str, float] = {}
        self.rates: dict[tuple[int, str], deque[float | None]] = {}

    def take(self, status: Mapping[str, Any]) -> None:
        lacks = {broker: left for broker, left in status["remaining_bytes"].items() if left is not None}
        moving = bool(status["moves"])
        self.peaks = {b: max(left, self.peaks.get(b, 0.0)) for b, left in lacks.items()} if moving else {}
        for broker in status["brokers"]:
            for side in ("leader", "follower"):
                kept = self.rates.setdefault((broker["broker"], side), deque(maxlen=SAMPLES))
                kept.append(broker[f"{side}_throttled_bytes_per_s"])


def picture(
    status: Mapping[str, Any] | None,
    course: Course,
    latency_ms: float | None,
    trouble: str | None = None,
    plans: Sequence[str] = (),
) -> Group:
    """One screen.

    Args:
        plans: in sentences.
    """
    parts: list[RenderableType] = []
    if status is not None:
        parts += [Text(f"{status['cluster']}: {status['headline']}", style="bold")]
        parts += [Text(printable(line), style="yellow") for line in ordered(status)]
        if bars := _bars(status, course):
            parts.append(bars)
        parts += [Text(printable(line)) for line in plans]
        parts.append(_brokers(status, course, latency_ms))
        parts += _lines("Last decisions", status["last_decisions"])
        parts += _lines("Last seconds of the law", status["last_turns"])
    if trouble is not None:
        parts.append(Text(trouble, style="red"))
    clock = time.strftime("%H:%M:%S", time.gmtime())
    parts.append(Text(f"{clock} UTC, every {REFRESH_S:g} s; Ctrl-C ends", style="dim"))
    return Group(*parts)


def _bars(status: Mapping[str, Any], course: Course) -> Table | None:
    if not course.peaks:
        return None
    made = Table.grid(padding=(0, 2))
    for broker, peak in course.peaks.items():
        left = status["remaining_bytes"][broker]
        done = 1.0 - left / peak if peak > 0 else 1.0
        made.add_row(
            f"onto broker {broker}", ProgressBar(total=1.0, completed=done, width=30), f"{done:.0%}",
            f"{words.size(left)} remain",
        )  # fmt: skip
    if status["eta_s"] is not None:
        made.add_row("done in about", span(status["eta_s"]))
    return made


def _brokers(status: Mapping[str, Any], course: Course, latency_ms: float | None) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("broker", "side", "passes", "throttle", "W", "last minute", "p99"):
        made.add_column(column, justify="left" if column in ("side", "last minute") else "right")
    first = sorted(status["brokers"], key=lambda b: (_idle(b), b["broker"]))
    for broker in first[:ROWS_MAX]:
        sides = [side for side in ("leader", "follower") if broker[f"{side}_rate_bytes_per_s"] is not None]
        for number, side in enumerate(sides or ["–"]):
            limit = broker.get(f"{side}_rate_bytes_per_s")
            made.add_row(
                str(broker["broker"]) if number == 0 else "", side, _rate(broker.get(f"{side}_throttled_bytes_per_s")),
                _rate(limit), _rate(broker.get(f"{side}_keep_up_bytes_per_s")),
                spark(course.rates.get((broker["broker"], side), ()), limit),
                _latency(broker["produce_p99_ms"], latency_ms) if number == 0 else "",
            )  # fmt: skip
    if len(first) > ROWS_MAX:
        made.caption = f"{ROWS_MAX} of {len(first)} brokers, those with a throttle first"
    return made


def spark(rates: Iterable[float | None], limit: float | None) -> str:
    """What passed, against the throttle: a full bar is all of it; a dot is a gap."""
    known = list(rates)
    most = max([limit or 0.0, *(rate for rate in known if rate is not None)], default=0.0)
    if most <= 0:
        return ""
    top = len(_BARS) - 1
    return "".join("·" if rate is None else _BARS[min(top, round(top * rate / most))] for rate in known)


def _lines(title: str, rows: list[dict[str, Any]]) -> list[Text]:
    if not rows:
        return []
    lines = [Text(f"{title}:")]
    for row in reversed(rows):
        at = time.strftime("%H:%M:%S", time.gmtime(row["at_ms"] / 1000))
        failure = f" FAILED: {row['failure']}" if row.get("failure") else ""
        lines.append(Text(printable(f"  {at} {row['text']}{failure}"), style="red" if failure else ""))
    return lines


def _idle(broker: Mapping[str, Any]) -> bool:
    return broker["leader_rate_bytes_per_s"] is None and broker["follower_rate_bytes_per_s"] is None


def _rate(bytes_per_s: float | None) -> str:
    return "–" if bytes_per_s is None else words.rate(bytes_per_s)


def _latency(p99_ms: float | None, latency_ms: float | None) -> Text:
    if p99_ms is None:
        return Text("–")
    if latency_ms is None:
        return Text(f"{p99_ms:.0f} ms")
    return Text(f"{p99_ms:.0f} of {latency_ms:.0f} ms", style="red" if p99_ms > latency_ms else "")
