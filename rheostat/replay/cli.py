"""The options of `rheostat replay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.options import Json


def replay(
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MOMENT",
            help="2026-11-21T03:00 (UTC, or with an offset), or -2h; default: the last hour, or the whole file of --journal",
        ),
    ] = None,
    until: Annotated[str, typer.Option("--to", metavar="MOMENT", help="as --from, or now")] = "now",
    config: Annotated[
        Path | None, typer.Option("--config", "-c", envvar="RHEOSTAT_CONFIG", help="the settings file of the cluster")
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option("--journal", metavar="FILE", help="replay a file that --export wrote, instead of a cluster"),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="YAML with keys of tuner: in the settings, used instead of the recorded ones; the observations stay as recorded "
            "(rheostat simulate follows what would have come of them)",
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="FILE", help="write the records of this range to FILE, one JSON value per line"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Decides recorded steps again and compares the decisions. Exit code 1 if any differs."""
    from rheostat.console.logs import set_up_logs
    from rheostat.replay.command import ReplayRequest, run_replay

    set_up_logs()
    raise typer.Exit(run_replay(ReplayRequest(since, until, config, journal, policy, export), as_json=as_json))
