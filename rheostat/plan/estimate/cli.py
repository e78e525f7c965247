"""The options of `rheostat plan estimate`: how long a reassignment takes, or which throttle ends it in time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.options import Json, WatchSeconds, amount
from streaming.shared import units


def estimate(
    plan_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PLAN.json]",
            help="a plan for kafka-reassign-partitions; without it, the reassignments in progress are estimated",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            envvar="RHEOSTAT_CONFIG",
            help="the settings file, to read the figures from the live cluster",
        ),
    ] = None,
    current: Annotated[
        Path | None,
        typer.Option(
            "--current", help="a file with the current assignment, to read the figures from without a cluster"
        ),
    ] = None,
    rate: Annotated[
        float | None,
        amount(units.positive(units.parse_rate), "the throttle rate; the answer is the time it takes", "RATE"),
    ] = None,
    within: Annotated[
        float | None, amount(units.parse_span, "the longest time allowed; the answer is the throttle rate", "TIME")
    ] = None,
    share: Annotated[
        float | None, amount(units.parse_share, "the throttle uses at most this share of --capacity, e.g. 10%", "SHARE")
    ] = None,
    capacity: Annotated[
        float | None,
        amount(units.positive(units.parse_rate), "the network rate of one broker in one direction", "RATE"),
    ] = None,
    size: Annotated[
        float | None, amount(units.parse_bytes, "size of each partition that has no size in --current", "SIZE")
    ] = None,
    write_rate: Annotated[
        float | None,
        amount(
            units.parse_rate,
            "write rate of each partition that has none in --current; on the live cluster, instead of measuring it",
            "RATE",
        ),
    ] = None,
    watch_s: WatchSeconds = 10.0,
    move_ratio: Annotated[
        float | None, amount(units.parse_share, "KIP-73: partitions to move ÷ all partitions", "SHARE")
    ] = None,
    log_size_per_broker: Annotated[
        float | None, amount(units.parse_bytes, "KIP-73: TotalLogSizePerBroker", "SIZE")
    ] = None,
    brokers: Annotated[int | None, typer.Option("--brokers", min=1, help="KIP-73: #Brokers")] = None,
    bytes_in_max: Annotated[
        float | None, amount(units.parse_rate, "KIP-73: max(BytesInPerSec), written by clients", "RATE")
    ] = None,
    response_max: Annotated[
        float | None,
        amount(units.positive(units.parse_bytes), "replica.fetch.response.max.bytes of the brokers", "SIZE"),
    ] = None,
    network: Annotated[
        float | None,
        amount(
            units.positive(units.parse_rate), "a broker's network speed, for KIP-73's rule on response sizes", "RATE"
        ),
    ] = None,
    window: Annotated[
        float | None, amount(units.parse_span, "length of the replication quota's window; default 11 s", "TIME")
    ] = None,
    as_json: Json = False,
) -> None:
    """Estimates how long a reassignment takes, or which throttle ends it in time (KIP-73). Exit code 1: a limit cannot be met."""
    from rheostat.console.logs import set_up_logs
    from rheostat.plan.estimate.command import run_estimate
    from rheostat.plan.estimate.report import EstimateQuestion
    from rheostat.plan.estimate.sources import EstimateInputs

    set_up_logs()
    question = EstimateQuestion(rate, within, share, capacity, network)
    inputs = EstimateInputs(
        size, write_rate, move_ratio, log_size_per_broker, brokers, bytes_in_max, response_max, window
    )
    raise typer.Exit(
        run_estimate(question, inputs, plan=plan_file, config=config, current=current, watch_s=watch_s, as_json=as_json)
    )
