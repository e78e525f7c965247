"""`rheostat limits` on a screen: the sentence first, then every broker, the fullest on top."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from rheostat.limits.overrides import limit_text
from rheostat.limits.report import BrokerLimitRow, Fill, LimitsReport
from streaming.shared.units import share_text, span_text
from tuner.core.partition_limits import PRESETS
from tuner.planning.fill_forecast import HISTORY_S_MIN, RISES_MIN, FillForecast, FillOutlook

ROWS_MAX = 30
TIMED_MAX = 5
_COLOUR = {Fill.OK: "", Fill.NEARLY_FULL: "yellow", Fill.FULL: "red", Fill.OVER: "red"}
_WORDS = {Fill.OK: "", Fill.NEARLY_FULL: "nearly full", Fill.FULL: "full", Fill.OVER: "over its limit"}


def show(made: LimitsReport, console: Console) -> None:
    for line in sentences(made):
        console.print(line, style=_COLOUR[made.worst], soft_wrap=True)
    console.print(_table(made))
    for line in projections(made):
        console.print(line, soft_wrap=True)
    console.print(
        f"Partitions are replicas, internal topics left out. Figures from {made.source}. Nothing was changed.",
        style="dim",
        soft_wrap=True,
    )


def sentences(made: LimitsReport) -> list[str]:
    limits = f"max.broker.partitions={limit_text(made.limits.broker_partitions_max)}, " + (
        f"max.partitions={limit_text(made.limits.partitions_max)}"
    )
    said = [f"Limits: {limits}." if made.binding else f"No limits are given: compared with {limits}, {_source()}."]
    for row in (made.cluster, *made.brokers):
        if row.fill is not Fill.OK:
            said.append(_told(row))
    return said if len(said) > 1 else [*said, "There is room everywhere."]


def projections(made: LimitsReport) -> list[str]:
    """When the cluster and the first of the brokers are full, or why that can't be said."""
    if made.why_no_projection is not None:
        return [f"When they fill is not known: {made.why_no_projection}."]
    known = [(row, row.projection) for row in (made.cluster, *made.brokers) if row.projection is not None]
    if not known:
        return []
    timed = [(row, found) for row, found in known if found.fills is FillOutlook.IN_TIME]
    timed.sort(key=lambda one: one[1].in_s or 0.0)
    said = [f"{_who(row)} {_when(found)}" for row, found in timed[:TIMED_MAX]]
    if len(timed) > TIMED_MAX:
        said.append(f"{len(timed) - TIMED_MAX} more fill later (--json has all).")
    return said or [_why_not([found for _, found in known])]


def _when(found: FillForecast) -> str:
    assert found.in_s is not None
    return f"grew by {found.growth:.0f} in {span_text(found.history_s)}: full in about {span_text(found.in_s)} if that goes on."


def _why_not(known: list[FillForecast]) -> str:
    """Where nobody has a time: the reason that says most, as brokers differ little in it."""
    longest = max(known, key=lambda found: found.history_s)
    watched = span_text(longest.history_s)
    kinds = {found.fills for found in known}
    if FillOutlook.TOO_SHORT in kinds:
        return f"When they fill can't be said yet: the signals go back {watched}, it takes {span_text(HISTORY_S_MIN)} at least."
    if FillOutlook.BEYOND in kinds:
        return f"Nothing fills within {span_text(longest.horizon_s)}, as partitions came in the last {watched}."
    if FillOutlook.TOO_FEW in kinds:
        return (
            f"When they fill can't be said: in {watched} partitions came less than {RISES_MIN} times, which is no rate."
        )
    if FillOutlook.NOT_GROWING in kinds:
        return f"Nothing fills: the number of partitions has not grown in {watched}."
    return "Nothing fills any further." if FillOutlook.FULL in kinds else "Nothing fills: there are no limits."


def _who(row: BrokerLimitRow) -> str:
    return "The cluster" if row.broker is None else f"Broker {row.broker}"


def _told(row: BrokerLimitRow) -> str:
    who = _who(row)
    has = f"has {row.partitions} partitions of {row.limit}"
    if row.fill is Fill.NEARLY_FULL:
        return f"{who} {has}, {share_text(row.share)}: room for {row.headroom} more."
    return f"{who} {has}: what is there goes on working, and it gets no more."


def _source() -> str:
    return PRESETS["kafka"].source


def _table(made: LimitsReport) -> Table:
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
            "cluster" if row.broker is None else f"broker {row.broker}",
            str(row.partitions),
            limit_text(row.limit),
            share_text(row.share) if limited else "",
            str(row.headroom) if limited else "",
            row.rack or "",
            ", ".join(note for note in notes if note),
            style=_COLOUR[row.fill],
        )
    return found
