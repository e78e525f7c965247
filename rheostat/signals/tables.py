"""Renders signals as tables: one table per kind and one row per entity, with a dash for values that were not measured.

By default a table has at most eight columns, which fit a terminal of 80 characters. With all columns, a kind is split into several
tables that fit the console.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from rheostat.console import escape
from rheostat.console.rich_console import styled
from streaming.shared.contract import (
    FetcherThreadLag,
    LaggingPartition,
    LagTrend,
    MovingPartition,
    Signal,
    ThrottledBy,
)
from streaming.shared.units import rate_text, size_text, span_text
from tuner.core.freshness import Freshness, age_s, freshness

_DASH = "–"
_AGE = "age"
_PADDING = (0, 1, 0, 0)
_COLUMN_GAP = 2  # Characters between two columns with this padding.
_UNBOUNDED = 100_000  # A console width that no table exceeds.
_LARGEST = 3  # Largest partitions of a move that are shown.
_TOKENS_WITHOUT_QUOTA = 1e15  # A broker reports more tokens than this for a tenant without a quota.

Figure = Callable[[Any], str]  # Returns the text of one value of a signal.
Columns = tuple[tuple[str, Figure], ...]  # Header and value of each column.


@dataclass(frozen=True, slots=True)
class Sheet:
    """The columns of one kind of signal.

    Attributes:
        about: columns that identify the entity; the age of the signal follows them.
        figures: columns that are always shown.
        more: columns that ``--wide`` adds.
    """

    title: str
    about: Columns
    figures: Columns
    more: Columns


def tables(
    sheet: Sheet,
    signals: Sequence[Signal],
    now_ms: int,
    age_s_max: float,
    console: Console,
    *,
    wide: bool,
    has_cluster_column: bool,
) -> list[Table]:
    """Returns the table of one kind; with ``wide`` all columns, in as many tables as the console's width requires.

    Args:
        now_ms: the current time, for the age of each signal.
        age_s_max: older signals are stale.
        has_cluster_column: whether the first column names the cluster.
    """
    about = sheet.about
    if has_cluster_column:
        about = (("cluster", lambda signal: signal.cluster), *about)

    def make_table(figures: Columns) -> Table:
        return _table(sheet.title, about, figures, signals, now_ms, age_s_max)

    if not wide:
        return [_fit(make_table(sheet.figures), console)]
    parts: list[Columns] = []
    for column in (_COMPLETE, *sheet.figures, *sheet.more):
        if parts and _width(make_table((*parts[-1], column)), console) <= console.width:
            parts[-1] = (*parts[-1], column)
        else:
            parts.append((column,))
    return [_fit(make_table(figures), console) for figures in parts]


def _table(
    title: str, about: Columns, figures: Columns, signals: Iterable[Signal], now_ms: int, age_s_max: float
) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=_PADDING)
    for name, _ in about:
        table.add_column(name, overflow="fold")
    for name in (_AGE, *(name for name, _ in figures)):
        table.add_column(name, justify="right", overflow="fold")
    for signal in signals:
        is_fresh = freshness(signal, now_ms, age_s_max) is Freshness.FRESH
        table.add_row(
            *(figure(signal) for _, figure in about),
            styled(_age(signal, now_ms, is_fresh), "" if is_fresh else "red"),
            *(figure(signal) for _, figure in figures),
        )
    return table


def _fit(table: Table, console: Console) -> Table:
    """Returns the table. If it is too wide, headers are broken between words where that makes it fit.

    Values are not broken, except an age such as "3 min, stale".
    """
    if _width(table, console) <= console.width:
        return table
    widths = []
    for column in table.columns:
        cells = [str(cell) for cell in column.cells]
        if column.header == _AGE:
            cells = [part for cell in cells for part in cell.replace(", ", ",\n").split("\n")]
        else:
            cells += str(column.header).split()
        widths.append(max(map(len, cells)))
    if sum(widths) + _COLUMN_GAP * len(widths) <= console.width:
        for column, width in zip(table.columns, widths, strict=True):
            column.width = width
    return table


def _width(table: Table, console: Console) -> int:
    """Returns the width of the table if nothing is broken."""
    return Measurement.get(console, console.options.update_width(_UNBOUNDED), table).maximum


def _age(signal: Signal, now_ms: int, is_fresh: bool) -> str:
    if is_fresh:
        return span_text(age_s(signal, now_ms))
    ahead_s = (signal.sampled_at_ms - now_ms) / 1000
    return f"{span_text(ahead_s)} ahead, stale" if ahead_s > 0 else f"{span_text(-ahead_s)}, stale"


def _figure(value: float | None, to_text: Callable[[float], str]) -> str:
    return _DASH if value is None else to_text(value)


def _rate(bytes_per_s: float | None) -> str:
    return _figure(bytes_per_s, rate_text)


def _size(n_bytes: float | None) -> str:
    return _figure(n_bytes, size_text)


def _ms(value: float | None) -> str:
    return _figure(value, lambda v: f"{v:.0f} ms" if v == 0 or v >= 10 else f"{v:.1f} ms")


def _share(ratio: float | None) -> str:
    return _figure(ratio, lambda v: f"{v * 100:.0f} %")


def _per_s(value: float | None) -> str:
    return _figure(value, lambda v: f"{v:.0f}/s" if v == 0 or v >= 10 else f"{v:.2f}/s")


def _mean(value: float | None) -> str:
    return _figure(value, lambda v: f"{v:.2f}")


def _number(value: float | None) -> str:
    return _figure(value, lambda v: f"{v:.0f}")


def clock(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


# Kafka's own metric of throttled bytes is exact. If it is missing, reassignment bytes are a lower bound, and replication bytes an
# upper bound.
_SOURCES = {
    ThrottledBy.QUOTA.value: "quota",
    ThrottledBy.REASSIGNMENT.value: "reassignment, at least",
    ThrottledBy.REPLICATION.value: "replication, at most",
}


def _source(throttled_by: str | None) -> str:
    return _DASH if throttled_by is None else _SOURCES.get(throttled_by, throttled_by)


def _largest(partitions: Sequence[MovingPartition]) -> str:
    shown = [f"{p.topic}-{p.partition} {_size(p.remaining_bytes)}" for p in partitions[:_LARGEST]]
    return ", ".join(shown) or _DASH


def _ago(age_s: float | None) -> str:
    return _figure(age_s, lambda v: f"{span_text(v)} ago")


def _tokens(tokens: float | None) -> str:
    return _figure(tokens, lambda v: "no quota" if v > _TOKENS_WITHOUT_QUOTA else f"{v:.1f}")


def _active(active: float | None) -> str:
    return _figure(active, lambda v: "yes" if v else "no")


def _name(name: str | None) -> str:
    return _DASH if name is None else escape.printable_name(name) or '""'


def _column(header: str, field: str, text_of: Figure) -> tuple[str, Figure]:
    """Returns a column that shows one field of a signal."""
    return header, lambda signal: text_of(getattr(signal, field))


def _trend(trend: LagTrend | None) -> str:
    return _figure(trend.slope_messages_per_s if trend is not None else None, lambda v: f"{v:+.1f}/s" if v else "0/s")


def _fit_of(trend: LagTrend | None) -> str:
    return _figure(trend.r2 if trend is not None else None, lambda v: f"{v:.2f}")


def _seconds(value: float | None) -> str:
    return _figure(value, span_text)


def _threads(threads: Sequence[FetcherThreadLag]) -> str:
    """Returns the threads with the largest lags: source broker and number of the thread, lag, and copy rate."""
    behind = sorted((t for t in threads if t.lag_sum_messages), key=lambda t: -(t.lag_sum_messages or 0))
    shown = [
        f"{t.source}/{t.fetcher} {_number(t.lag_sum_messages)} at {_rate(t.fetched_bytes_per_s)}"
        for t in behind[:_LARGEST]
    ]
    return ", ".join(shown) or _DASH


def _lagging(partitions: Sequence[LaggingPartition]) -> str:
    shown = [f"{p.topic}-{p.partition} {_number(p.lag_messages)}" for p in partitions[:_LARGEST]]
    return ", ".join(shown) or _DASH


_COMPLETE: tuple[str, Figure] = _column("complete", "completeness", _share)

SHEETS = {
    "broker": Sheet(
        "Brokers",
        (_column("broker", "broker", str),),
        (
            _column("leader throttle", "leader_rate_bytes_per_s", _rate),
            _column("used", "leader_throttled_bytes_per_s", _rate),
            _column("follower throttle", "follower_rate_bytes_per_s", _rate),
            _column("used", "follower_throttled_bytes_per_s", _rate),
            _column("clients in", "client_in_bytes_per_s", _rate),
            _column("produce p99", "produce_p99_ms", _ms),
        ),
        (
            _column("source of used", "throttled_by", _source),
            _column("replication in", "replication_in_bytes_per_s", _rate),
            _column("replication out", "replication_out_bytes_per_s", _rate),
            _column("reassigned in", "reassignment_in_bytes_per_s", _rate),
            _column("reassigned out", "reassignment_out_bytes_per_s", _rate),
            _column("clients out", "client_out_bytes_per_s", _rate),
            _column("produce mean", "produce_mean_ms", _ms),
            _column("fetch p99", "fetch_p99_ms", _ms),
            _column("handlers idle", "request_handler_idle_ratio", _share),
            _column("replica lag", "replica_lag_sum_messages", _number),
            _column("ISR shrinks", "isr_shrinks_per_s", _per_s),
            _column("under min ISR", "under_min_isr_partitions", _number),
            _column("partitions", "partitions", _number),
            _column("leads", "leaders", _number),
            _column("metadata lag", "metadata_lag_ms", _ms),
            _column("log dirs copied", "log_dir_copied_bytes_per_s", _rate),
            _column("link speed", "link_speed_bytes_per_s", _rate),
        ),
    ),
    "move": Sheet(
        "Moves",
        (_column("broker", "broker", str), _column("side", "side", str)),
        (
            _column("moving", "moving_partitions", _number),
            _column("remain", "remaining_bytes", _size),
            _column("trend", "remaining_slope_bytes_per_s", _rate),
            _column("steady state", "steady_state_bytes_per_s", _rate),
            _column("progress", "progress_age_s", _ago),
        ),
        (
            _column("listed", "listed_partitions", _number),
            _column("done", "done_partitions", _number),
            _column("written", "write_bytes_per_s", _rate),
            _column("lag", "lag_messages", _number),
            _column("largest", "largest", _largest),
        ),
    ),
    "replication": Sheet(
        "Replication lag",
        (_column("broker", "broker", str),),
        (
            _column("lag", "lag_sum_messages", _number),
            _column("largest", "lag_max_messages", _number),
            _column("behind", "lag_max_s", _seconds),
            _column("trend", "trend", _trend),
            _column("5 min trend", "trend_5min", _trend),
            _column("being added", "adding_lag_sum_messages", _number),
        ),
        (
            _column("fit", "trend", _fit_of),
            _column("5 min fit", "trend_5min", _fit_of),
            _column("bytes", "lag_sum_bytes", _size),
            _column("partitions", "partitions", _number),
            _column("adding", "adding_partitions", _number),
            _column("threads", "thread_count", _number),
            _column("slowest threads", "threads", _threads),
            _column("worst partitions", "worst", _lagging),
        ),
    ),
    "controller": Sheet(
        "Controllers",
        (_column("controller", "node", str), _column("active", "active", _active)),
        (
            _column("queue p99", "event_queue_time_p99_ms", _ms),
            _column("create mean", "create_mean_ms", _ms),
            _column("partitions created", "partitions_created_per_s", _per_s),
            _column("deleted", "partitions_deleted_per_s", _per_s),
            _column("idle", "idle_ratio", _share),
        ),
        (
            _column("processing p99", "event_processing_p99_ms", _ms),
            _column("queue mean", "event_queue_time_mean_ms", _ms),
            _column("processing mean", "event_processing_mean_ms", _ms),
            _column("mutations refused", "mutations_rejected_per_s", _per_s),
            _column("delete mean", "delete_mean_ms", _ms),
            _column("addition mean", "addition_mean_ms", _ms),
            _column("in progress", "topic_requests_in_progress_mean", _mean),
            _column("create requests", "create_requests_per_s", _per_s),
            _column("delete requests", "delete_requests_per_s", _per_s),
            _column("addition requests", "addition_requests_per_s", _per_s),
            _column("old creates", "old_create_requests_per_s", _per_s),
            _column("old deletes", "old_delete_requests_per_s", _per_s),
            _column("old additions", "old_addition_requests_per_s", _per_s),
            _column("refusable", "refusable_requests_per_s", _per_s),
            _column("topics created", "topics_created_per_s", _per_s),
            _column("topics deleted", "topics_deleted_per_s", _per_s),
            _column("events", "events_per_s", _per_s),
            _column("queue depth", "queue_depth_mean", _mean),
            _column("operations", "operations_per_s", _per_s),
            _column("timed out", "operations_timed_out_per_s", _per_s),
            _column("heartbeats timed out", "heartbeats_timed_out_per_s", _per_s),
            _column("metadata records", "metadata_records_per_s", _per_s),
            _column("metadata lag", "metadata_lag_ms", _ms),
            _column("topics", "topics", _number),
            _column("partitions", "partitions", _number),
            _column("brokers", "active_brokers", _number),
            _column("fenced", "fenced_brokers", _number),
        ),
    ),
    "tenant": Sheet(
        "Tenants",
        (
            _column("controller", "node", str),
            _column("user", "user", _name),
            _column("client-id", "client_id", _name),
        ),
        (
            _column("mutations", "mutation_rate_per_s", _per_s),
            _column("tokens", "tokens", _tokens),
            _column("throttled for", "throttle_time_ms", _ms),
        ),
        (),
    ),
}
