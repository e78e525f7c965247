"""The options of `rheostat plan generate`: plans that add, drain or replace brokers, or rebalance their bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.limits.options import takes_limits
from rheostat.limits.overrides import LimitOverrides
from rheostat.options import Config, Json, WatchSeconds, amount
from streaming.shared import units


@takes_limits
def generate(
    config: Config,
    add_broker: Annotated[
        list[int] | None,
        typer.Option("--add-broker", min=0, help="moves a share of the data to this broker; may be repeated"),
    ] = None,
    drain_broker: Annotated[
        list[int] | None,
        typer.Option("--drain-broker", min=0, help="moves all replicas off this broker; may be repeated"),
    ] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option(
            "--replace", metavar="OLD=NEW", help="moves all replicas from broker OLD to broker NEW; may be repeated"
        ),
    ] = None,
    rebalance: Annotated[bool, typer.Option("--rebalance", help="balances the bytes of all brokers")] = False,
    tolerance: Annotated[
        float | None,
        amount(
            units.parse_share, "allowed difference from the brokers' mean bytes; default 10%", "SHARE", "--tolerance"
        ),
    ] = None,
    *,
    overrides: LimitOverrides,
    rate: Annotated[
        float | None,
        amount(
            units.positive(units.parse_rate), "the throttle rate; the answer is the time it takes", "RATE", "--rate"
        ),
    ] = None,
    within: Annotated[
        float | None,
        amount(units.parse_span, "the longest time allowed; the answer is the throttle rate", "TIME", "--within"),
    ] = None,
    write_rate: Annotated[
        float | None,
        amount(units.parse_rate, "write rate of each partition, instead of measuring it", "RATE", "--write-rate"),
    ] = None,
    watch_s: WatchSeconds = 10.0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="write the plan into this file")] = None,
    as_json: Json = False,
) -> None:
    """Generates a plan that adds, drains, replaces or rebalances brokers and copies little. Nothing is started."""
    from rheostat.console.logs import set_up_logs
    from rheostat.plan.estimate.report import EstimateQuestion
    from rheostat.plan.generate.command import run_generate
    from rheostat.plan.generate.request import PlanRequest

    set_up_logs()
    request = PlanRequest(
        tuple(add_broker or ()), tuple(drain_broker or ()), tuple(replace or ()), rebalance, tolerance
    )
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
