"""Shows the throttles of a cluster as a table, with advice about throttles that serve nothing."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from rheostat.throttles.report import AuditRow
from streaming.shared.units import rate_text, span_text

_OWNERS = {
    "rheostat": "rheostat",
    "operator": "an operator's override",
    "other": "another tool or an operator",
    "broker file": "server.properties",
}
_SERVES = {
    "moves": "a move",
    "recovery": "a replica that catches up",
    "absent": "a replica whose broker or disk is offline",
    "nothing": "nothing",
}


def show(rows: Sequence[AuditRow], console: Console, now_ms: int) -> None:
    """Prints a sentence, and a row for each throttle."""
    console.print(summary(rows), soft_wrap=True)
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("throttle", "value", "set by", "since", "serves", "passes", "removal"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(
            row.name,
            row.value_text,
            _OWNERS[row.owner],
            _since_text(row, now_ms),
            _SERVES[row.serves],
            _passing_text(row),
            row.removal,
        )
    console.print(table)


def summary(rows: Sequence[AuditRow]) -> str:
    if not rows:
        return "No replication throttle is set in this cluster."
    idle = [row for row in rows if row.serves == "nothing"]
    total = f"{len(rows)} throttle settings; " if len(rows) != 1 else "1 throttle setting; "
    if not idle:
        return f"{total}each of them serves a move, or a replica that catches up or is offline."
    count = "1 of them serves" if len(idle) == 1 else f"{len(idle)} of them serve"
    clearable = any(row.can_be_cleared for row in idle)
    advice = " `rheostat throttles clear` removes those that rheostat does not manage." if clearable else ""
    return f"{total}{count} neither a move nor a replica that catches up or is offline, and would slow the next move.{advice}"


def _since_text(row: AuditRow, now_ms: int) -> str:
    if row.since_ms is None:
        return "unknown"
    age = span_text(max(0.0, (now_ms - row.since_ms) / 1000))
    return f"{age} ago" if row.since_is_exact else f"at least {age}"


def _passing_text(row: AuditRow) -> str:
    if row.rate_bytes_per_s is None:
        return ""
    return "not measured" if row.passing_bytes_per_s is None else rate_text(row.passing_bytes_per_s)
