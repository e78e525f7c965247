"""`rheostat demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from rheostat.options import Json


def demo(
    as_json: Json = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="leave the cluster and rheostat up afterwards, and say how to look around")
    ] = False,
) -> None:
    """A stalled reassignment on a real cluster is found, explained and rescued. About two minutes."""
    from rheostat.demo.story import run_demo

    raise typer.Exit(run_demo(as_json=as_json, keep=keep))
