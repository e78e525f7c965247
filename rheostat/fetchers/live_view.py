"""Draws the screen of `rheostat fetchers --watch`: the load and the lag of all threads, as a matrix and as a table."""

from __future__ import annotations

from collections import defaultdict

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from rheostat.console.rich_console import styled
from rheostat.fetchers.heat_map import shade
from rheostat.fetchers.live_threads import LiveThreads, ThreadRow, collision_text
from rheostat.fetchers.view import sentences
from streaming.shared.units import rate_text, size_text, span_text

ROWS_MAX = 12
BROKERS_MAX = 12  # More columns do not fit a terminal; then only the table of threads is shown.
LAG_SHOWN_BYTES_MIN = 1e6  # The matrix hides a smaller lag, because a single fetch can copy it.
_UNKNOWN = "–"


def render(threads: LiveThreads | None, problem: str | None) -> Group:
    """Returns one screen.

    Args:
        threads: the state of the threads; None as long as rates need a second sample.
        problem: why the screen may be outdated; None if the screen is current.
    """
    parts: list[RenderableType] = []
    if threads is None:
        parts.append(styled("Reading the sizes of all logs twice: the first rates follow.", "dim"))
    else:
        parts += map(styled, sentences(threads.report))
        if (collision := collision_text(threads)) is not None:
            parts.append(styled(collision, "bold yellow"))
        if threads.rows:
            if len(threads.report.fetchers) <= BROKERS_MAX:
                parts.append(_matrix(threads))
            parts.append(_table(threads))
        parts.append(styled(f"Rates over the last {span_text(threads.window_s)}. Nothing is changed.", "dim"))
    if problem is not None:
        parts.append(styled(problem, "bold red"))
    return Group(*parts)


def _matrix(threads: LiveThreads) -> Table:
    """Returns one row for each follower and one column for each source broker; a cell has one character for each thread."""
    by_pair: dict[tuple[int, int], dict[int, ThreadRow]] = defaultdict(dict)
    for row in threads.rows:
        follower, leader, thread = row.thread
        by_pair[(follower, leader)][thread] = row
    busiest = max(row.written_bytes_per_s for row in threads.rows) or 1.0
    leaders = sorted({leader for _, leader in by_pair})
    table = Table(
        title="Threads: a darker character means more to copy; the number beside it is the lag",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("follower ↓ source →", justify="right")
    for leader in leaders:
        table.add_column(str(leader), no_wrap=True)
    for follower in sorted({follower for follower, _ in by_pair}):
        cells = []
        for leader in leaders:
            rows = by_pair.get((follower, leader))
            if rows is None:
                cells.append("·")
                continue
            loads = [
                rows[t].written_bytes_per_s if t in rows else 0.0 for t in range(threads.report.fetchers[follower])
            ]
            lag = sum(row.lag_bytes or 0.0 for row in rows.values())
            shades = "".join(shade(load, busiest) for load in loads)
            cells.append(f"▕{shades}▏{size_text(lag) if lag >= LAG_SHOWN_BYTES_MIN else ''}")
        table.add_row(str(follower), *cells)
    return table


def _table(threads: LiveThreads) -> Table:
    count = len(threads.rows)
    suffix = f", {ROWS_MAX} of {count}" if count > ROWS_MAX else ""
    title = f"Threads with the largest lag{suffix}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("follower", "thread"):
        table.add_column(column)
    for column in ("partitions", "written to them", "copied", "lag", "lag changes by", "out of sync"):
        table.add_column(column, justify="right")
    for row in threads.rows[:ROWS_MAX]:
        change = row.lag_change_bytes_per_s
        table.add_row(
            str(row.thread[0]),
            row.client_id,
            str(len(row.partitions)),
            rate_text(row.written_bytes_per_s),
            _UNKNOWN if row.copied_bytes_per_s is None else rate_text(row.copied_bytes_per_s),
            _UNKNOWN if row.lag_bytes is None else size_text(row.lag_bytes),
            _UNKNOWN if change is None else f"{'+' if change >= 0 else '−'}{rate_text(abs(change))}",
            str(row.out_of_sync),
        )
    return table
