"""The picture of `rheostat status --watch`: how far, how fast, since when, why; one screen of a terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rheostat.console.rich_console import styled
from rheostat.quotas.live import tenant_label
from rheostat.status.active_tuner import tuner_lines
from rheostat.status.text import infeasible_lines, order_lines, outcome_text
from streaming.shared.short_lists import more_text
from streaming.shared.units import rate_text, size_text, span_text, three_digits
from tuner.api.sentences import moment
from tuner.core.throttle_limits import MB

REFRESH_S = 2.0
SAMPLES = 24  # Of a small chart: a minute or so.
ROWS_MAX = 20  # Brokers; a terminal is no longer than that.
MOVES_MAX = 10
TENANTS_MAX = 5
_SPARK_MIN = 8
_CLOSE = (0, 1, 0, 0)  # Two columns apart: a terminal may have 80.
_BARS = "▁▂▃▄▅▆▇█"


class RateHistory:
    """What a single look cannot tell: how the rates went."""

    def __init__(self) -> None:
        self.rates: dict[tuple[int, str], deque[float | None]] = {}

    def take(self, status: Mapping[str, Any]) -> None:
        for broker in status["brokers"]:
            for side in ("leader", "follower"):
                kept = self.rates.setdefault((broker["broker"], side), deque(maxlen=SAMPLES))
                kept.append(broker[f"{side}_throttled_bytes_per_s"])


def render_screen(
    status: Mapping[str, Any] | None,
    course: RateHistory,
    latency_ms: float | None,
    trouble: str | None = None,
    plans: Sequence[str] = (),
    tenants: Mapping[str, Any] | None = None,
) -> Group:
    """One screen, in the order of the page.

    Args:
        plans: in sentences.
        tenants: as ``rheostat quotas --json`` has them; None: no quotas are turned.
    """
    parts: list[RenderableType] = []
    if status is not None:
        first, *more = tuner_lines(status["tuner"])
        parts += [styled(first, "" if status["tuner"]["acting"] else "bold yellow"), *map(styled, more)]
        parts += [styled(f"{status['cluster']}: {status['headline']}", "bold red" if _stuck(status) else "bold")]
        parts += [styled(line) for line in _how_far(status)]
        parts += [styled(line, "red") for line in infeasible_lines(status)]
        parts += [styled(line, "yellow") for line in order_lines(status)]
        if status["destinations"]:
            parts.append(_moves(status))
        parts += _titled("Next", [styled(f"  {step[:1].upper()}{step[1:]}") for step in status["next"]])
        parts += [styled(line) for line in plans]
        parts.append(_brokers(status, course, latency_ms))
        if tenants is not None:
            parts += _tenants(tenants)
        decisions = [{**row, "text": outcome_text(row)} for row in status["last_decisions"]]
        parts += _lines("Last decisions", decisions)
        parts += _lines("Last seconds of the law", status["last_steering_ticks"])
    if trouble is not None:
        parts.append(styled(trouble, "red"))
    clock = time.strftime("%H:%M:%S", time.gmtime())
    parts.append(styled(f"{clock} UTC, every {REFRESH_S:g} s; Ctrl-C ends", "dim"))
    return Group(*parts)


def _stuck(status: Mapping[str, Any]) -> bool:
    return bool(status["stalled_brokers"] or status["infeasible"])


def _how_far(status: Mapping[str, Any]) -> list[str]:
    if status["done_ratio"] is None:
        return []
    ends_at_ms = status["ends_at_ms"]
    until = "" if ends_at_ms is None else f"; done at about {moment(ends_at_ms)}"
    return [f"{status['done_ratio'] * 100:.0f} % is copied, of the most that remained{until}."]


def _moves(status: Mapping[str, Any]) -> Table:
    """By the broker that replicas are made on, what is most urgent first."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=_CLOSE)
    for column in ("onto", "done", "", "remains", "slope", "ends in"):
        made.add_column(column, justify="left" if column == "done" else "right", no_wrap=True)
    made.add_column("how it is")
    for row in status["destinations"][:MOVES_MAX]:
        done = row["done_ratio"]
        made.add_row(
            str(row["broker"]),
            "" if done is None else ProgressBar(total=1.0, completed=done, width=10),
            "–" if done is None else f"{done:.0%}",
            _known(row["remaining_bytes"], size_text),
            _slope(row["remaining_slope_bytes_per_s"]),
            _known(row["eta_s"], span_text),
            styled(_how(row), "red" if row["stalled"] else ""),
        )
    if len(status["destinations"]) > MOVES_MAX:
        made.caption = f"{MOVES_MAX} of {len(status['destinations'])} destinations, the most urgent first"
    return made


def _how(row: Mapping[str, Any]) -> str:
    if row["stalled"]:
        since_ms = row["stalled_since_ms"]
        return "stalled" if since_ms is None else f"stalled since {moment(since_ms)[11:19]}"
    if row["progress_lost_s"]:
        return f"{span_text(row['progress_lost_s'])} of progress lost"
    slope = row["remaining_slope_bytes_per_s"]
    return "falls behind" if slope is not None and slope > 0 else "progressing"


def _slope(bytes_per_s: float | None) -> str:
    if bytes_per_s is None:
        return "–"
    if abs(bytes_per_s) < 1000:
        return "stands still"
    return f"{rate_text(abs(bytes_per_s))} {'nearer' if bytes_per_s < 0 else 'off'}"


def _brokers(status: Mapping[str, Any], course: RateHistory, latency_ms: float | None) -> Table:
    made = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=_CLOSE,
        caption_justify="left",
        caption=f"MB/s; the ceiling is {rate_text(status['rate_bytes_per_s_max'])}",
    )
    for column in ("broker", "side", "passes", "throttle", "W", "floor"):
        made.add_column(column, justify="left" if column == "side" else "right", no_wrap=True)
    made.add_column("last minute")
    made.add_column("p99", justify="right", no_wrap=True)
    first = sorted(status["brokers"], key=lambda b: (_idle(b), b["broker"]))
    for broker in first[:ROWS_MAX]:
        sides = [side for side in ("leader", "follower") if broker[f"{side}_current_rate_bytes_per_s"] is not None]
        for number, side in enumerate(sides or ["–"]):
            limit = broker.get(f"{side}_current_rate_bytes_per_s")
            style = "red" if broker.get(f"{side}_infeasible") else ""
            passes, steady_state, floor = (
                _mb(broker.get(f"{side}_{name}_bytes_per_s")) for name in ("throttled", "steady_state", "min_rate")
            )
            made.add_row(
                str(broker["broker"]) if number == 0 else "",
                side,
                passes,
                _mb(limit),
                styled(steady_state, style=style),
                floor,
                Spark(course.rates.get((broker["broker"], side), ()), limit),
                _latency(broker["produce_p99_ms"], latency_ms) if number == 0 else "",
            )
    if len(first) > ROWS_MAX:
        made.caption = f"{made.caption}; {ROWS_MAX} of {len(first)} brokers, those with a throttle first"
    return made


def _tenants(found: Mapping[str, Any]) -> list[RenderableType]:
    parts: list[RenderableType] = [styled(f"Tenants: {found['total_text'] or 'nobody was judged'}")]
    parts += [styled(f"  {line}", "yellow") for line in found["holds"][:TENANTS_MAX]]
    rows = sorted(found["tenants"] or (), key=lambda row: (not row["throttled"], -row["demand_per_s"]))
    for row in rows[:TENANTS_MAX]:
        quota = "no quota" if row["quota_per_s"] is None else f"quota {row['quota_per_s']:g}/s"
        held = "held back: " if row["throttled"] else ""
        why = row["reason"].replace("_", " ")
        line = f"  {tenant_label(row)}: asks for {row['demand_per_s']:g}/s, {quota}; {held}{why}"
        parts.append(styled(line, "red" if row["throttled"] else ""))
    if len(rows) > TENANTS_MAX:
        parts.append(styled(f"  {more_text(len(rows) - TENANTS_MAX, '(`rheostat quotas` has each)')}"))
    return parts


class Spark:
    """A small chart, as wide as there is room; the newest is on the right."""

    def __init__(self, rates: Iterable[float | None], limit: float | None) -> None:
        self._bars = spark(rates, limit)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(len(self._bars), _SPARK_MIN), len(self._bars)).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield styled(self._bars[-options.max_width :], cut=True)


def spark(rates: Iterable[float | None], limit: float | None) -> str:
    """What passed, against the throttle: a full bar is all of it; a dot is a gap."""
    known = list(rates)
    most = max([limit or 0.0, *(rate for rate in known if rate is not None)], default=0.0)
    if most <= 0:
        return ""
    top = len(_BARS) - 1
    return "".join("·" if rate is None else _BARS[min(top, round(top * rate / most))] for rate in known)


def _lines(title: str, rows: list[dict[str, Any]]) -> list[Text]:
    lines = []
    for row in reversed(rows):
        at = moment(row["at_ms"])[11:19]
        lines.append(styled(f"  {at} {row['text']}", "red" if row.get("failure") else ""))
    return _titled(title, lines)


def _titled(title: str, lines: list[Text]) -> list[Text]:
    return [styled(f"{title}:"), *lines] if lines else []


def _idle(broker: Mapping[str, Any]) -> bool:
    return broker["leader_current_rate_bytes_per_s"] is None and broker["follower_current_rate_bytes_per_s"] is None


def _known(value: float | None, form: Callable[[float], str]) -> str:
    return "–" if value is None else form(value)


def _mb(bytes_per_s: float | None) -> str:
    return _known(bytes_per_s, lambda value: three_digits(value / MB))


def _latency(p99_ms: float | None, latency_ms: float | None) -> Text:
    if p99_ms is None:
        return styled("–")
    if latency_ms is None:
        return styled(f"{p99_ms:.0f} ms")
    return styled(f"{p99_ms:.0f} of {latency_ms:.0f} ms", "red" if p99_ms > latency_ms else "")
