"""The options of `rheostat signals`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rheostat.options import Config, Json, time_option


class Kind(StrEnum):
    """The kinds of signals."""

    BROKER = "broker"
    MOVE = "move"
    REPLICATION = "replication"
    CONTROLLER = "controller"
    TENANT = "tenant"


def signals(
    config: Config,
    kind: Annotated[
        list[Kind] | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="show only signals of this kind: broker, move, replication, controller or tenant; may be repeated",
        ),
    ] = None,
    node: Annotated[
        list[int] | None,
        typer.Option(
            "--node", "--broker", metavar="ID", help="show only signals of this broker or controller; may be repeated"
        ),
    ] = None,
    all_clusters: Annotated[
        bool, typer.Option("--all-clusters", help="also show signals of clusters other than the one in the settings")
    ] = False,
    as_json: Json = False,
    wide: Annotated[
        bool, typer.Option("--wide", help="show all values, in several tables if the terminal is narrow")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="refresh every 2 s, until Ctrl-C")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="print each record when it arrives, one JSON value per line, until Ctrl-C")
    ] = False,
    duration_s: Annotated[
        float | None,
        time_option(
            "read signals for this time before the output; with --watch or --raw, end after this time",
            "--duration",
            zero=True,
        ),
    ] = None,
) -> None:
    """Shows the newest signals: what the stream measures of brokers, moves, the controller and tenants. Needs no tuner.

    Exit code 1: there is no signal, or all signals are stale.
    """
    if sum((as_json, watch, raw)) > 1:
        raise typer.BadParameter("give only one of --json, --watch and --raw", param_hint="--json, --watch, --raw")
    if wide and (as_json or raw):
        raise typer.BadParameter("--json and --raw show all values anyway: leave --wide out", param_hint="--wide")

    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.signals import live

    set_up_logs()
    settings = load_settings(config)
    signal_filter = live.SignalFilter(
        cluster=None if all_clusters else settings.cluster,
        kinds=frozenset(kind or ()),
        nodes=frozenset(node or ()),
    )
    if raw:
        raise typer.Exit(live.follow(settings, signal_filter, duration_s))
    if watch:
        raise typer.Exit(live.watch(settings, signal_filter, duration_s, wide=wide))
    raise typer.Exit(live.show_once(settings, signal_filter, duration_s or 0.0, as_json=as_json, wide=wide))
