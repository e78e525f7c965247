"""Declares the commands of `rheostat lab`, which keep a real cluster running on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from rheostat.console.help_form import PlainGroup
from rheostat.console.output import out
from rheostat.declaration import with_example
from rheostat.options import Kafka

app = typer.Typer(cls=PlainGroup, help="Starts and stops a real Kafka cluster on this machine.", no_args_is_help=True)


@app.command("up", **with_example("rheostat lab up --brokers 4"))
def up(
    brokers: Annotated[int, typer.Option(min=1, max=9, metavar="N", help="number of brokers")] = 3,
    controllers: Annotated[int, typer.Option(metavar="N", help="number of controllers: 1 or 3")] = 1,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="name of the lab; labs with different names can run at the same time")
    ] = "lab",
    kafka: Kafka = None,
) -> None:
    """Starts a lab, a Kafka cluster on this machine that runs until `rheostat lab down`."""
    from rheostat.lab import keeper

    if controllers not in (1, 3):
        raise typer.BadParameter(f"expected 1 or 3 controllers, found {controllers}", param_hint="--controllers")
    out(keeper.up(name, brokers, controllers, kafka))


@app.command("down", **with_example("rheostat lab down"))
def down(
    name: Annotated[str, typer.Option(metavar="NAME", help="name of the lab, as given to `rheostat lab up`")] = "lab",
) -> None:
    """Stops a lab and removes its data."""
    from rheostat.lab import keeper

    out(keeper.down(name))


@app.command("keep", hidden=True)
def keep(name: str, brokers: int, controllers: int, kafka: Kafka = None) -> None:
    """Runs a lab until SIGTERM; `up` starts this command in the background."""
    from rheostat.lab import keeper

    keeper.keep(name, brokers, controllers, kafka)
