"""The program's commands: their list, their order in `--help`, and that `--help` loads no large library."""

from __future__ import annotations

import subprocess
import sys

import typer
from typer.testing import CliRunner

from rheostat.cli import app

IN_ORDER = [
    "demo", "run", "collect", "stream", "tune", "status", "signals", "replay", "simulate", "fetchers",
    "pause", "resume", "override", "release", "doctor", "move", "plan", "reassign", "quotas", "limits", "journal", "lab", "config",
]  # fmt: skip


def test_help_lists_all_commands_in_teaching_order() -> None:
    group = typer.main.get_command(app)
    assert list(group.commands) == IN_ORDER  # type: ignore[attr-defined]  # it is a group
    told = CliRunner().invoke(app, ["--help"])
    assert told.exit_code == 0
    assert "Adjusts Kafka's replication throttles continuously" in told.output


def test_lab_help_hides_the_internal_keep_command() -> None:
    told = CliRunner().invoke(app, ["lab", "--help"])
    assert " up " in told.output
    assert " keep " not in told.output


def test_import_of_cli_loads_no_large_library() -> None:
    asked = "import rheostat.cli, sys; print(sorted({'kafka', 'pyspark', 'fastapi', 'numpy', 'pydantic', 'structlog', 'yaml'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
