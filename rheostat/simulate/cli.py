"""Declares the command `rheostat simulate` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.options import Json


def simulate(
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help="a scenario file, or a name from --list")
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="POLICY",
            help="what sets the throttles: rheostat, rheostat:MODE (with this mode of the objective, such as gentle), static:RATE, "
            "as-is (the initial throttles stay) or none (no throttle)",
        ),
    ] = "rheostat",
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", min=0, metavar="N", help="seed of the random numbers, instead of the seed in the scenario"
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="draw rates, throttles, lag and latency over time, as SVG"),
    ] = None,
    as_json: Json = False,
    list_them: Annotated[bool, typer.Option("--list", help="list the scenarios that come with rheostat")] = False,
) -> None:
    """Simulates a move of partitions; the tuner's own code sets the throttles.

    Exit code 1: the move does not end within the time of the scenario.
    """
    from rheostat.simulate import command

    if list_them:
        raise typer.Exit(command.list_scenarios(as_json=as_json))
    if scenario is None:
        raise command.missing_scenario()
    raise typer.Exit(command.run_simulate(scenario, policy=policy, seed=seed, plot=plot, as_json=as_json))
