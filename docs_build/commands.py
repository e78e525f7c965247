"""Renders the reference of the commands from the parser of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from docs_build.page import cell, paragraph
from rheostat.cli import app
from rheostat.code_marks import mark_names
from rheostat.declaration import EXAMPLE

_HELP = "--help"
_NOT_RUN = "an example of one command"


def render_commands() -> str:
    """Returns a section for each command: usage, arguments, options and an example."""
    return "\n".join(line for path, command in walk_commands() for line in _section(path, command))


def walk_commands() -> Iterator[tuple[str, Any]]:
    """Yields each visible command with its full name, such as ``rheostat plan generate``, in the order of ``--help``.

    A command is an object of click: of the package click, or of the copy of click inside typer.
    """
    yield from _walk("rheostat", typer.main.get_command(app))


def _walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    if command.hidden:
        return
    children = getattr(command, "commands", {})
    if not children or command.invoke_without_command:
        yield path, command
    for name, child in children.items():
        yield from _walk(f"{path} {name}", child)


def _section(path: str, command: Any) -> Iterator[str]:
    yield f"\n## {path}\n"
    yield f"{_paragraphs(command.help)}\n"
    usage = command.get_usage(command.context_class(command, info_name=path)).removeprefix("Usage: ")
    yield f"```text\n{' '.join(usage.split())}\n```\n"
    parameters = [parameter for parameter in command.params if not parameter.hidden and _HELP not in parameter.opts]
    if parameters:
        yield "| argument or option | meaning | default |"
        yield "|---|---|---|"
        yield from (_row(parameter) for parameter in parameters)
        yield ""
    if command.epilog:
        example = command.epilog.removeprefix(EXAMPLE)
        yield f'{EXAMPLE.strip()}\n\n```sh {{not-run="{_NOT_RUN}"}}\n{example}\n```\n'


def _paragraphs(text: str | None) -> str:
    """Returns a help text as Markdown, with new line breaks."""
    parts = (text or "").replace("\b", "").split("\n\n")
    return "\n\n".join(paragraph(mark_names(" ".join(part.split()))) for part in parts)


def _row(parameter: Any) -> str:
    is_argument = type(parameter).__name__.endswith("Argument")
    names = [parameter.metavar or parameter.name.upper()] if is_argument else parameter.opts
    value = "" if is_argument or parameter.is_flag or parameter.is_bool_flag else f" {_value_name(parameter)}"
    shown = ", ".join(f"`{name}{value}`" for name in sorted(names, key=len, reverse=True))
    meaning = parameter.help or ""
    if parameter.envvar:
        meaning += f"; environment variable `{parameter.envvar}`"
    return f"| {shown} | {cell(mark_names(meaning))} | {_default(parameter)} |"


def _value_name(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if isinstance(parameter.show_default, str):
        return f"`{parameter.show_default}`"
    if default is None or default is False or default == () or default == [] or callable(default):
        return "–"
    return f"`{default.value if hasattr(default, 'value') else default}`"
