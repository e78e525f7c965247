"""The options of `rheostat plan generate`: plans that add, drain or replace brokers, or rebalance their bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.limits.options import takes_limits
from rheostat.limits.overrides import LimitOverrides
from rheostat.options import MEASURE_FOR_S, Config, Json, MeasureFor, Throttle, Within, rate_option, share_option


@takes_limits
def generate(
    config: Config,
    add_broker: Annotated[
        list[int] | None,
        typer.Option(
            "--add-broker", min=0, metavar="BROKER", help="move a share of the data to this broker; may be repeated"
        ),
    ] = None,
    drain_broker: Annotated[
        list[int] | None,
        typer.Option(
            "--drain-broker", min=0, metavar="BROKER", help="move all replicas off this broker; may be repeated"
        ),
    ] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option(
            "--replace", metavar="OLD=NEW", help="move all replicas from broker OLD to broker NEW; may be repeated"
        ),
    ] = None,
    cordon: Annotated[
        bool,
        typer.Option(
            "--cordon",
            help="the plan also cordons the brokers that it empties, before its first step (Kafka 4.3 or newer)",
        ),
    ] = False,
    rebalance: Annotated[bool, typer.Option("--rebalance", help="balance the bytes of all brokers")] = False,
    tolerance: Annotated[
        float | None,
        share_option(
            "allowed difference between the bytes of a broker and the mean of all brokers",
            "--tolerance",
            shown_default="10%",
        ),
    ] = None,
    *,
    overrides: LimitOverrides,  # @takes_limits makes it from its own options.
    throttle: Throttle = None,
    within: Within = None,
    write_rate: Annotated[
        float | None,
        rate_option("write rate of each partition; it replaces the measured rate", "--write-rate", zero=True),
    ] = None,
    measure_s: MeasureFor = MEASURE_FOR_S,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="write the plan into this file")
    ] = None,
    as_json: Json = False,
) -> None:
    """Generates a plan that adds, drains, replaces or rebalances brokers with few bytes to copy. Starts no move."""
    from rheostat.console.logs import set_up_logs
    from rheostat.plan.estimate.report import EstimateOptions
    from rheostat.plan.generate.command import run_generate
    from rheostat.plan.generate.request import PlanRequest

    set_up_logs()
    request = PlanRequest(
        add=tuple(add_broker or ()),
        drain=tuple(drain_broker or ()),
        replace=tuple(replace or ()),
        cordon=cordon,
        rebalance=rebalance,
        tolerance=tolerance,
    )
    raise typer.Exit(
        run_generate(
            config,
            request,
            overrides,
            # The plan is printed with an estimate of its duration.
            EstimateOptions(rate_bytes_per_s=throttle, time_s=within),
            write_bytes_per_s=write_rate,
            measure_s=measure_s,
            out=out,
            as_json=as_json,
        )
    )
