"""Declares the commands of `rheostat config`, which check, show and explain the settings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rheostat.console.help_form import PlainGroup
from rheostat.console.output import out
from rheostat.declaration import with_example
from rheostat.errors import CommandError
from rheostat.options import Config, Json, OptionalConfig, time_option

if TYPE_CHECKING:
    from rheostat.config.export import ExportedFile

app = typer.Typer(cls=PlainGroup, help="Checks, shows and explains the settings.", no_args_is_help=True)


@app.command("check", **with_example("rheostat config check --config rheostat.yaml", all_clusters=True))
def check(config: Config) -> None:
    """Checks the settings file.

    Exit code 2: the file has faults. The command prints each of them.
    """
    from rheostat.config.settings import load_file

    load_file(config)
    out(f"{config}: no faults")


@app.command("show", **with_example("rheostat config show --config rheostat.yaml", all_clusters=True))
def show(config: Config) -> None:
    """Prints all settings as JSON, with defaults and environment variables; passwords are hidden."""
    from rheostat.config.settings import load_file

    out(load_file(config).model_dump_json(indent=2))


@app.command("schedule", **with_example("rheostat config schedule --config rheostat.yaml --next 7d"))
def schedule(
    config: Config,
    next_s: Annotated[float, time_option("how far to look ahead", "--next", shown_default="7d")] = 7 * 86_400.0,
    as_json: Json = False,
) -> None:
    """Shows when the rules of tuner.schedule apply, and which ceiling and objective apply meanwhile."""
    import json
    import time

    from rheostat.config.schedule import schedule_preview, show_preview
    from rheostat.config.settings import load_settings
    from rheostat.console.rich_console import console_for

    now_ms = round(time.time() * 1000)
    preview = schedule_preview(load_settings(config).tuner, now_ms, now_ms + round(next_s * 1000))
    if as_json:
        out(json.dumps(preview, indent=2))
    else:
        show_preview(preview, console_for(sys.stdout))


@app.command("export", **with_example("rheostat config export /etc/rheostat/export --config rheostat.yaml"))
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="the folder; it is created if it is missing")],
    config: OptionalConfig = None,
    force: Annotated[
        bool, typer.Option("--force", help="also overwrite files that were changed after their export")
    ] = False,
) -> None:
    """Writes dashboards, alert rules, settings files for other programs, systemd units, Kubernetes files and ACL commands.

    The ACL commands contain the names and addresses of the settings file. Without --config, the command uses the shipped example
    of a settings file. Files that you have changed are kept. Exit code 1: this version has new content for a file that you have
    changed.
    """
    from rheostat.config.export import files_to_export
    from rheostat.config.resources import conf_file
    from rheostat.config.settings import load_settings

    export_files(files_to_export(load_settings(config or conf_file("rheostat.yaml"))), folder, force=force)


@app.command("reference", **with_example("rheostat config reference"))
def reference(
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="print nothing; exit code 1 if this file is outdated")
    ] = None,
) -> None:
    """Prints every key with its type, default and meaning, as Markdown."""
    from rheostat.config.reference import reference

    text = reference()
    if check is None:
        out(text.rstrip("\n"))
    elif not check.exists() or check.read_text() != text:
        raise CommandError(f"{check} is outdated: the settings in the code have changed. Run `make format`.")


def export_files(files: Sequence[ExportedFile], folder: Path, *, force: bool, list_file: str | None = None) -> None:
    """Writes the files into the folder, and prints what was written and what was kept.

    Args:
        list_file: as for ``rheostat.config.export.export``.

    Raises:
        CommandError: a changed file was kept although this version has other content for it; or as
            ``rheostat.config.export.export``.
    """
    from rheostat.config.export import LIST_FILE
    from rheostat.config.export import export as write_files

    report = write_files(files, folder, force=force, list_file=list_file or LIST_FILE)
    for path in report.written:
        out(f"wrote {path}")
    for path in report.outdated:
        out(f"{path} is not part of this version: remove it, unless you use it")
    counts = {
        "written": report.written,
        "unchanged": report.unchanged,
        "with your changes": report.edited,
        "kept": report.kept,
    }
    out(f"{folder}: {', '.join(f'{len(paths)} files {what}' for what, paths in counts.items() if paths)}")
    if report.kept:
        raise CommandError(
            "\n".join(
                f"{folder / path} was changed and is kept; this version has other content for it"
                for path in report.kept
            )
            + "\nCompare these files with an export into an empty folder, or overwrite them with --force."
        )
