"""`rheostat fetchers`: fetcher threads and the partitions that collide on them (LINE)."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rheostat.errors import BadInputError
from rheostat.options import Config, Json, amount
from streaming.shared import units
from tuner.control.throttle.diagnosis.fetcher_load import FETCHERS_MAX


class By(StrEnum):
    WRITES = "writes"
    PARTITIONS = "partitions"


def fetchers(
    config: Config,
    by: Annotated[By, typer.Option("--by", help="what a thread's load is: bytes/s written, or partitions")] = By.WRITES,
    watch_s: Annotated[
        float,
        typer.Option(
            "--watch-s", min=0, help="how long the cluster's logs are watched for write rates; 0: from the signals"
        ),
    ] = 10.0,
    thread_rate: Annotated[
        float | None,
        amount(
            units.positive(units.parse_rate), "what one thread can copy, where it is known", "RATE", "--thread-rate"
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="draw a heat map of the threads into this file, *.svg or *.txt")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="set it, in the steps that Kafka takes, and put it back if that does harm")
    ] = False,
    value: Annotated[
        int | None, typer.Option("--value", min=1, max=FETCHERS_MAX, help="with --apply: set this, not the best")
    ] = None,
    settle: Annotated[
        float | None,
        amount(units.parse_span, "with --apply: how long each step is watched, 2min", "TIME", "--settle"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="with --apply: don't ask")] = False,
    as_json: Json = False,
) -> None:
    """Load of fetcher threads, topics that collide, the best num.replica.fetchers. Exit code 1: another is clearly better."""
    from rheostat.console.logs import set_up_logs
    from rheostat.fetchers.approval import SETTLE_S, FetcherChange
    from rheostat.fetchers.command import run_fetchers

    set_up_logs()
    given = [
        name for name, one in (("--value", value), ("--settle", settle), ("--yes", yes or None)) if one is not None
    ]
    if given and not apply:
        raise BadInputError(f"{given[0]}: nothing is changed without --apply; give it as well, or leave {given[0]} out")
    wanted = FetcherChange(value, SETTLE_S if settle is None else settle, yes) if apply else None
    raise typer.Exit(
        run_fetchers(
            config,
            by_partitions=by is By.PARTITIONS,
            watch_s=watch_s,
            thread_bytes_per_s_max=thread_rate,
            plot=plot,
            as_json=as_json,
            wanted=wanted,
        )
    )
