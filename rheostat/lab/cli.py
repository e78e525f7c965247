"""`rheostat lab`: a real cluster that stays up between two commands."""

from __future__ import annotations

from typing import Annotated

import typer

from rheostat.console.output import out

app = typer.Typer(help="A real Kafka cluster on this machine.", no_args_is_help=True)


@app.command("up")
def up(
    brokers: Annotated[int, typer.Option(min=1, max=9, help="how many brokers")] = 3,
    controllers: Annotated[int, typer.Option(help="1 or 3")] = 1,
    name: Annotated[str, typer.Option(help="labs with different names stand side by side")] = "lab",
) -> None:
    """Start a lab and leave it running until `rheostat lab down`."""
    from rheostat.lab import keeper

    if controllers not in (1, 3):
        raise typer.BadParameter("a lab has 1 or 3 controllers", param_hint="--controllers")
    out(keeper.up(name, brokers, controllers))


@app.command("down")
def down(name: Annotated[str, typer.Option(help="as given to up")] = "lab") -> None:
    """Stop a lab and remove its data."""
    from rheostat.lab import keeper

    out(keeper.down(name))


@app.command("keep", hidden=True)
def keep(name: str, brokers: int, controllers: int) -> None:
    """Hold a lab until SIGTERM; `up` starts this in the background."""
    from rheostat.lab import keeper

    keeper.keep(name, brokers, controllers)
