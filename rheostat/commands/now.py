"""How things stand now: what is there, what is measured, what is missing."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated

import typer

from rheostat.commands.options import Config, Json
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from rheostat.saying import out, tell


class Kind(StrEnum):
    BROKER = "broker"
    MOVE = "move"
    CONTROLLER = "controller"
    TENANT = "tenant"


def status(
    config: Config,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="again every 2 s, in place, until Ctrl-C")] = False,
    wait_s: Annotated[
        float | None, typer.Option("--wait", min=0, metavar="S", help="ends --watch after so many seconds")
    ] = None,
) -> None:
    """Does a tuner act, what moves and when it ends, what was decided and why.

    Exit code 1 while a move has stalled and no tuner acts, or is stuck and turning its throttle cannot help."""
    if as_json and watch:
        raise typer.BadParameter("only one of them at a time", param_hint="--json, --watch")
    if wait_s is not None and not watch:
        raise typer.BadParameter("it ends a watch: give --watch, too", param_hint="--wait")

    from rheostat.logs import set_up_logs
    from rheostat.settings import load_settings
    from rheostat.status import gather, stuck, without_help
    from rheostat.status_text import show
    from rheostat.terminal import console_of

    set_up_logs()
    if watch:
        from rheostat import status_watch

        raise typer.Exit(status_watch.watch(load_settings(config), wait_s))
    found = gather(load_settings(config))
    if as_json:
        out(json.dumps(found, indent=2))
    else:
        show(found, console_of(sys.stdout))
    raise typer.Exit(EXIT_NOT_WELL if stuck(found) or without_help(found) else EXIT_DONE)


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

    from rheostat import signals as live
    from rheostat.logs import set_up_logs
    from rheostat.settings import load_settings

    set_up_logs()
    settings = load_settings(config)
    wanted = live.Wanted(None if all_clusters else settings.cluster, frozenset(kind or ()), frozenset(node or ()))
    if raw:
        raise typer.Exit(live.follow(settings, wanted, wait_s))
    if watch:
        raise typer.Exit(live.watch(settings, wanted, wait_s, wide=wide))
    raise typer.Exit(live.look(settings, wanted, wait_s or 0.0, as_json=as_json, wide=wide))


def doctor(
    config: Config,
    as_json: Json = False,
    fetch: Annotated[bool, typer.Option("--fetch", help="fetch the JVM artifacts now, if they are missing")] = False,
    create: Annotated[
        bool,
        typer.Option(
            "--create",
            help="create rheostat's own topics now, if they are missing; and try rights for which Kafka creates one of its own",
        ),
    ] = False,
) -> None:
    """Checks Java, artifacts, reachability and rights, and says what to do about each failure. Changes nothing by itself."""
    from rheostat import doctor as checks
    from rheostat.doctor.view import show
    from rheostat.jvm.kernel import stream_jars
    from rheostat.logs import set_up_logs
    from rheostat.settings import load_settings
    from rheostat.terminal import console_of

    set_up_logs()
    settings = load_settings(config)
    if fetch:
        stream_jars(progress=tell)
    findings = []
    console = console_of(sys.stderr if as_json else sys.stdout)
    for finding in checks.examine(settings, create=create):
        findings.append(finding)
        show(finding, console)
    if as_json:
        out(json.dumps(checks.as_json(findings), indent=2))
    raise typer.Exit(checks.exit_code(findings))
