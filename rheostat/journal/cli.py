"""Declares the commands `rheostat journal check` and `rheostat journal repair`."""

from __future__ import annotations

import typer

from rheostat.options import Config, Yes

app = typer.Typer(help="Lists and repairs journal records that this version cannot read.", no_args_is_help=True)


@app.command("check")
def check(config: Config) -> None:
    """Lists the unreadable records with place, reason and effect. Exit code 1: one of them is in force."""
    from rheostat.console.logs import set_up_logs
    from rheostat.journal.command import check as run_check

    set_up_logs()
    raise typer.Exit(run_check(config))


@app.command("repair")
def repair(config: Config, yes: Yes = False) -> None:
    """Replaces the unreadable records. Shows the new records and asks first. An active tuner's own records are not replaced."""
    from rheostat.console.logs import set_up_logs
    from rheostat.journal.command import repair as run_repair

    set_up_logs()
    raise typer.Exit(run_repair(config, yes=yes))
