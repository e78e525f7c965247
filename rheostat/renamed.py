"""Refuses former spellings of commands and options, and names the new ones."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

from rheostat.errors import BadInputError

# Lets a former command accept any arguments, also `--help`, so that the refusal can repeat them.
TAKES_ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


class GroupWithoutDefault(TyperGroup):
    """A group of commands that once took a plan without naming a command, as in ``rheostat reassign PLAN.json``.

    Attributes:
        path: the words before the group's commands, such as ``rheostat reassign``.
        default: the command that the former spelling meant.
        former_names: former names of that command.
        renamed_options: former options of the group's commands, and their new names.
    """

    path: ClassVar[str]
    default: ClassVar[str]
    former_names: ClassVar[tuple[str, ...]] = ()
    renamed_options: ClassVar[Mapping[str, str]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments as click does.

        Raises:
            BadInputError: a former spelling; the message has the new one.
        """
        for former, option in self.renamed_options.items():
            if former in args:
                raise BadInputError(f"Nothing was done: {former} is now {option}. Use {option}.")
        if args and args[0] in self.former_names:
            raise BadInputError(_refusal(f"{self.path} {args[0]}", f"{self.path} {self.default}", args[1:]))
        if args and args[0] not in self.commands and _is_file_or_option(args[0]):
            raise BadInputError(_refusal(f"{self.path} PLAN.json", f"{self.path} {self.default}", args))
        return super().parse_args(ctx, args)


def refuse_move(context: typer.Context) -> None:
    """Refuses `rheostat move`."""
    raise BadInputError(_refusal("rheostat move", "rheostat plan generate", context.args))


def _is_file_or_option(word: str) -> bool:
    if word in ("--help", "-h"):
        return False
    return word.startswith("-") or "." in word or "/" in word or Path(word).exists()


def _refusal(former: str, command: str, arguments: list[str]) -> str:
    return f"Nothing was done: `{former}` is now `{command}`. Use `{shlex.join([*command.split(), *arguments])}`."
