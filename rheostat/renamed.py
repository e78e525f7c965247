"""Refuses former spellings of commands and options, and names the new spellings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import typer

from rheostat.console.help_form import PlainCommand, PlainGroup
from rheostat.errors import BadInputError

# Lets a former command accept any arguments, also `--help`, so that the refusal can repeat them.
TAKES_ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

_PROCESSES = MappingProxyType({"--wait": "--wait-for-cluster"})
_ESTIMATE = MappingProxyType(
    {
        "--rate": "--throttle",
        "--watch-s": "--measure-for",
        "--bytes-in-max": "--max-bytes-in",
        "--response-max": "--max-response-size",
        "--window": "--quota-window",
    }
)
_QUOTAS = MappingProxyType({"--rate": "--quota", "--window": "--sample-length"})
_QUOTAS_PLAN = MappingProxyType(
    {
        **_QUOTAS,
        "--requests-per-s": "--request-rate",
        "--ms-per-topic": "--time-per-topic",
        "--ms-per-partition": "--time-per-partition",
        "--wait-max": "--max-wait",
    }
)
# Former options of each command, and their new names. A former name is never an option of the command today.
RENAMED_OPTIONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "collect": _PROCESSES,
        "stream": _PROCESSES,
        "tune": _PROCESSES,
        "status": {"--wait": "--duration"},
        "signals": {"--wait": "--duration"},
        "replay": {"--policy": "--tuner-settings"},
        "fetchers": {"--watch-s": "--measure-for", "--settle": "--observe-for"},
        "override": {"--rate": "--throttle"},
        "plan estimate": _ESTIMATE,
        "plan generate": {"--rate": "--throttle", "--watch-s": "--measure-for"},
        "reassign start": {"--watch-s": "--measure-for", "--here": "--standalone"},
        "reassign cancel": {"--leave": "--no-rollback"},
        "quotas explain": _QUOTAS,
        "quotas plan": _QUOTAS_PLAN,
    }
)


class CommandWithFormerOptions(PlainCommand):
    """A command that refuses its former options, and names the new options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments as click does.

        Raises:
            BadInputError: a former option; the message has its new name.
        """
        _program, _, command = ctx.command_path.partition(" ")
        renamed = RENAMED_OPTIONS.get(command, {})
        for argument in args:
            if argument == "--":
                break
            former = argument.partition("=")[0]
            if former in renamed:
                raise BadInputError(f"Nothing was done: {former} is now {renamed[former]}. Use {renamed[former]}.")
        return super().parse_args(ctx, args)


class GroupWithoutDefault(PlainGroup):
    """A group of commands that once took a plan without naming a command, as in ``rheostat reassign PLAN.json``.

    Attributes:
        path: the words before the group's commands, such as ``rheostat reassign``.
        default: the command that the former spelling meant.
        former_names: former names of that command.
    """

    path: ClassVar[str]
    default: ClassVar[str]
    former_names: ClassVar[tuple[str, ...]] = ()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments as click does.

        Raises:
            BadInputError: a former spelling; the message has the new spelling.
        """
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
