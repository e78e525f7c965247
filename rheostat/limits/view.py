"""`rheostat limits` on a screen: the sentence first, then every broker, the fullest on top."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from rheostat.limits.report import Fill, Report, Row
from rheostat.limits.words import limit_text
from rheostat.units import share_text
from tuner.model.partition_limits import PRESETS

ROWS_MAX = 30
_COLOUR = {Fill.OK: "", Fill.NEARLY_FULL: "yellow", Fill.FULL: "red", Fill.OVER: "red"}
_WORDS = {Fill.OK: "", Fill.NEARLY_FULL: "nearly full", Fill.FULL: "full", Fill.OVER: "over its limit"}


def show(made: Report, console: Console) -> None:
    for line in sentences(made):
        console.print(line, style=_COLOUR[made.worst], markup=False, highlight=False, soft_wrap=True)
    console.print(_table(made))
    console.print(
        f"Partitions are replicas, internal topics left out. Figures from {made.source}. Nothing was changed.",
        style="dim", markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip


def sentences(made: Report) -> list[str]:
    limits = f"max.broker.partitions={limit_text(made.limits.broker_partitions_max)}, " + (
        f"max.partitions={limit_text(made.limits.partitions_max)}"
    )
    said = [f"Limits: {limits}." if made.binding else f"No limits are given: compared with {limits}, {_source()}."]
    for row in (made.cluster, *made.brokers):
        if row.fill is not Fill.OK:
            said.append(_told(row))
    return said if len(said) > 1 else [*said, "There is room everywhere."]


def _told(row: Row) -> str:
    who = "The cluster" if row.broker is None else f"Broker {row.broker}"
    has = f"has {row.partitions} partitions of {row.limit}"
    if row.fill is Fill.NEARLY_FULL:
        return f"{who} {has}, {share_text(row.share)}: room for {row.headroom} more."
    return f"{who} {has}: what is there goes on working, and it gets no more."


def _source() -> str:
    return PRESETS["kafka"].source


def _table(made: Report) -> Table:
    rows = sorted(made.brokers, key=lambda row: (-row.share, row.broker))
    cut = f", the {ROWS_MAX} fullest of {len(rows)} (--json has all)" if len(rows) > ROWS_MAX else ""
    found = Table(title=f"Room for partitions{cut}", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    found.add_column("")
    for column in ("partitions", "limit", "full", "room"):
        found.add_column(column, justify="right")
    found.add_column("rack")
    found.add_column("")
    for row in (made.cluster, *rows[:ROWS_MAX]):
        limited = limit_text(row.limit).isdigit()
        notes = [_WORDS[row.fill], *([] if row.alive else ["down"])]
        found.add_row(
            "cluster" if row.broker is None else f"broker {row.broker}", str(row.partitions), limit_text(row.limit),
            share_text(row.share) if limited else "", str(row.headroom) if limited else "",
            row.rack or "", ", ".join(note for note in notes if note), style=_COLOUR[row.fill],
        )  # fmt: skip
    return found
