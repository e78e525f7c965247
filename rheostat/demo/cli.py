"""Declares the command `rheostat demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.options import Json, Kafka


def demo(
    as_json: Json = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="keep the cluster and rheostat running afterwards, and print commands to try")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", metavar="FILE", help="draw throttles, remaining bytes and produce latency over time, as SVG"
        ),
    ] = None,
    film: Annotated[
        Path | None,
        typer.Option(
            "--film", metavar="FILE", help="draw the curves of --plot as an animation of 20 s, an SVG without scripts"
        ),
    ] = None,
    kafka: Kafka = None,
) -> None:
    """Shows on a real cluster how rheostat finds, explains and rescues a stalled reassignment. Takes about two minutes."""
    from rheostat.demo.story import run_demo

    raise typer.Exit(run_demo(as_json=as_json, keep=keep, plot=plot, film=film, kafka=kafka))
