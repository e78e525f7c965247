"""Options that several commands share, with the same meaning and help text everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Config = Annotated[Path, typer.Option("--config", "-c", envvar="RHEOSTAT_CONFIG", help="the settings file")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON value on stdout, and nothing else")]
Wait = Annotated[
    bool, typer.Option("--wait", help="wait while the cluster does not answer, instead of ending with exit code 3")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="decide and write the journal, but change nothing in the cluster")
]
WatchSeconds = Annotated[
    float,
    typer.Option(
        "--watch-s",
        min=0,
        help="seconds to measure write rates from the growth of the logs; 0: take the rates from the signals",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask for a confirmation")]


def amount(parse: Callable[[str], float], help: str, metavar: str, *names: str) -> Any:
    """Returns an option whose value ``parse`` reads. If ``parse`` raises ValueError, the user sees the text of the error.

    Args:
        names: the option's names, if they differ from the parameter's name.
    """

    def read(text: str) -> float:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return typer.Option(*names, parser=read, help=help, metavar=metavar)
