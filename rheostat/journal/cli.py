"""Declares the commands `rheostat journal check` and `rheostat journal repair`."""

from __future__ import annotations

import typer

from rheostat.console.help_form import PlainGroup
from rheostat.declaration import with_example
from rheostat.options import Config, Yes

app = typer.Typer(
    cls=PlainGroup, help="Lists and repairs journal records that this version cannot read.", no_args_is_help=True
)


@app.command("check", **with_example("rheostat journal check"))
def check(config: Config) -> None:
    """Lists the unreadable records of the journal, with their position, the reason and the effect.

    Exit code 1: an unreadable record is in force, because no later record has replaced it.
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.journal.command import check as run_check

    set_up_logs()
    raise typer.Exit(run_check(config))


@app.command("repair", **with_example("rheostat journal repair"))
def repair(config: Config, yes: Yes = False) -> None:
    """Replaces unreadable records of the journal after a confirmation. Skips records that an active tuner will rewrite itself."""
    from rheostat.console.logs import set_up_logs
    from rheostat.journal.command import repair as run_repair

    set_up_logs()
    raise typer.Exit(run_repair(config, yes=yes))
