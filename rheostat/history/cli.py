"""The options of `rheostat history`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.options import Config, Json, time_option


def history(
    config: Config,
    since_s: Annotated[
        float,
        time_option(
            "show the last TIME of the history, such as 6h or 7d; the history topic keeps 35 days",
            "--since",
            shown_default="1d",
        ),
    ] = 86_400.0,
    broker: Annotated[
        list[int] | None,
        typer.Option("--broker", metavar="BROKER", help="show only this broker; may be repeated"),
    ] = None,
    as_json: Json = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="also draw the history of the busiest brokers")
    ] = None,
) -> None:
    """Shows the load of each broker in the last days: traffic of clients and replication, latency, moves and lag.

    The stream writes the history every ten minutes. Exit code 1: there is no history for this time.
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.history.command import run_history

    set_up_logs()
    raise typer.Exit(run_history(config, since_s, broker or (), as_json=as_json, plot=plot))
