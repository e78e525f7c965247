"""Shows the report of `rheostat history` on a terminal: a table with a row for each broker, the busiest first."""

from __future__ import annotations

from collections.abc import Callable

from rich import box
from rich.console import Console
from rich.table import Table

from rheostat.history.report import BrokerHistoryRow, HistoryReport
from streaming.shared.units import rate_text, share_text, span_text, three_digits

ROWS_MAX = 40
_WIDE = 150  # Characters that the table needs with all columns.
_DASH = "–"

# Header and value of each column.
_Columns = tuple[tuple[str, Callable[[BrokerHistoryRow], str]], ...]


def _mean(name: str, text_of: Callable[[float], str] = rate_text) -> Callable[[BrokerHistoryRow], str]:
    return lambda row: _text(row.means[name], text_of)


def _highest(name: str, text_of: Callable[[float], str] = rate_text) -> Callable[[BrokerHistoryRow], str]:
    return lambda row: _text(row.maxima[name], text_of)


def _text(value: float | None, text_of: Callable[[float], str]) -> str:
    return _DASH if value is None else text_of(value)


def _messages(count: float) -> str:
    return f"{count:,.0f}"


_ALWAYS: _Columns = (
    ("clients in", _mean("client_in_bytes_per_s")),
    ("clients out", _mean("client_out_bytes_per_s")),
    ("peak in", _highest("in_bytes_per_s_max")),
    ("peak out", _highest("out_bytes_per_s_max")),
    ("p99 ms", lambda row: _text(row.produce_p99_ms, three_digits)),
    ("worst", _highest("produce_p99_ms_max", three_digits)),
    ("moves", lambda row: span_text(row.moved_s) if row.moved_s else _DASH),
)
_IF_WIDE: _Columns = (
    ("replication in", _mean("replication_in_bytes_per_s")),
    ("replication out", _mean("replication_out_bytes_per_s")),
    ("W in", _mean("follower_steady_state_bytes_per_s")),
    ("W out", _mean("leader_steady_state_bytes_per_s")),
    ("idle", _mean("request_handler_idle_ratio", share_text)),
    ("lag", _mean("lag_sum_messages", _messages)),
    ("periods", lambda row: str(row.periods)),
)


def show(report: HistoryReport, console: Console) -> None:
    """Prints the report."""
    is_wide = console.width >= _WIDE
    console.print(_table(report, _ALWAYS + _IF_WIDE if is_wide else _ALWAYS))
    for line in notes(report):
        console.print(line, style="dim", soft_wrap=True)


def notes(report: HistoryReport) -> list[str]:
    """Returns sentences that explain the table."""
    lines = [
        "Rates are means over this time. A peak is the highest half-minute rate of clients and replication together. p99: "
        "the median of the periods; worst: the highest p99 of a signal. Moves: the time in which replicas moved or recovered."
    ]
    missing = report.expected_periods - report.periods_in_time
    if missing > 1:  # One period may not be written yet.
        lines.append(
            f"The history has {report.periods_in_time} of {report.expected_periods} periods of ten minutes; for the other "
            "periods there were no signals, or the topic no longer keeps them."
        )
    return lines


def by_load(report: HistoryReport) -> list[BrokerHistoryRow]:
    """Returns the rows, the row with the highest mean load of clients first."""

    def load(row: BrokerHistoryRow) -> float:
        return (row.means["client_in_bytes_per_s"] or 0.0) + (row.means["client_out_bytes_per_s"] or 0.0)

    return sorted(report.rows, key=lambda row: (-load(row), row.broker))


def _table(report: HistoryReport, columns: _Columns) -> Table:
    rows = by_load(report)
    suffix = f", the {ROWS_MAX} busiest of {len(rows)} (--json has all)" if len(rows) > ROWS_MAX else ""
    since = span_text((report.now_ms - report.since_ms) / 1000)
    table = Table(
        title=f"{report.cluster}: the last {since}{suffix}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in ("broker", *(name for name, _ in columns)):
        table.add_column(name, justify="right")
    for row in rows[:ROWS_MAX]:
        table.add_row(str(row.broker), *[text_of(row) for _, text_of in columns])
    return table
