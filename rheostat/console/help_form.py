"""The form of the help texts: a flag is shown without a type, because it takes no value."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from rheostat.console.cluster_option import add_cluster_option, chosen_cluster


class PlainCommand(TyperCommand):
    """A command whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns the parameters with `--help`."""
        return _without_flag_types(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands whose help shows flags without a type. It takes --cluster if it takes --config itself."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        add_cluster_option(self.params)

    def invoke(self, ctx: Any) -> Any:
        """Runs the group and its command, for the chosen cluster."""
        with chosen_cluster(ctx):
            return super().invoke(ctx)

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns the parameters with `--help`."""
        return _without_flag_types(super().get_params(ctx))


def _without_flag_types(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters
