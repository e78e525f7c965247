"""The command line of `rheostat simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.options import Json


def simulate(
    scenario: Annotated[
        str | None, typer.Argument(metavar="[SCENARIO]", help="a file, or the name of one that --list shows")
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy", help="rheostat, rheostat:MODE; static:RATE; as-is: what stands stays; none: no throttle"
        ),
    ] = "rheostat",
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="in place of the scenario's own")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="draw rates, throttles, lag and latency over time (SVG)")
    ] = None,
    as_json: Json = False,
    list_them: Annotated[bool, typer.Option("--list", help="the scenarios that come with rheostat")] = False,
) -> None:
    """What would happen: a made-up cluster, the real decisions. Exit code 1 when the moves do not end (in time)."""
    from rheostat.simulate import command

    if list_them:
        raise typer.Exit(command.list_scenarios(as_json=as_json))
    if scenario is None:
        raise command.missing_scenario()
    raise typer.Exit(command.run_simulate(scenario, policy=policy, seed=seed, plot=plot, as_json=as_json))
