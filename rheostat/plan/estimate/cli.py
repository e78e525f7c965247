"""The options of `rheostat plan estimate`: how long a reassignment takes, or which throttle ends it in time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.options import (
    MEASURE_FOR_S,
    Json,
    MeasureFor,
    Start,
    Throttle,
    Within,
    rate_option,
    share_option,
    size_option,
    time_option,
)


def estimate(
    plan_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="PLAN.json",
            help="a plan of kafka-reassign-partitions; without it, the command estimates the reassignments in progress",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            envvar="RHEOSTAT_CONFIG",
            metavar="FILE",
            help="the settings file, to read sizes, leaders and write rates from the live cluster",
        ),
    ] = None,
    current: Annotated[
        Path | None,
        typer.Option(
            "--current",
            metavar="FILE",
            help="a file with the current assignment, to estimate without a cluster",
        ),
    ] = None,
    throttle: Throttle = None,
    within: Within = None,
    share: Annotated[
        float | None, share_option("limit the throttle to this share of --capacity, such as 10%", "--share")
    ] = None,
    capacity: Annotated[
        float | None, rate_option("capacity of a broker's network in one direction", "--capacity")
    ] = None,
    size: Annotated[
        float | None, size_option("size of each partition that has no size in --current", "--size", zero=True)
    ] = None,
    write_rate: Annotated[
        float | None,
        rate_option(
            "write rate of each partition that has no write rate in --current; with a live cluster, this rate replaces the "
            "measured rate",
            "--write-rate",
            zero=True,
        ),
    ] = None,
    measure_s: MeasureFor = MEASURE_FOR_S,
    move_ratio: Annotated[
        float | None, share_option("for KIP-73's formula: partitions to move ÷ all partitions", "--move-ratio")
    ] = None,
    log_size_per_broker: Annotated[
        float | None,
        size_option(
            "for KIP-73's formula: TotalLogSizePerBroker, the bytes on one broker", "--log-size-per-broker", zero=True
        ),
    ] = None,
    brokers: Annotated[
        int | None, typer.Option("--brokers", min=1, metavar="N", help="for KIP-73's formula: the number of brokers")
    ] = None,
    max_bytes_in: Annotated[
        float | None,
        rate_option(
            "for KIP-73's formula: max(BytesInPerSec), the highest rate at which clients write to one broker",
            "--max-bytes-in",
            zero=True,
        ),
    ] = None,
    max_response_size: Annotated[
        float | None,
        size_option(
            "for KIP-73's rule on the size of fetch responses: replica.fetch.response.max.bytes of the brokers",
            "--max-response-size",
        ),
    ] = None,
    network: Annotated[
        float | None,
        rate_option("for KIP-73's rule on the size of fetch responses: the network speed of a broker", "--network"),
    ] = None,
    quota_window: Annotated[
        float | None,
        time_option(
            "length of the quota window: replication.quota.window.num × replication.quota.window.size.seconds",
            "--quota-window",
            shown_default="11s",
        ),
    ] = None,
    start: Start = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="with --start: draw the forecast load, the throttle and the progress of the slowest broker and direction, as SVG",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Estimates how long a reassignment takes, or which throttle ends it in time (KIP-73).

    With --start, the estimate uses the forecast load of each hour instead of the present load.

    Exit code 1: the reassignment cannot end within the limits in the options. With --start: it cannot end within 7 days.
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.plan.estimate.command import run_estimate
    from rheostat.plan.estimate.report import EstimateOptions
    from rheostat.plan.estimate.sources import EstimateInputs
    from rheostat.plan.estimate.start import StartOptions

    set_up_logs()
    options = EstimateOptions(
        rate_bytes_per_s=throttle,
        time_s=within,
        share=share,
        capacity_bytes_per_s=capacity,
        network_bytes_per_s=network,
    )
    inputs = EstimateInputs(
        size_bytes=size,
        write_bytes_per_s=write_rate,
        move_ratio=move_ratio,
        log_bytes_per_broker=log_size_per_broker,
        brokers=brokers,
        bytes_in_per_s_max=max_bytes_in,
        response_bytes_max=max_response_size,
        window_s=quota_window,
    )
    raise typer.Exit(
        run_estimate(
            options,
            inputs,
            plan=plan_file,
            config=config,
            current=current,
            measure_s=measure_s,
            start=StartOptions(when=start, plot=plot),
            as_json=as_json,
        )
    )
