"""`rheostat status`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from rheostat.console.output import out
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from rheostat.options import Config, Json


def status(
    config: Config,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="again every 2 s, in place, until Ctrl-C")] = False,
    wait_s: Annotated[
        float | None, typer.Option("--wait", min=0, metavar="S", help="ends --watch after so many seconds")
    ] = None,
) -> None:
    """Does a tuner act, what moves and when it ends, what was decided and why.

    Exit code 1 while a move has stalled and no tuner acts, or is stuck and turning its throttle cannot help."""
    if as_json and watch:
        raise typer.BadParameter("only one of them at a time", param_hint="--json, --watch")
    if wait_s is not None and not watch:
        raise typer.BadParameter("it ends a watch: give --watch, too", param_hint="--wait")

    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.console.rich_console import console_for
    from rheostat.status.report import needs_a_tuner, read_status, unfixable_by_throttle
    from rheostat.status.text import print_status

    set_up_logs()
    if watch:
        from rheostat.status import watch as status_watch

        raise typer.Exit(status_watch.watch(load_settings(config), wait_s))
    found = read_status(load_settings(config))
    if as_json:
        out(json.dumps(found, indent=2))
    else:
        print_status(found, console_for(sys.stdout))
    raise typer.Exit(EXIT_NOT_WELL if unfixable_by_throttle(found) or needs_a_tuner(found) else EXIT_DONE)
