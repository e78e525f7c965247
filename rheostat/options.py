"""Options that several commands share, and the four kinds of amounts: times, rates, sizes and shares.

An option with one meaning has the same name in all commands, and an amount has the same forms everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from streaming.shared import units

MEASURE_FOR_S = 10.0

Config = Annotated[
    Path, typer.Option("--config", "-c", envvar="RHEOSTAT_CONFIG", metavar="FILE", help="the settings file")
]
OptionalConfig = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar="RHEOSTAT_CONFIG", metavar="FILE", help="the settings file"),
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON value on stdout, and nothing else")]
WaitForCluster = Annotated[
    bool,
    typer.Option(
        "--wait-for-cluster", help="if the cluster does not answer, wait for it, instead of ending with exit code 3"
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="make decisions and record them, but change nothing in the cluster")
]
Kafka = Annotated[
    str | None,
    typer.Option(
        "--kafka",
        metavar="VERSION",
        help="Kafka version of the brokers, such as 3.9 or 4.4.0; default: the version of rheostat's own Kafka libraries",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask for a confirmation")]


def time_option(help: str, *names: str, shown_default: str | None = None, zero: bool = False) -> Any:
    """Returns an option for a time, such as 30s, 5m or 1h30m; the command gets seconds.

    Args:
        names: the option's names, if they differ from the parameter's name.
        shown_default: the default as the help shows it; needed if the parameter has a default other than None.
        zero: 0 is allowed.
    """
    return _amount(units.parse_span_from_zero if zero else units.parse_span, help, "TIME", names, shown_default)


def rate_option(help: str, *names: str, zero: bool = False) -> Any:
    """Returns an option for bytes per second, such as 50MB/s; the arguments are those of ``time_option``."""
    return _amount(units.parse_rate if zero else units.positive(units.parse_rate), help, "RATE", names)


def size_option(help: str, *names: str, zero: bool = False) -> Any:
    """Returns an option for bytes, such as 1.5GiB; the arguments are those of ``time_option``."""
    return _amount(units.parse_bytes if zero else units.positive(units.parse_bytes), help, "SIZE", names)


def share_option(help: str, *names: str, shown_default: str | None = None) -> Any:
    """Returns an option for a share from 0 to 1, such as 10%; the arguments are those of ``time_option``."""
    return _amount(units.parse_share, help, "SHARE", names, shown_default)


def number_option(parse: Callable[[str], float], help: str, metavar: str, *names: str) -> Any:
    """Returns an option for a number that ``parse`` reads. If ``parse`` raises ValueError, its text is the error message."""
    return _amount(parse, help, metavar, names)


def _amount(
    parse: Callable[[str], float],
    help: str,
    metavar: str,
    names: tuple[str, ...],
    shown_default: str | None = None,
) -> Any:
    def read(text: str | float) -> float:
        if not isinstance(text, str):  # The parameter's default, which is a number already.
            return text
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return typer.Option(*names, parser=read, help=help, metavar=metavar, show_default=shown_default or True)


_WHEN = (
    "best (the time within the next day at which the move would be shortest), a time of day such as 22:00, or a date and time "
    "such as 2026-11-21T03:00 (in local time, unless it has an offset)"
)
At = Annotated[
    str | None,
    typer.Option("--at", metavar="WHEN", help=f"record the plan now, and let the tuner start it later: {_WHEN}"),
]
Start = Annotated[
    str | None,
    typer.Option("--start", metavar="WHEN", help=f"forecast a move that starts at this time: now, {_WHEN}"),
]

MeasureFor = Annotated[
    float,
    time_option(
        "how long to measure write rates from the growth of the logs; 0: take the rates from the signals",
        "--measure-for",
        shown_default="10s",
        zero=True,
    ),
]
Throttle = Annotated[
    float | None,
    rate_option("the throttle, such as 50MB/s; the command computes the time that the move takes", "--throttle"),
]
Within = Annotated[
    float | None,
    time_option("the longest time that the move may take; the command computes the throttle for it", "--within"),
]
