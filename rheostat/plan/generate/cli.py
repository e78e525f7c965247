"""The options of `rheostat plan generate`: plans that add, drain or replace brokers, or rebalance their bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.limits.cli import BrokerLimit, BrokerMax, ClusterMax, Preset
from rheostat.options import Config, Json, amount
from streaming.shared import units


def generate(
    config: Config,
    add_broker: Annotated[
        list[int] | None,
        typer.Option("--add-broker", min=0, help="moves a share of the data to it; may be given several times"),
    ] = None,
    drain_broker: Annotated[
        list[int] | None,
        typer.Option("--drain-broker", min=0, help="moves everything off it; may be given several times"),
    ] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option(
            "--replace", metavar="OLD=NEW", help="moves everything from OLD to NEW; may be given several times"
        ),
    ] = None,
    rebalance: Annotated[bool, typer.Option("--rebalance", help="balances the bytes of all brokers")] = False,
    tolerance: Annotated[
        float | None, amount(units.parse_share, "allowed difference from the mean, 10%", "SHARE", "--tolerance")
    ] = None,
    preset: Preset = None,
    max_broker_partitions: BrokerMax = None,
    max_partitions: ClusterMax = None,
    broker_limit: BrokerLimit = None,
    rate: Annotated[
        float | None,
        amount(units.positive(units.parse_rate), "how long does it take at this throttle?", "RATE", "--rate"),
    ] = None,
    within: Annotated[
        float | None, amount(units.parse_span, "which throttle ends it in this time?", "TIME", "--within")
    ] = None,
    write_rate: Annotated[
        float | None, amount(units.parse_rate, "of each partition, instead of watching", "RATE", "--write-rate")
    ] = None,
    watch_s: Annotated[
        float,
        typer.Option("--watch-s", min=0, help="how long to watch the logs for write rates; 0: from the signals"),
    ] = 10.0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="write the plan into this file")] = None,
    as_json: Json = False,
) -> None:
    """A plan that adds, drains or replaces brokers, or rebalances, and copies little. Nothing is started."""
    from rheostat.console.logs import set_up_logs
    from rheostat.limits.overrides import LimitOverrides
    from rheostat.plan.estimate.report import EstimateQuestion
    from rheostat.plan.generate.command import run_generate
    from rheostat.plan.generate.request import PlanRequest

    set_up_logs()
    request = PlanRequest(
        tuple(add_broker or ()), tuple(drain_broker or ()), tuple(replace or ()), rebalance, tolerance
    )
    overrides = LimitOverrides(preset, max_broker_partitions, max_partitions, tuple(broker_limit or ()))
    raise typer.Exit(
        run_generate(
            config,
            request,
            overrides,
            EstimateQuestion(rate, within),
            write_bytes_per_s=write_rate,
            watch_s=watch_s,
            out=out,
            as_json=as_json,
        )
    )
