"""Shows the report of `rheostat limits` on a terminal: sentences first, then a table of all brokers, the fullest on top."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from rheostat.limits.overrides import limit_text
from rheostat.limits.report import BrokerLimitRow, Fill, LimitsReport
from streaming.shared.units import share_text, span_text
from tuner.core.partition_limits import PRESETS, limit_or_none
from tuner.planning.fill_forecast import HISTORY_S_MIN, RISES_MIN, FillForecast, FillOutlook

ROWS_MAX = 30
FORECASTS_MAX = 5
_COLOUR = {Fill.OK: "", Fill.NEARLY_FULL: "yellow", Fill.FULL: "red", Fill.OVER: "red"}
_FILL_TEXT = {Fill.OK: "", Fill.NEARLY_FULL: "nearly full", Fill.FULL: "full", Fill.OVER: "over its limit"}


def show(report: LimitsReport, console: Console) -> None:
    """Prints the report."""
    for line in describe_report(report):
        console.print(line, style=_COLOUR[report.worst], soft_wrap=True)
    console.print(_table(report))
    for line in describe_forecasts(report):
        console.print(line, soft_wrap=True)
    console.print(
        f"The numbers count replicas, without internal topics. Figures from {report.source}. Nothing was changed.",
        style="dim",
        soft_wrap=True,
    )


def describe_report(report: LimitsReport) -> list[str]:
    """Returns a sentence on the limits, then a sentence for the cluster and each broker that is at least nearly full."""
    limits = (
        f"max.broker.partitions={limit_text(report.limits.broker_partitions_max)}, "
        f"max.partitions={limit_text(report.limits.partitions_max)}"
    )
    comparison = f"No limits are set: compared with {limits}, {PRESETS['kafka'].source}."
    header = f"Limits: {limits}." if report.are_set else comparison
    rows = [_describe_row(row) for row in (report.cluster, *report.brokers) if row.fill is not Fill.OK]
    return [header, *(rows or ["There is room everywhere."])]


def describe_forecasts(report: LimitsReport) -> list[str]:
    """Returns when the cluster and the first brokers reach their limits, or why that is not known."""
    if report.why_no_forecast is not None:
        return [f"No forecast: {report.why_no_forecast}."]
    known = [(row, row.forecast) for row in (report.cluster, *report.brokers) if row.forecast is not None]
    if not known:
        return []
    timed = [(row, forecast) for row, forecast in known if forecast.outlook is FillOutlook.IN_TIME]
    timed.sort(key=lambda pair: pair[1].in_s or 0.0)
    texts = [f"{_subject(row)} {_time_text(forecast)}" for row, forecast in timed[:FORECASTS_MAX]]
    if len(timed) > FORECASTS_MAX:
        texts.append(f"{len(timed) - FORECASTS_MAX} more are full later (--json has all).")
    return texts or [_no_time_text([forecast for _, forecast in known])]


def _time_text(forecast: FillForecast) -> str:
    assert forecast.in_s is not None
    grew = f"grew by {forecast.growth:.0f} in {span_text(forecast.history_s)}"
    return f"{grew}: full in about {span_text(forecast.in_s)} at this rate."


def _no_time_text(forecasts: list[FillForecast]) -> str:
    """Returns one reason for all brokers, because brokers differ little: the most informative reason."""
    longest = max(forecasts, key=lambda forecast: forecast.history_s)
    history = span_text(longest.history_s)
    outlooks = {forecast.outlook for forecast in forecasts}
    if FillOutlook.TOO_SHORT in outlooks:
        return (
            f"No forecast yet: the signals cover {history}, and a forecast needs at least {span_text(HISTORY_S_MIN)}."
        )
    if FillOutlook.BEYOND in outlooks:
        return f"Nothing is full within {span_text(longest.horizon_s)} at the rate of the last {history}."
    if FillOutlook.TOO_FEW in outlooks:
        return (
            f"No forecast: in {history} the number of partitions rose fewer than {RISES_MIN} times, too few for a rate."
        )
    if FillOutlook.NOT_GROWING in outlooks:
        return f"No limit comes nearer: the number of partitions has not grown in {history}."
    return "All limits are reached already." if FillOutlook.FULL in outlooks else "No forecast: there are no limits."


def _subject(row: BrokerLimitRow) -> str:
    return "The cluster" if row.broker is None else f"Broker {row.broker}"


def _describe_row(row: BrokerLimitRow) -> str:
    count = f"{_subject(row)} has {row.partitions} partitions of {row.limit}"
    if row.fill is Fill.NEARLY_FULL:
        return f"{count}, {share_text(row.share)}: room for {row.headroom} more."
    return f"{count}: existing partitions keep working, and new ones are refused."


def _table(report: LimitsReport) -> Table:
    rows = sorted(report.brokers, key=lambda row: (-row.share, row.broker))
    suffix = f", the {ROWS_MAX} fullest of {len(rows)} (--json has all)" if len(rows) > ROWS_MAX else ""
    table = Table(title=f"Room for partitions{suffix}", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for column in ("partitions", "limit", "full", "room"):
        table.add_column(column, justify="right")
    table.add_column("rack")
    table.add_column("")
    for row in (report.cluster, *rows[:ROWS_MAX]):
        is_limited = limit_or_none(row.limit) is not None
        notes = [_FILL_TEXT[row.fill], *([] if row.alive else ["down"])]
        table.add_row(
            "cluster" if row.broker is None else f"broker {row.broker}",
            str(row.partitions),
            limit_text(row.limit),
            share_text(row.share) if is_limited else "",
            str(row.headroom) if is_limited else "",
            row.rack or "",
            ", ".join(note for note in notes if note),
            style=_COLOUR[row.fill],
        )
    return table
