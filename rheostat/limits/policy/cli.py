"""Declares the commands of `rheostat limits policy`, the plugin that refuses topics on the controllers (KIP-578)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.console.help_form import PlainGroup
from rheostat.declaration import with_example
from rheostat.options import Config, time_option

app = typer.Typer(
    cls=PlainGroup,
    help="Exports the CreateTopicPolicy, with which the controllers refuse topics above the limits, and updates its limits file.",
    no_args_is_help=True,
)

EVERY_S = 15.0


@app.command("export", **with_example("rheostat limits policy export policy"))
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="the folder; it is created if it is missing")],
    force: Annotated[
        bool, typer.Option("--force", help="also overwrite files that were changed after their export")
    ] = False,
) -> None:
    """Writes the jar of the CreateTopicPolicy, the settings for the controllers, an example of the limits file and a systemd unit.

    The jar runs on Kafka 3.9 and newer. rheostat compiles the jar on first use with its own compiler, so a JRE is enough.
    Files that you have changed are kept. Exit code 1: this version has new content for a file that you have changed.
    """
    from rheostat.config.cli import export_files
    from rheostat.console.output import tell
    from rheostat.limits.policy.export import LIST_FILE, policy_files

    export_files(policy_files(lambda line: tell(line)), folder, force=force, list_file=LIST_FILE)


@app.command("keep", **with_example("rheostat limits policy keep /run/limits.properties --config rheostat.yaml"))
def keep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the limits file that the policy reads")],
    config: Config,
    every_s: Annotated[float, time_option("time between two counts", "--every", shown_default="15s")] = EVERY_S,
    once: Annotated[bool, typer.Option("--once", help="write the file once, and end")] = False,
) -> None:
    """Counts the partitions of each broker and replaces the limits file, until SIGTERM or Ctrl-C.

    Run the command on the machine of each controller. It reads the settings file again before each count. If the cluster does not
    answer, the file stays as it is. After five minutes without a new count the policy allows every topic.
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.limits.policy.keeper import run_keep

    set_up_logs()
    raise typer.Exit(run_keep(config, file, every_s, once=once))
