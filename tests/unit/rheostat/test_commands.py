"""The program's commands: their list, their order in `--help`, and that `--help` loads no large library."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from docs_build.commands import walk_commands
from rheostat.cli import app
from rheostat.declaration import EXAMPLE

PANELS = {
    "Watch": ["status", "signals", "history", "doctor", "throttles", "journal"],
    "Plan": ["simulate", "fetchers", "plan", "limits", "quotas"],
    "Act": ["pause", "resume", "override", "release", "reassign"],
    "Run": ["run", "collect", "stream", "tune", "learn", "config"],
    "Try": ["demo", "replay", "lab"],
}


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_all_commands_in_their_panels(option: str) -> None:
    told = CliRunner().invoke(app, [option])
    assert told.exit_code == 0
    assert "Adjusts Kafka's replication throttles continuously" in told.output
    panels = re.split(r"^╭─ (\w+) ─+╮$", told.output, flags=re.M)[1:]
    rows = {name: re.findall(r"^│ (\w+) ", body, re.M) for name, body in zip(panels[::2], panels[1::2], strict=True)}
    assert {name: commands for name, commands in rows.items() if name != "Options"} == PANELS
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # it is a group
    assert {name for name, command in commands.items() if not command.hidden} == {
        c for row in PANELS.values() for c in row
    }


def test_version_is_that_of_the_package() -> None:
    told = CliRunner().invoke(app, ["--version"])
    assert (told.exit_code, told.output) == (0, f"rheostat {version('rheostat')}\n")


def test_completion_completes_commands_and_options() -> None:
    environment = {"_RHEOSTAT_COMPLETE": "complete_bash", "COMP_WORDS": "rheostat reassign st", "COMP_CWORD": "2"}
    done = subprocess.run(
        [Path(sys.executable).with_name("rheostat")],
        env=os.environ | environment, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["start", "status"]


@pytest.mark.parametrize(
    ("path", "command"), list(walk_commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_has_an_example_that_the_parser_accepts(
    path: str, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RHEOSTAT_CONFIG", "rheostat.yaml")
    example = command.epilog.removeprefix(EXAMPLE)
    assert example != command.epilog
    assert example.startswith(path)
    assert len(example) <= 77, "it fits a terminal of 80 columns"
    command.make_context(path, shlex.split(example.removeprefix(path)))


@pytest.mark.parametrize(
    ("path", "command"), list(walk_commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_takes_h_for_help(path: str, command: Any) -> None:
    told = CliRunner().invoke(app, [*path.split()[1:], "-h"])
    assert told.exit_code == 0
    assert "Example: rheostat" in told.output
    assert "<bool>" not in told.output, "a flag takes no value"


AMOUNTS = {
    "TIME": (["30s", "5m", "5min", "2h", "1h30m", "500ms", "90"], "5parsecs"),
    "RATE": (["50MB/s", "50MB", "1.5GiB/s", "10Gbit/s", "5000"], "50"),
    "SIZE": (["50MB", "1.5GiB", "5000"], "50Mb"),
    "SHARE": (["10%", "0.1"], "10"),
}


def amount_options() -> Iterator[Any]:
    for path, command in walk_commands():
        for parameter in command.params:
            if parameter.metavar in AMOUNTS:
                yield pytest.param(command, parameter, id=f"{path} {parameter.opts[0]}")


@pytest.mark.parametrize(("command", "parameter"), list(amount_options()))
def test_each_amount_is_written_in_the_same_forms(command: Any, parameter: Any) -> None:
    good, bad = AMOUNTS[parameter.metavar]
    context = command.context_class(command, info_name="x")
    for text in good:
        assert isinstance(parameter.process_value(context, text), float), text
    with pytest.raises(Exception, match=r"expected|without a unit"):
        parameter.process_value(context, bad)


def test_no_option_has_its_unit_in_its_name() -> None:
    names = [name for _, command in walk_commands() for parameter in command.params for name in parameter.opts]
    assert not [name for name in names if re.search(r"-(s|ms|mb|bytes)$", name)]


def test_one_option_has_one_value_name_in_all_commands() -> None:
    value_names: dict[str, set[str | None]] = {}
    for _, command in walk_commands():
        for parameter in command.params:
            if parameter.opts[0].startswith("--"):
                value_names.setdefault(parameter.opts[0], set()).add(parameter.metavar)
    assert {name: found for name, found in value_names.items() if len(found) > 1} == {}


def test_lab_help_hides_the_internal_keep_command() -> None:
    told = CliRunner().invoke(app, ["lab", "--help"])
    assert " up " in told.output
    assert " keep " not in told.output


def test_import_of_cli_loads_no_large_library() -> None:
    asked = "import rheostat.cli, sys; print(sorted({'kafka', 'pyspark', 'fastapi', 'numpy', 'pydantic', 'structlog', 'yaml'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
