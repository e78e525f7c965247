"""The options of `rheostat fetchers`: the load of fetcher threads, and topics whose partitions collide on them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rheostat.errors import BadInputError
from rheostat.options import MEASURE_FOR_S, Config, Json, MeasureFor, rate_option, time_option
from tuner.control.throttle.diagnosis.fetcher_load import FETCHERS_MAX


class LoadUnit(StrEnum):
    WRITES = "writes"
    PARTITIONS = "partitions"


def fetchers(
    config: Config,
    by: Annotated[
        LoadUnit, typer.Option("--by", help="how to measure a thread's load: bytes/s written, or partitions")
    ] = LoadUnit.WRITES,
    measure_s: MeasureFor = MEASURE_FOR_S,
    thread_rate: Annotated[
        float | None,
        rate_option("the highest rate of one thread, if known", "--thread-rate"),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="write a heat map of the threads to this file, *.svg or *.txt"),
    ] = None,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply", help="change the setting in steps, and restore it if followers fall behind after a step"
        ),
    ] = False,
    value: Annotated[
        int | None,
        typer.Option(
            "--value", min=1, max=FETCHERS_MAX, metavar="N", help="with --apply: set this value instead of the best"
        ),
    ] = None,
    observe_s: Annotated[
        float | None,
        time_option(
            "with --apply: how long to observe the followers after each step", "--observe-for", shown_default="2m"
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="with --apply: do not ask for a confirmation")] = False,
    as_json: Json = False,
) -> None:
    """Shows the load of fetcher threads and the best num.replica.fetchers.

    Exit code 1: another value is clearly better.
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.fetchers.approval import OBSERVE_S, FetcherChange
    from rheostat.fetchers.command import run_fetchers

    set_up_logs()
    needs_apply = {"--value": value is not None, "--observe-for": observe_s is not None, "--yes": yes}
    given = [name for name, is_given in needs_apply.items() if is_given]
    if given and not apply:
        raise BadInputError(
            f"{given[0]}: nothing is changed without --apply; give --apply as well, or leave {given[0]} out"
        )
    change = None
    if apply:
        change = FetcherChange(value=value, observe_s=OBSERVE_S if observe_s is None else observe_s, yes=yes)
    raise typer.Exit(
        run_fetchers(
            config,
            by_partitions=by is LoadUnit.PARTITIONS,
            measure_s=measure_s,
            thread_bytes_per_s_max=thread_rate,
            plot=plot,
            as_json=as_json,
            change=change,
        )
    )
