"""The options of `rheostat throttles` and `rheostat throttles clear`."""

from __future__ import annotations

import typer

from rheostat.console.help_form import PlainGroup
from rheostat.declaration import EXAMPLE, with_example
from rheostat.options import Config, Json, OptionalConfig, Yes

app = typer.Typer(
    cls=PlainGroup,
    help="Shows the replication throttles of the cluster (KIP-73), and removes leftover throttles.\n\n"
    "Without a command: shows every rate and every throttled-replica list, with its owner, its age, its traffic and how to "
    "remove it. Needs no JMX agent, no stream and no tuner. Exit code 1: a throttle is left over, because it serves no move, no "
    "replica that is catching up, and no replica that is offline.",
)


@app.callback(invoke_without_command=True, epilog=f"{EXAMPLE}rheostat throttles")
def throttles(context: typer.Context, config: OptionalConfig = None, as_json: Json = False) -> None:
    """Shows every throttle.

    Exit code 1: a throttle is left over, because it serves no move, no replica that is catching up, and no offline replica.
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
    """Removes leftover throttles after a confirmation, but no throttle that rheostat manages.

    Exit code 1: a throttle could not be removed, or a move has begun to use a leftover throttle in the meantime.
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.throttles.command import run_clear

    set_up_logs()
    raise typer.Exit(run_clear(config, yes=yes, as_json=as_json))
