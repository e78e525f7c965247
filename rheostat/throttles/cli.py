"""The options of `rheostat throttles` and `rheostat throttles clear`."""

from __future__ import annotations

import typer

from rheostat.console.help_form import PlainGroup
from rheostat.declaration import EXAMPLE, with_example
from rheostat.options import Config, Json, OptionalConfig, Yes

app = typer.Typer(
    cls=PlainGroup,
    help="Shows the replication throttles of the cluster (KIP-73), and removes throttles that serve nothing.\n\n"
    "Without a command: every rate and every throttled-replica list, with its owner, its age, its traffic and how to remove it. "
    "Needs no JMX agent, no stream and no tuner. Exit code 1: a throttle serves neither a move nor a replica that catches up or is "
    "away.",
)


@app.callback(invoke_without_command=True, epilog=f"{EXAMPLE}rheostat throttles")
def throttles(context: typer.Context, config: OptionalConfig = None, as_json: Json = False) -> None:
    """Shows every throttle.

    Exit code 1: a throttle serves neither a move, nor a replica that catches up, nor a replica whose broker or disk is down.
    """
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise typer.BadParameter(
            "no settings file is given: give its path here, or in RHEOSTAT_CONFIG", param_hint="--config"
        )
    from rheostat.console.logs import set_up_logs
    from rheostat.throttles.command import run_throttles

    set_up_logs()
    raise typer.Exit(run_throttles(config, as_json=as_json))


@app.command("clear", **with_example("rheostat throttles clear"))
def clear(config: Config, yes: Yes = False, as_json: Json = False) -> None:
    """Removes the throttles that serve nothing, after a confirmation. It never removes a throttle that rheostat manages.

    Exit code 1: a throttle could not be removed, or a move has begun to use it in the meantime.
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.throttles.command import run_clear

    set_up_logs()
    raise typer.Exit(run_clear(config, yes=yes, as_json=as_json))
