"""The command `rheostat status`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from rheostat.console.output import out
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from rheostat.options import Config, Json, time_option


def status(
    config: Config,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="refresh every 2 s, in place, until Ctrl-C")] = False,
    duration_s: Annotated[float | None, time_option("end --watch after this time", "--duration", zero=True)] = None,
) -> None:
    """Shows the active tuner, the moves with their expected end, and the last decisions with their reasons.

    Exit code 1: a move has stalled and no tuner is active, or a move is slow for a reason that a higher throttle cannot remove.
    """
    if as_json and watch:
        raise typer.BadParameter("give --json or --watch, not both", param_hint="--json, --watch")
    if duration_s is not None and not watch:
        raise typer.BadParameter(
            "this option has an effect only with --watch: give --watch too, or leave it out", param_hint="--duration"
        )

    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.console.rich_console import console_for
    from rheostat.status.report import needs_a_tuner, read_status, unfixable_by_throttle
    from rheostat.status.text import print_status

    set_up_logs()
    if watch:
        from rheostat.status import watch as status_watch

        raise typer.Exit(status_watch.watch(load_settings(config), duration_s))
    report = read_status(load_settings(config))
    if as_json:
        out(json.dumps(report, indent=2))
    else:
        print_status(report, console_for(sys.stdout))
    raise typer.Exit(EXIT_NOT_WELL if unfixable_by_throttle(report) or needs_a_tuner(report) else EXIT_DONE)
