"""Defines the commands `rheostat quotas`, `quotas explain` and `quotas plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.options import Json, amount
from rheostat.quotas.numbers import parse_cost, parse_number
from streaming.shared import units

app = typer.Typer(
    help="Shows and explains quotas for creating and deleting topics (KIP-599), and estimates the time of a creation."
)

Rate = Annotated[float, amount(parse_number, "the quota, controller_mutation_rate, in partitions/s", "RATE", "--rate")]
Samples = Annotated[int, typer.Option("--samples", min=1, help="controller.quota.window.num of the brokers")]
Window = Annotated[
    float, amount(parse_number, "controller.quota.window.size.seconds of the brokers", "SECONDS", "--window")
]


@app.callback(invoke_without_command=True)
def quotas(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", envvar="RHEOSTAT_CONFIG", help="the settings file")
    ] = None,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="refresh every 5 s, until Ctrl-C")] = False,
) -> None:
    """Shows each tenant's rate, quota and reason. Exit code 1: a quota limits a tenant, or an objective is exceeded."""
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise typer.BadParameter("the settings file is missing", param_hint="--config")
    if as_json and watch:
        raise typer.BadParameter("give only one of the two", param_hint="--json, --watch")
    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.quotas.live import run_quotas

    set_up_logs()
    raise typer.Exit(run_quotas(load_settings(config), as_json=as_json, watch=watch))


@app.command("explain")
def explain(
    rate: Rate,
    burst: Annotated[
        float | None,
        amount(parse_number, "partitions created at once; default: as many as a full bucket allows", "PARTITIONS"),
    ] = None,
    samples: Samples = 11,
    window: Window = 1.0,
    as_json: Json = False,
) -> None:
    """Explains a burst under a quota: tokens and throttle time, compared with a quota that limits a mean rate."""
    from rheostat.quotas.explain import BurstExample, run_explain
    from tuner.core.token_bucket import MutationQuota

    quota = MutationQuota(rate, samples, window)
    raise typer.Exit(run_explain(BurstExample(quota, quota.burst if burst is None else burst), as_json=as_json))


@app.command("plan")
def plan(
    topics: Annotated[int, typer.Option("--topics", min=1, help="topics to create or delete")],
    rate: Rate,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="partitions of each topic")] = 1,
    topics_per_request: Annotated[
        int, typer.Option("--topics-per-request", min=1, help="topics in each request of the client")
    ] = 1,
    requests_per_s: Annotated[
        float | None,
        amount(parse_number, "requests per second of the client; default: as many as the quota allows", "RATE"),
    ] = None,
    samples: Samples = 11,
    window: Window = 1.0,
    controller: Annotated[
        str, typer.Option("--controller", help="whose built-in controller times to assume: kraft or zookeeper")
    ] = "kraft",
    ms_per_topic: Annotated[
        float | None, amount(parse_cost, "controller time per topic, instead of the built-in time", "MS")
    ] = None,
    ms_per_partition: Annotated[
        float | None, amount(parse_cost, "controller time per partition, instead of the built-in time", "MS")
    ] = None,
    wait_max: Annotated[
        float | None,
        amount(
            units.parse_span, "longest wait allowed for other requests; the answer has the highest such quota", "TIME"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Estimates how long topic creation takes under a quota. Exit code 1: other requests wait longer than --wait-max."""
    from rheostat.quotas.plan import QuotaQuestion, run_plan
    from tuner.core.token_bucket import MutationQuota
    from tuner.planning.quota_time import Creation

    question = QuotaQuestion(
        Creation(topics, partitions, topics_per_request, requests_per_s),
        MutationQuota(rate, samples, window),
        controller,
        ms_per_topic,
        ms_per_partition,
        wait_max,
    )
    raise typer.Exit(run_plan(question, as_json=as_json))
