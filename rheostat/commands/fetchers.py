"""`rheostat fetchers`: fetcher threads and the partitions that collide on them (LINE)."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rheostat import units
from rheostat.commands.options import Config, Json, amount


class By(StrEnum):
    WRITES = "writes"
    PARTITIONS = "partitions"


def fetchers(
    config: Config,
    by: Annotated[By, typer.Option("--by", help="what a thread's load is: bytes/s written, or partitions")] = By.WRITES,
    watch_s: Annotated[
        float, typer.Option("--watch-s", min=1, help="how long the cluster's logs are watched for write rates")
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
    as_json: Json = False,
) -> None:
    """Load of fetcher threads, topics that collide, the best num.replica.fetchers. Exit code 1: another is clearly better."""
    from rheostat.fetchers.command import run_fetchers
    from rheostat.logs import set_up_logs

    set_up_logs()
    raise typer.Exit(
        run_fetchers(
            config, by_partitions=by is By.PARTITIONS, watch_s=watch_s, thread_bytes_per_s_max=thread_rate, plot=plot,
            as_json=as_json,
        )
    )  # fmt: skip
