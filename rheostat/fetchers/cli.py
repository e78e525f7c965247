"""The options of `rheostat fetchers`: the load of fetcher threads, and topics whose partitions collide on them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rheostat.errors import BadInputError
from rheostat.options import MEASURE_FOR_S, Config, Json, MeasureFor, rate_option, time_option
from tuner.core.fetcher_load import FETCHERS_MAX


class LoadUnit(StrEnum):
    WRITES = "writes"
    PARTITIONS = "partitions"


def fetchers(
    config: Config,
    by: Annotated[
        LoadUnit,
        typer.Option(
            "--by", help="measure a thread's load by the bytes/s that clients write, or by the number of partitions"
        ),
    ] = LoadUnit.WRITES,
    measure_s: MeasureFor = MEASURE_FOR_S,
    thread_rate: Annotated[
        float | None,
        rate_option("the highest rate at which one thread can copy, if you know it", "--thread-rate"),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="write a heat map of the threads to this file, *.svg or *.txt"),
    ] = None,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply",
            help="change num.replica.fetchers in steps, and restore the old value if followers fall behind after a step",
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
    watch: Annotated[
        bool, typer.Option("--watch", help="show load and lag of each thread, refreshed every 2 s, until Ctrl-C")
    ] = False,
    duration_s: Annotated[float | None, time_option("end --watch after this time", "--duration", zero=True)] = None,
    as_json: Json = False,
) -> None:
    """Shows the load of the replica fetcher threads, and the best num.replica.fetchers.

    With --watch, --json prints one object in each line. Exit code 1, without --watch: another value is clearly better
    than the present one.
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
    if watch:
        _check_watch(by, measure_s, apply=apply, has_plot=plot is not None)
        from rheostat.config.settings import load_settings
        from rheostat.fetchers.watch import watch as watch_threads

        code = watch_threads(
            load_settings(config),
            as_json=as_json,
            window_s=measure_s,
            thread_bytes_per_s_max=thread_rate,
            duration_s=duration_s,
        )
        raise typer.Exit(code)
    if duration_s is not None:
        raise BadInputError(
            "--duration: this option has an effect only with --watch: give --watch too, or leave it out"
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


def _check_watch(by: LoadUnit, measure_s: float, *, apply: bool, has_plot: bool) -> None:
    """Checks the options that cannot be combined with --watch.

    Raises:
        BadInputError: the message names the option.
    """
    refused = {"--apply": apply, "--plot": has_plot, "--by partitions": by is LoadUnit.PARTITIONS}
    given = [name for name, is_given in refused.items() if is_given]
    if given:
        raise BadInputError(f"{given[0]}: not possible with --watch: leave one of the two out")
    if measure_s == 0:
        raise BadInputError(
            "--measure-for 0: --watch measures write rates from the logs: give a time such as 10s, or leave --measure-for out"
        )
