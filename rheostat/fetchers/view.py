"""Shows the report of `rheostat fetchers` on a terminal: the recommendation, all values compared, and colliding topics."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from rheostat.fetchers.report import FetchersReport
from streaming.shared.fetcher_threads import client_id
from streaming.shared.units import rate_text
from tuner.core.fetcher_load import FETCHERS_MAX, FetcherLoad
from tuner.core.fetchers import NUM_REPLICA_FETCHERS

ROWS_MAX = 10


def show(report: FetchersReport, console: Console, *, is_changing: bool = False) -> None:
    """Prints the report.

    Args:
        is_changing: whether the command is about to change the setting, so that "Nothing was changed" is not printed.
    """
    for line in sentences(report):
        _print_line(console, line)
    if report.by_pair:
        console.print(_values_table(report))
        if report.collisions:
            console.print(_topics_table(report))
    for note in report.notes:
        _print_line(console, f"• {note}")
    _print_line(console, f"Figures from {report.source}.{'' if is_changing else ' Nothing was changed.'}", "dim")


def sentences(report: FetchersReport) -> list[str]:
    """Returns the current load, and the recommendation."""
    if not report.by_pair:
        return ["No broker follows any partition, so fetcher threads have nothing to copy."]
    result = [f"{_setting_text(report)}; {_busiest_text(report)}."]
    if report.is_worthwhile:
        gain = 1 - report.best.load_max / report.current.load_max
        result.append(
            f"{NUM_REPLICA_FETCHERS}={report.best.fetchers} would reduce the load of the busiest thread to "
            f"{_load_text(report, report.best.load_max)}, {gain:.0%} less."
        )
        longest = max(report.steps.values(), key=len)
        if len(longest) > 1:
            result.append(
                f"Kafka accepts at most double or half of the current value, so the steps are: {', '.join(map(str, longest))}."
            )
    else:
        result.append(f"No other value up to {FETCHERS_MAX} is clearly better for the busiest thread.")
    return result


def _setting_text(report: FetchersReport) -> str:
    values = sorted(set(report.fetchers.values()))
    if len(values) == 1:
        return f"{NUM_REPLICA_FETCHERS} is {values[0]}"
    brokers = "; ".join(
        f"{value} on {', '.join(str(b) for b, n in sorted(report.fetchers.items()) if n == value)}" for value in values
    )
    return f"{NUM_REPLICA_FETCHERS} differs between brokers ({brokers})"


def _busiest_text(report: FetchersReport) -> str:
    current = report.current
    assert current.busiest is not None
    follower, leader, thread = current.busiest
    idle = f", while {current.idle} threads are idle" if current.idle else ""
    name = client_id(thread, leader)
    return f"the busiest thread, {name} on broker {follower}, copies {_load_text(report, current.load_max)}{idle}"


def _values_table(report: FetchersReport) -> Table:
    """Returns the table of the first ``ROWS_MAX`` values, and of the current, the best and the last value."""
    table = Table(title="By " + NUM_REPLICA_FETCHERS, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("value", "busiest thread", "compared with current", "most partitions on a thread", "idle threads"):
        table.add_column(column, justify="right")
    shown = {report.best.fetchers, report.current.fetchers, report.candidates[-1].fetchers}
    candidates = report.candidates[:ROWS_MAX] + tuple(c for c in report.candidates[ROWS_MAX:] if c.fetchers in shown)
    for candidate in candidates:
        current = report.current.load_max
        difference = f"{candidate.load_max / current - 1:+.0%}" if current > 0 else ""
        table.add_row(
            f"{candidate.fetchers}{_mark(report, candidate)}",
            _load_text(report, candidate.load_max),
            difference,
            str(candidate.partitions_max),
            str(candidate.idle),
        )
    return table


def _mark(report: FetchersReport, candidate: FetcherLoad) -> str:
    if candidate.fetchers == report.current.fetchers:
        return " (now)"
    return " (best)" if candidate.fetchers == report.best.fetchers else ""


def _topics_table(report: FetchersReport) -> Table:
    count = len(report.collisions)
    suffix = f", the {ROWS_MAX} worst of {count} (--json has all)" if count > ROWS_MAX else ""
    title = f"Topics whose partitions collide on threads{suffix}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("topic")
    # The last four columns describe the pair of follower and leader with the worst collision.
    for column in ("idle threads", "worst: follower", "leader", "its partitions", "on threads"):
        table.add_column(column, justify="right")
    for collision in report.collisions[:ROWS_MAX]:
        worst_pair = (collision.follower, collision.leader, collision.partitions, collision.threads)
        table.add_row(collision.topic, *map(str, (collision.idle, *worst_pair)))
    return table


def _load_text(report: FetchersReport, load: float) -> str:
    if report.by_writes:
        return rate_text(load)
    return f"{load:g} partition{'s' if load != 1 else ''}"


def _print_line(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, soft_wrap=True)
