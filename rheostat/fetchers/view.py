"""`rheostat fetchers` on a screen: what stands, what would help, every value beside today's, and the topics that collide."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from rheostat.fetchers.report import FetchersReport
from streaming.shared.units import rate_text
from tuner.control.throttle.diagnosis.fetcher_load import FetcherLoad
from tuner.core.fetchers import NUM_REPLICA_FETCHERS, client_id

ROWS_MAX = 10


def show(made: FetchersReport, console: Console, *, changes: bool = False) -> None:
    """
    Args:
        changes: what is found is about to be changed.
    """
    for line in sentences(made):
        _line(console, line)
    if made.by_pair:
        console.print(_values(made))
        if made.collisions:
            console.print(_topics(made))
    for note in made.notes:
        _line(console, f"• {note}")
    _line(console, f"Figures from {made.source}.{'' if changes else ' Nothing was changed.'}", "dim")


def sentences(made: FetchersReport) -> list[str]:
    if not made.by_pair:
        return ["No broker follows any partition: there is nothing for fetcher threads to do."]
    said = [f"{_set(made)}; {_busiest(made, made.today)}."]
    if made.pays:
        gain = 1 - made.best.load_max / made.today.load_max
        said.append(
            f"{NUM_REPLICA_FETCHERS}={made.best.fetchers} would bring the busiest down to {_load(made, made.best.load_max)}, "
            f"{gain:.0%} less."
        )
        longest = max(made.steps.values(), key=len)
        if len(longest) > 1:
            said.append(f"Kafka takes it in steps, each at most double or half: {', '.join(map(str, longest))}.")
    else:
        said.append("No other value up to 32 is clearly better for the busiest thread.")
    return said


def _set(made: FetchersReport) -> str:
    values = sorted(set(made.fetchers.values()))
    if len(values) == 1:
        return f"{NUM_REPLICA_FETCHERS} is {values[0]}"
    each = "; ".join(
        f"{value} on {', '.join(str(b) for b, n in sorted(made.fetchers.items()) if n == value)}" for value in values
    )
    return f"{NUM_REPLICA_FETCHERS} differs between brokers ({each})"


def _busiest(made: FetchersReport, one: FetcherLoad) -> str:
    assert one.busiest is not None
    follower, leader, thread = one.busiest
    idle = f", while {one.idle} threads beside busy ones have nothing" if one.idle else ""
    return f"the busiest thread, {client_id(thread, leader)} on broker {follower}, copies {_load(made, one.load_max)}{idle}"


def _values(made: FetchersReport) -> Table:
    """The first values, today's, the best and the last."""
    found = Table(title="By " + NUM_REPLICA_FETCHERS, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("value", "busiest thread", "against today", "partitions in one, at most", "threads idle"):
        found.add_column(column, justify="right")
    for one in made.all_of[:ROWS_MAX] + tuple(o for o in made.all_of[ROWS_MAX:] if o.fetchers in _marked(made)):
        today = made.today.load_max
        against = f"{one.load_max / today - 1:+.0%}" if today > 0 else ""
        found.add_row(
            f"{one.fetchers}{_mark(made, one)}",
            _load(made, one.load_max),
            against,
            str(one.partitions_max),
            str(one.idle),
        )
    return found


def _marked(made: FetchersReport) -> set[int | None]:
    return {made.best.fetchers, made.today.fetchers, made.all_of[-1].fetchers}


def _mark(made: FetchersReport, one: FetcherLoad) -> str:
    if one.fetchers == made.today.fetchers:
        return " (now)"
    return " (best)" if one.fetchers == made.best.fetchers else ""


def _topics(made: FetchersReport) -> Table:
    count = len(made.collisions)
    cut = f", the {ROWS_MAX} worst of {count} (--json has all)" if count > ROWS_MAX else ""
    found = Table(title=f"Topics that collide{cut}", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    found.add_column("topic")
    for column in ("threads idle", "worst: follower", "leader", "partitions there", "on threads"):
        found.add_column(column, justify="right")
    for one in made.collisions[:ROWS_MAX]:
        found.add_row(one.topic, *map(str, (one.idle, one.follower, one.leader, one.partitions, one.threads)))
    return found


def _load(made: FetchersReport, load: float) -> str:
    if made.by_writes:
        return rate_text(load)
    return f"{load:g} partition{'s' if load != 1 else ''}"


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, soft_wrap=True)
