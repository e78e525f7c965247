"""`rheostat config`: the settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.console.output import out
from rheostat.errors import CommandError
from rheostat.options import Config

app = typer.Typer(help="The settings file.", no_args_is_help=True)


@app.command("check")
def check(config: Config) -> None:
    """Exit code 0 when the file is fine, 2 with every fault named otherwise."""
    from rheostat.config.settings import load_settings

    load_settings(config)
    out(f"{config}: fine")


@app.command("show")
def show(config: Config) -> None:
    """The settings in force, defaults and environment included, passwords hidden; JSON."""
    from rheostat.config.settings import load_settings

    out(load_settings(config).model_dump_json(indent=2))


@app.command("reference")
def reference(
    check: Annotated[Path | None, typer.Option("--check", help="exit code 1 when this file is not current")] = None,
) -> None:
    """Every key with its type, default and meaning, as Markdown."""
    from rheostat.config.reference import reference

    text = reference()
    if check is None:
        out(text.rstrip("\n"))
    elif not check.exists() or check.read_text() != text:
        raise CommandError(f"{check} is not current: make format")
