"""Declares the command `rheostat replay` and its options."""

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
            help="begin of the range: 2026-11-21T03:00 (UTC, or with an offset), or -2h; default: one hour ago, or the begin of "
            "the --journal file",
        ),
    ] = None,
    until: Annotated[
        str, typer.Option("--to", metavar="MOMENT", help="end of the range: as for --from, or now")
    ] = "now",
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
            help="YAML file with keys of the settings' section `tuner`, which replace the recorded settings; the observations stay "
            "as recorded (`rheostat simulate` also simulates the effects of decisions)",
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
    """Repeats recorded decisions and compares them with the recorded ones. Exit code 1: a decision differs."""
    from rheostat.console.logs import set_up_logs
    from rheostat.replay.command import ReplayRequest, run_replay

    set_up_logs()
    raise typer.Exit(run_replay(ReplayRequest(since, until, config, journal, policy, export), as_json=as_json))
