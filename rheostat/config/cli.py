"""Declares the commands of `rheostat config`, which check, show and explain the settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rheostat.console.help_form import PlainGroup
from rheostat.console.output import out
from rheostat.declaration import with_example
from rheostat.errors import CommandError
from rheostat.options import Config, Json, time_option

app = typer.Typer(cls=PlainGroup, help="Checks, shows and explains the settings.", no_args_is_help=True)


@app.command("check", **with_example("rheostat config check --config rheostat.yaml"))
def check(config: Config) -> None:
    """Checks the settings file.

    Exit code 2: the file has faults, and each is printed.
    """
    from rheostat.config.settings import load_settings

    load_settings(config)
    out(f"{config}: no faults")


@app.command("show", **with_example("rheostat config show --config rheostat.yaml"))
def show(config: Config) -> None:
    """Prints all settings as JSON, with defaults and environment variables; passwords are hidden."""
    from rheostat.config.settings import load_settings

    out(load_settings(config).model_dump_json(indent=2))


@app.command("schedule", **with_example("rheostat config schedule --config rheostat.yaml --next 7d"))
def schedule(
    config: Config,
    next_s: Annotated[float, time_option("how far to look ahead", "--next", shown_default="7d")] = 7 * 86_400.0,
    as_json: Json = False,
) -> None:
    """Shows when the rules of tuner.schedule apply, and the ceiling and the objective of each period."""
    import json
    import time

    from rheostat.config.schedule import schedule_preview, show_preview
    from rheostat.config.settings import load_settings
    from rheostat.console.rich_console import console_for

    now_ms = round(time.time() * 1000)
    preview = schedule_preview(load_settings(config).tuner, now_ms, now_ms + round(next_s * 1000))
    if as_json:
        out(json.dumps(preview, indent=2))
    else:
        show_preview(preview, console_for(sys.stdout))


@app.command("reference", **with_example("rheostat config reference"))
def reference(
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="print nothing; exit code 1 if this file is outdated")
    ] = None,
) -> None:
    """Prints every key with its type, default and meaning, as Markdown."""
    from rheostat.config.reference import reference

    text = reference()
    if check is None:
        out(text.rstrip("\n"))
    elif not check.exists() or check.read_text() != text:
        raise CommandError(f"{check} is outdated: the settings in the code have changed. Run `make format`.")
