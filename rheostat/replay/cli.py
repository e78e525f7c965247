"""`rheostat replay`: why was that decided, and would it be decided again?"""

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
            help="2026-11-21T03:00 (UTC, or with an offset), or -2h; without it the last hour, or all of --journal's",
        ),
    ] = None,
    until: Annotated[str, typer.Option("--to", metavar="MOMENT", help="the same, or now")] = "now",
    config: Annotated[
        Path | None, typer.Option("--config", "-c", envvar="RHEOSTAT_CONFIG", help="the settings file of the cluster")
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option("--journal", metavar="FILE", help="records that --export wrote, in place of a cluster"),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="YAML with keys of tuner: in the settings; each moment is decided anew with them, as it was: what would have come "
            "of that is not followed (rheostat simulate does)",
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="write the records of this range, a JSON value a line"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Puts what was observed through today's decisions: the same or different? Exit code 1 when any differs."""
    from rheostat.console.logs import set_up_logs
    from rheostat.replay.command import ReplayRequest, run_replay

    set_up_logs()
    raise typer.Exit(run_replay(ReplayRequest(since, until, config, journal, policy, export), as_json=as_json))
