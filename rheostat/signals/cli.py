"""`rheostat signals`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rheostat.options import Config, Json


class Kind(StrEnum):
    BROKER = "broker"
    MOVE = "move"
    CONTROLLER = "controller"
    TENANT = "tenant"


def signals(
    config: Config,
    kind: Annotated[
        list[Kind] | None,
        typer.Option("--kind", help="only signals of this kind; may stand several times"),
    ] = None,
    node: Annotated[
        list[int] | None,
        typer.Option("--node", "--broker", help="only signals of this broker or controller; may stand several times"),
    ] = None,
    all_clusters: Annotated[
        bool, typer.Option("--all-clusters", help="also those of other clusters than the settings' own")
    ] = False,
    as_json: Json = False,
    wide: Annotated[
        bool, typer.Option("--wide", help="all figures, in several tables where the terminal is narrow")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="again every 2 s, until Ctrl-C")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="each record as it comes, one JSON value a line, until Ctrl-C")
    ] = False,
    wait_s: Annotated[
        float | None,
        typer.Option(
            "--wait",
            min=0,
            metavar="S",
            help="take in more for so many seconds first; ends --watch and --raw after them",
        ),
    ] = None,
) -> None:
    """The live signals as the tuner sees them, without a tuner. Exit code 1 when there are none, or all are stale."""
    if sum((as_json, watch, raw)) > 1:
        raise typer.BadParameter("only one of them at a time", param_hint="--json, --watch, --raw")
    if wide and (as_json or raw):
        raise typer.BadParameter("these have every figure anyway", param_hint="--wide")

    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.signals import live

    set_up_logs()
    settings = load_settings(config)
    wanted = live.SignalFilter(None if all_clusters else settings.cluster, frozenset(kind or ()), frozenset(node or ()))
    if raw:
        raise typer.Exit(live.follow(settings, wanted, wait_s))
    if watch:
        raise typer.Exit(live.watch(settings, wanted, wait_s, wide=wide))
    raise typer.Exit(live.show_once(settings, wanted, wait_s or 0.0, as_json=as_json, wide=wide))
