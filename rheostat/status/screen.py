"""Draws the screen of `rheostat status --watch`: moves, throttles, tenants, plans and decisions on one terminal screen."""

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
from rheostat.status.lease_holders import lease_lines
from rheostat.status.text import infeasible_lines, order_lines, outcome_text
from streaming.shared.short_lists import more_text
from streaming.shared.units import rate_text, size_text, span_text, three_digits
from tuner.api.cordon_views import cordon_line
from tuner.api.log_dir_views import log_dir_line
from tuner.api.sentences import moment, schedule_lines
from tuner.core.presence import TunerMode
from tuner.core.throttle_limits import MB

REFRESH_S = 2.0
SAMPLES = 24  # Width of a small chart: about a minute.
ROWS_MAX = 20  # Brokers; limited by the height of a terminal.
MOVES_MAX = 10
TENANTS_MAX = 5
_SPARK_MIN = 8
_PADDING = (0, 1, 0, 0)  # Narrow, for terminals of 80 columns.
_BARS = "▁▂▃▄▅▆▇█"


class RateHistory:
    """Keeps the measured rates of each side over the last minute, for the charts."""

    def __init__(self) -> None:
        self.rates: dict[tuple[int, str], deque[float | None]] = {}

    def add(self, status: Mapping[str, Any]) -> None:
        """Adds the rates of one status."""
        for broker in status["brokers"]:
            for side in ("leader", "follower"):
                samples = self.rates.setdefault((broker["broker"], side), deque(maxlen=SAMPLES))
                samples.append(broker[f"{side}_throttled_bytes_per_s"])


def render_screen(
    status: Mapping[str, Any] | None,
    history: RateHistory,
    trouble: str | None = None,
    plans: Sequence[str] = (),
    tenants: Mapping[str, Any] | None = None,
) -> Group:
    """Returns one screen, in the order of the status page.

    Args:
        history: the rates of the last minute.
        trouble: why the screen may be outdated; None if the screen is current.
        plans: sentences about the plans.
        tenants: the report of ``rheostat quotas --json``; None if rheostat manages no quotas.
    """
    parts: list[RenderableType] = []
    if status is not None:
        first_line, *more_lines = tuner_lines(status["tuner"])
        more_lines += lease_lines(status)
        tuner_style = "" if status["tuner"]["state"] == TunerMode.ACTIVE else "bold yellow"
        parts += [styled(first_line, tuner_style), *map(styled, [*more_lines, *schedule_lines(status["schedule"])])]
        headline_style = "bold red" if _needs_attention(status) else "bold"
        parts.append(styled(f"{status['cluster']}: {status['headline']}", headline_style))
        parts += [styled(line) for line in _progress_lines(status)]
        parts += [styled(line, "red") for line in infeasible_lines(status)]
        parts += [styled(line, "yellow") for line in order_lines(status)]
        if status["destinations"]:
            parts.append(_moves_table(status))
        parts += [styled(log_dir_line(row)) for row in status["log_dirs"]]
        parts += [styled(cordon_line(row)) for row in status["cordons"]]
        parts += _titled("Next", [styled(f"  {step[:1].upper()}{step[1:]}") for step in status["next"]])
        parts += [styled(line) for line in plans]
        parts.append(_brokers_table(status, history))
        if tenants is not None:
            parts += _tenant_lines(tenants)
        decisions = [{**row, "text": outcome_text(row)} for row in status["last_decisions"]]
        parts += _dated_lines("Last decisions", decisions)
        parts += _dated_lines("Last steering ticks", status["last_steering_ticks"])
    if trouble is not None:
        parts.append(styled(trouble, "red"))
    clock = time.strftime("%H:%M:%S", time.gmtime())
    parts.append(styled(f"{clock} UTC, every {REFRESH_S:g} s; Ctrl-C ends", "dim"))
    return Group(*parts)


def _needs_attention(status: Mapping[str, Any]) -> bool:
    return bool(status["stalled_brokers"] or status["infeasible"])


def _progress_lines(status: Mapping[str, Any]) -> list[str]:
    if status["done_ratio"] is None:
        return []
    ends_at_ms = status["ends_at_ms"]
    until = "" if ends_at_ms is None else f"; done at about {moment(ends_at_ms)}"
    return [f"{status['done_ratio'] * 100:.0f} % copied{until}."]


def _moves_table(status: Mapping[str, Any]) -> Table:
    """Returns the table of moves by destination broker, the most urgent first."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=_PADDING)
    for column in ("onto", "done", "", "remaining", "change", "ends in"):
        table.add_column(column, justify="left" if column == "done" else "right", no_wrap=True)
    table.add_column("state")
    for row in status["destinations"][:MOVES_MAX]:
        done = row["done_ratio"]
        table.add_row(
            str(row["broker"]),
            "" if done is None else ProgressBar(total=1.0, completed=done, width=10),
            "–" if done is None else f"{done:.0%}",
            _or_dash(row["remaining_bytes"], size_text),
            _slope(row["remaining_slope_bytes_per_s"]),
            _or_dash(row["eta_s"], span_text),
            styled(_move_state(row), "red" if row["stalled"] else ""),
        )
    if len(status["destinations"]) > MOVES_MAX:
        table.caption = f"{MOVES_MAX} of {len(status['destinations'])} destinations, the most urgent first"
    return table


def _move_state(row: Mapping[str, Any]) -> str:
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
        return "unchanged"
    return f"{rate_text(abs(bytes_per_s))} {'less' if bytes_per_s < 0 else 'more'}"


def _brokers_table(status: Mapping[str, Any], history: RateHistory) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=_PADDING,
        caption_justify="left",
        caption=f"MB/s; the ceiling is {rate_text(status['rate_bytes_per_s_max'])}",
    )
    # "W" is the steady-state replication: a longer title does not fit into 80 columns.
    for column in ("broker", "side", "traffic", "throttle", "W", "minimum"):
        table.add_column(column, justify="left" if column == "side" else "right", no_wrap=True)
    table.add_column("last minute")
    table.add_column("p99", justify="right", no_wrap=True)
    brokers = sorted(status["brokers"], key=lambda row: (_is_unthrottled(row), row["broker"]))  # With a throttle first.
    for broker in brokers[:ROWS_MAX]:
        sides = [side for side in ("leader", "follower") if broker[f"{side}_current_rate_bytes_per_s"] is not None]
        # A broker without a throttle gets one row with the side "–", for which the status has no values.
        for number, side in enumerate(sides or ["–"]):
            limit = broker.get(f"{side}_current_rate_bytes_per_s")
            style = "red" if broker.get(f"{side}_infeasible") else ""
            traffic, steady_state, min_rate = (
                _mb(broker.get(f"{side}_{name}_bytes_per_s")) for name in ("throttled", "steady_state", "min_rate")
            )
            table.add_row(
                str(broker["broker"]) if number == 0 else "",
                side,
                traffic,
                _mb(limit),
                styled(steady_state, style=style),
                min_rate,
                Spark(history.rates.get((broker["broker"], side), ()), limit),
                _latency(broker["produce_p99_ms"], broker["latency_limit"]) if number == 0 else "",
            )
    if len(brokers) > ROWS_MAX:
        table.caption = f"{table.caption}; {ROWS_MAX} of {len(brokers)} brokers, those with a throttle first"
    return table


def _tenant_lines(report: Mapping[str, Any]) -> list[RenderableType]:
    parts: list[RenderableType] = [styled(f"Tenants: {report['total_text'] or 'no tenant was evaluated'}")]
    parts += [styled(f"  {line}", "yellow") for line in report["holds"][:TENANTS_MAX]]
    # Throttled tenants first, each group by falling demand.
    rows = sorted(report["tenants"] or (), key=lambda row: (not row["throttled"], -row["demand_per_s"]))
    for row in rows[:TENANTS_MAX]:
        quota = "no quota" if row["quota_per_s"] is None else f"quota {row['quota_per_s']:g}/s"
        throttled = "throttled: " if row["throttled"] else ""
        why = row["reason"].replace("_", " ")
        line = f"  {tenant_label(row)}: demand {row['demand_per_s']:g}/s, {quota}; {throttled}{why}"
        parts.append(styled(line, "red" if row["throttled"] else ""))
    if len(rows) > TENANTS_MAX:
        parts.append(styled(f"  {more_text(len(rows) - TENANTS_MAX, '(`rheostat quotas` has each)')}"))
    return parts


class Spark:
    """A small chart that fills the available width; the newest value is on the right."""

    def __init__(self, rates: Iterable[float | None], limit: float | None) -> None:
        self._bars = spark(rates, limit)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(len(self._bars), _SPARK_MIN), len(self._bars)).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield styled(self._bars[-options.max_width :], cut=True)


def spark(rates: Iterable[float | None], limit: float | None) -> str:
    """Returns the rates as bars relative to the throttle: a full bar is the whole throttle, a dot is an unknown rate."""
    values = list(rates)
    scale = max([limit or 0.0, *(rate for rate in values if rate is not None)], default=0.0)
    if scale <= 0:
        return ""
    top = len(_BARS) - 1
    return "".join("·" if rate is None else _BARS[min(top, round(top * rate / scale))] for rate in values)


def _dated_lines(title: str, rows: list[dict[str, Any]]) -> list[Text]:
    lines = []
    for row in reversed(rows):
        at = moment(row["at_ms"])[11:19]
        lines.append(styled(f"  {at} {row['text']}", "red" if row.get("failure") else ""))
    return _titled(title, lines)


def _titled(title: str, lines: list[Text]) -> list[Text]:
    return [styled(f"{title}:"), *lines] if lines else []


def _is_unthrottled(broker: Mapping[str, Any]) -> bool:
    return broker["leader_current_rate_bytes_per_s"] is None and broker["follower_current_rate_bytes_per_s"] is None


def _or_dash(value: float | None, to_text: Callable[[float], str]) -> str:
    return "–" if value is None else to_text(value)


def _mb(bytes_per_s: float | None) -> str:
    return _or_dash(bytes_per_s, lambda value: three_digits(value / MB))


def _latency(p99_ms: float | None, limit: Mapping[str, Any] | None) -> Text:
    if p99_ms is None:
        return styled("–")
    if limit is None:
        return styled(f"{p99_ms:.0f} ms")
    return styled(f"{p99_ms:.0f} of {limit['p99_ms_max']:.0f} ms", "red" if p99_ms > limit["p99_ms_max"] else "")
