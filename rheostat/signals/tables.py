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
    BrokerSignal,
    ControllerSignal,
    MoveSignal,
    Signal,
    TenantSignal,
    ThrottledBy,
)
from streaming.shared.units import rate_text, size_text, span_text
from tuner.core.freshness import Freshness, age_s, freshness

_DASH = "–"
_AGE = "age"
_PADDING = (0, 1, 0, 0)
_COLUMN_GAP = 2  # Characters between two columns with this padding.
_UNBOUNDED = 100_000
_LARGEST = 3
_TOKENS_WITHOUT_QUOTA = 1e15

Figure = Callable[[Any], str]
Columns = tuple[tuple[str, Figure], ...]


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
        has_cluster_column: the first column names the cluster.
    """
    about = ((("cluster", lambda s: s.cluster),) if has_cluster_column else ()) + sheet.about

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
        fresh = freshness(signal, now_ms, age_s_max) is Freshness.FRESH
        table.add_row(
            *(figure(signal) for _, figure in about),
            styled(_age(signal, now_ms, fresh), "" if fresh else "red"),
            *(figure(signal) for _, figure in figures),
        )
    return table


def _fit(table: Table, console: Console) -> Table:
    """Breaks the headers of a too wide table between words, if that makes it fit. Values stay on one line."""
    if _width(table, console) <= console.width:
        return table
    narrow = [max(map(len, [*str(column.header).split(), *map(str, column.cells)])) for column in table.columns]
    age = next(i for i, column in enumerate(table.columns) if column.header == _AGE)
    narrow[age] = max(
        len(part) for cell in table.columns[age].cells for part in str(cell).replace(", ", ",\n").split("\n")
    )
    if sum(narrow) + _COLUMN_GAP * len(narrow) <= console.width:
        for column, width in zip(table.columns, narrow, strict=True):
            column.width = width
    return table


def _width(table: Table, console: Console) -> int:
    return Measurement.get(console, console.options.update_width(_UNBOUNDED), table).maximum


def _age(signal: Signal, now_ms: int, fresh: bool) -> str:
    if fresh:
        return span_text(age_s(signal, now_ms))
    ahead_s = (signal.sampled_at_ms - now_ms) / 1000
    return f"{span_text(ahead_s)} ahead, stale" if ahead_s > 0 else f"{span_text(-ahead_s)}, stale"


def _figure(value: float | None, form: Callable[[float], str]) -> str:
    return _DASH if value is None else form(value)


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


def _number(value: float | None) -> str:
    return _figure(value, lambda v: f"{v:.0f}")


def clock(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


# Kafka's own count against the throttle is exact. The others replace it if it is missing: a lower or an upper bound.
_SOURCES = {
    ThrottledBy.QUOTA.value: "quota",
    ThrottledBy.REASSIGNMENT.value: "reassignment, at least",
    ThrottledBy.REPLICATION.value: "replication, at most",
}


def _source_text(signal: BrokerSignal) -> str:
    by = signal.throttled_by
    return _DASH if by is None else _SOURCES.get(by, by)


def _largest(signal: MoveSignal) -> str:
    shown = [f"{m.topic}-{m.partition} {_size(m.remaining_bytes)}" for m in signal.largest[:_LARGEST]]
    return ", ".join(shown) or _DASH


def _progress(signal: MoveSignal) -> str:
    return _figure(signal.progress_age_s, lambda v: f"{span_text(v)} ago")


def _tokens(signal: TenantSignal) -> str:
    return _figure(signal.tokens, lambda v: "no quota" if v > _TOKENS_WITHOUT_QUOTA else f"{v:.1f}")


def _active(signal: ControllerSignal) -> str:
    return _figure(signal.active, lambda v: "yes" if v else "no")


def _name(name: str | None) -> str:
    return _DASH if name is None else escape.printable_name(name) or '""'


_COMPLETE: tuple[str, Figure] = ("complete", lambda s: _share(s.completeness))

SHEETS = {
    "broker": Sheet(
        "Brokers",
        (("broker", lambda s: str(s.broker)),),
        (
            ("leader throttle", lambda s: _rate(s.leader_rate_bytes_per_s)),
            ("used", lambda s: _rate(s.leader_throttled_bytes_per_s)),
            ("follower throttle", lambda s: _rate(s.follower_rate_bytes_per_s)),
            ("used", lambda s: _rate(s.follower_throttled_bytes_per_s)),
            ("clients in", lambda s: _rate(s.client_in_bytes_per_s)),
            ("produce p99", lambda s: _ms(s.produce_p99_ms)),
        ),
        (
            ("used, by", _source_text),
            ("replication in", lambda s: _rate(s.replication_in_bytes_per_s)),
            ("replication out", lambda s: _rate(s.replication_out_bytes_per_s)),
            ("reassigned in", lambda s: _rate(s.reassignment_in_bytes_per_s)),
            ("reassigned out", lambda s: _rate(s.reassignment_out_bytes_per_s)),
            ("clients out", lambda s: _rate(s.client_out_bytes_per_s)),
            ("produce mean", lambda s: _ms(s.produce_mean_ms)),
            ("fetch p99", lambda s: _ms(s.fetch_p99_ms)),
            ("handlers idle", lambda s: _share(s.request_handler_idle_ratio)),
            ("replica lag", lambda s: _number(s.replica_lag_sum_messages)),
            ("ISR shrinks", lambda s: _per_s(s.isr_shrinks_per_s)),
            ("under min ISR", lambda s: _number(s.under_min_isr_partitions)),
            ("partitions", lambda s: _number(s.partitions)),
            ("leads", lambda s: _number(s.leaders)),
            ("metadata lag", lambda s: _ms(s.metadata_lag_ms)),
        ),
    ),
    "move": Sheet(
        "Moves",
        (("broker", lambda s: str(s.broker)), ("side", lambda s: str(s.side))),
        (
            ("moving", lambda s: _number(s.moving_partitions)),
            ("remain", lambda s: _size(s.remaining_bytes)),
            ("trend", lambda s: _rate(s.remaining_slope_bytes_per_s)),
            ("steady state", lambda s: _rate(s.steady_state_bytes_per_s)),
            ("progress", _progress),
        ),
        (
            ("listed", lambda s: _number(s.listed_partitions)),
            ("done", lambda s: _number(s.done_partitions)),
            ("written", lambda s: _rate(s.write_bytes_per_s)),
            ("lag", lambda s: _number(s.lag_messages)),
            ("largest", _largest),
        ),
    ),
    "controller": Sheet(
        "Controllers",
        (("controller", lambda s: str(s.node)), ("active", _active)),
        (
            ("queue p99", lambda s: _ms(s.event_queue_time_p99_ms)),
            ("processing p99", lambda s: _ms(s.event_processing_p99_ms)),
            ("create mean", lambda s: _ms(s.create_mean_ms)),
            ("mutations refused", lambda s: _per_s(s.mutations_rejected_per_s)),
            ("idle", lambda s: _share(s.idle_ratio)),
        ),
        (
            ("queue mean", lambda s: _ms(s.event_queue_time_mean_ms)),
            ("processing mean", lambda s: _ms(s.event_processing_mean_ms)),
            ("delete mean", lambda s: _ms(s.delete_mean_ms)),
            ("in progress", lambda s: _figure(s.topic_requests_in_progress_mean, lambda v: f"{v:.2f}")),
            ("events", lambda s: _per_s(s.events_per_s)),
            ("queue depth", lambda s: _figure(s.queue_depth_mean, lambda v: f"{v:.2f}")),
            ("operations", lambda s: _per_s(s.operations_per_s)),
            ("timed out", lambda s: _per_s(s.operations_timed_out_per_s)),
            ("heartbeats timed out", lambda s: _per_s(s.heartbeats_timed_out_per_s)),
            ("metadata records", lambda s: _per_s(s.metadata_records_per_s)),
            ("metadata lag", lambda s: _ms(s.metadata_lag_ms)),
            ("topics", lambda s: _number(s.topics)),
            ("partitions", lambda s: _number(s.partitions)),
            ("brokers", lambda s: _number(s.active_brokers)),
            ("fenced", lambda s: _number(s.fenced_brokers)),
        ),
    ),
    "tenant": Sheet(
        "Tenants",
        (
            ("controller", lambda s: str(s.node)),
            ("user", lambda s: _name(s.user)),
            ("client-id", lambda s: _name(s.client_id)),
        ),
        (
            ("mutations", lambda s: _per_s(s.mutation_rate_per_s)),
            ("tokens", _tokens),
            ("throttled for", lambda s: _ms(s.throttle_time_ms)),
        ),
        (),
    ),
}
