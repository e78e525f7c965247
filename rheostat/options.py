"""Options that several commands take, each declared once, so that they read and mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Config = Annotated[Path, typer.Option("--config", "-c", envvar="RHEOSTAT_CONFIG", help="the settings file")]
Json = Annotated[bool, typer.Option("--json", help="one JSON value on stdout, nothing else there")]
Wait = Annotated[bool, typer.Option("--wait", help="wait for a cluster that does not answer, instead of exit code 3")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="decide and journal, write nothing to the cluster")]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask for a confirmation")]


def amount(parse: Callable[[str], float], help: str, metavar: str, *names: str) -> Any:
    """An option read by ``parse``, whose complaint is shown whole. ``names``: where it is not called as its parameter."""

    def read(text: str) -> float:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return typer.Option(*names, parser=read, help=help, metavar=metavar)
