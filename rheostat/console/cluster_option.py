"""The option --cluster of all commands that read a settings file about one cluster.

The option stores the cluster's name in an environment variable, which ``load_settings`` reads. --config has a variable too, so
that a shell can set file and cluster once for many commands.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any

import typer

VARIABLE = "RHEOSTAT_CHOSEN_CLUSTER"


def add_cluster_option(parameters: list[Any]) -> None:
    """Adds --cluster to the parameters of a command if --config is among them."""
    if any(parameter.name == "config" for parameter in parameters):
        parameters.append(_cluster_option())


@contextmanager
def chosen_cluster(ctx: Any) -> Iterator[None]:
    """Sets the variable while a command runs, if its options name a cluster."""
    name, before = ctx.meta.get(VARIABLE), os.environ.get(VARIABLE)
    if name is not None:
        os.environ[VARIABLE] = name
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


def _keep(ctx: typer.Context, name: str | None) -> str | None:
    """Stores the value of the option, until ``chosen_cluster`` needs it."""
    if name is not None:
        ctx.meta[VARIABLE] = name
    return name


@cache
def _cluster_option() -> Any:
    """Returns the option, which typer makes from the signature of a function."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def declare(
        cluster: Annotated[
            str | None,
            typer.Option(
                "--cluster",
                metavar="NAME",
                envvar=VARIABLE,
                expose_value=False,
                callback=_keep,
                help="the cluster, if the settings file has several",
            ),
        ] = None,
    ) -> None:
        """Only declares the option."""

    return next(parameter for parameter in typer.main.get_command(app).params if parameter.name == "cluster")
