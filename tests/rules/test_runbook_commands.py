"""Each `rheostat` command and option in the runbook exists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from rheostat.cli import app

RUNBOOK = Path(__file__).parents[2] / "docs" / "reference" / "runbook.md"
DASHBOARDS = Path(__file__).parents[2] / "dashboards"


def commands(text: str) -> list[str]:
    """Returns commands in code spans and blocks; a line that ends in a backslash continues."""
    text = text.replace("\\\n", " ")
    blocks = re.findall(r"```\n(.*?)```", text, re.S)
    spans = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.S))
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return sorted({re.sub(r"\s+", " ", found) for found in [*spans, *lines] if found.startswith("rheostat ")})


FOUND = commands(RUNBOOK.read_text(encoding="utf-8"))


@pytest.mark.parametrize("line", FOUND)
def test_runbook_command_exists_with_its_options(line: str) -> None:
    words = line.split()[1:]
    command: Any = typer.main.get_command(app)  # Typer's own or click's, as its version has it.
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    assert not hasattr(command, "commands") or command.invoke_without_command, f"{line}: no such command"
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    assert {word for word in words if word.startswith("-")} <= known


def test_commands_are_found_in_code_spans_and_blocks() -> None:
    text = "see `rheostat status`:\n\n```\nrheostat override --broker 1 \\\n  --clear\n```\nand `kafka-topics`"
    assert commands(text) == ["rheostat override --broker 1 --clear", "rheostat status"]
    assert len(FOUND) > 15


def test_runbook_rows_and_panels_exist_on_a_dashboard() -> None:
    boards = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(DASHBOARDS.glob("*.json"))]
    titles = {panel["title"] for board in boards for panel in board["panels"]}
    named = set(re.findall(r"\b(?:row|panel)\s+\*([^*]+)\*", RUNBOOK.read_text(encoding="utf-8")))
    assert len(named) > 3
    assert named <= titles
