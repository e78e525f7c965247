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
            help="start of the range: 2026-11-21T03:00 (UTC, or with an offset), or -2h; default: one hour ago, or the start of "
            "the --journal file",
        ),
    ] = None,
    until: Annotated[
        str, typer.Option("--to", metavar="MOMENT", help="end of the range, in the forms of --from, or now")
    ] = "now",
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", envvar="RHEOSTAT_CONFIG", metavar="FILE", help="the settings file of the cluster"
        ),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option("--journal", metavar="FILE", help="replay a file that --export wrote, instead of a cluster"),
    ] = None,
    tuner_settings: Annotated[
        Path | None,
        typer.Option(
            "--tuner-settings",
            metavar="FILE",
            help="use the keys in this YAML file instead of the recorded settings of the section `tuner`; the "
            "observations are the recorded ones",
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
    """Computes decisions again from recorded inputs, and compares them with the recorded decisions.

    Exit code 1: a decision differs.
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.replay.command import ReplayRequest, run_replay

    set_up_logs()
    request = ReplayRequest(
        from_text=since, to_text=until, config=config, journal=journal, tuner_settings=tuner_settings, export=export
    )
    raise typer.Exit(run_replay(request, as_json=as_json))
