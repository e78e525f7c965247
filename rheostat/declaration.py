"""The class of a command and the form of its example, for the declaration of each command."""

from __future__ import annotations

from typing import Any

from rheostat.renamed import CommandWithFormerOptions

EXAMPLE = "Example: "


def with_example(command_line: str) -> dict[str, Any]:
    """Returns the arguments of ``typer.Typer.command`` for a command whose help ends with this example."""
    return {"cls": CommandWithFormerOptions, "epilog": f"{EXAMPLE}{command_line}"}
