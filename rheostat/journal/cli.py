"""`rheostat journal`: records of the journal that cannot be read."""

from __future__ import annotations

import typer

from rheostat.options import Config, Yes

app = typer.Typer(help="Records of the journal that cannot be read: list and mend them.", no_args_is_help=True)


@app.command("check")
def check(config: Config) -> None:
    """List them: where each is, why, and what follows. Exit code 1: one of them is in force."""
    from rheostat.console.logs import set_up_logs
    from rheostat.journal.command import check as run_check

    set_up_logs()
    raise typer.Exit(run_check(config))


@app.command("repair")
def repair(config: Config, yes: Yes = False) -> None:
    """Write what takes their place. Shows it and asks first; does nothing to a tuner's own records while one acts."""
    from rheostat.console.logs import set_up_logs
    from rheostat.journal.command import repair as run_repair

    set_up_logs()
    raise typer.Exit(run_repair(config, yes=yes))
