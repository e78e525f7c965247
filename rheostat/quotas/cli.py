"""`rheostat quotas`: mutation quotas (KIP-599)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.options import Json, amount
from rheostat.quotas.numbers import parse_cost, parse_number
from streaming.shared import units

app = typer.Typer(help="Quotas for creating and deleting topics (KIP-599): who has what and why, and what they do.")

Rate = Annotated[float, amount(parse_number, "controller_mutation_rate, partitions/s", "RATE", "--rate")]
Samples = Annotated[int, typer.Option("--samples", min=1, help="controller.quota.window.num")]
Window = Annotated[float, amount(parse_number, "controller.quota.window.size.seconds", "SECONDS", "--window")]


@app.callback(invoke_without_command=True)
def quotas(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", envvar="RHEOSTAT_CONFIG", help="the settings file")
    ] = None,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="again every 5 s, until Ctrl-C")] = False,
) -> None:
    """Who does what, who is held back, and why. Exit code 1: somebody is, or the controller is over its objective."""
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise typer.BadParameter("expected the settings file", param_hint="--config")
    if as_json and watch:
        raise typer.BadParameter("only one of them at a time", param_hint="--json, --watch")
    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.quotas.live import run_quotas

    set_up_logs()
    raise typer.Exit(run_quotas(load_settings(config), as_json=as_json, watch=watch))


@app.command("explain")
def explain(
    rate: Rate,
    burst: Annotated[
        float | None, amount(parse_number, "partitions created at once; without it what the bucket holds", "PARTITIONS")
    ] = None,
    samples: Samples = 11,
    window: Window = 1.0,
    as_json: Json = False,
) -> None:
    """What a burst does to a quota: tokens, throttle time, and what a quota by mean rate would do."""
    from rheostat.quotas.explain import Explained, run_explain
    from tuner.core.token_bucket import MutationQuota

    quota = MutationQuota(rate, samples, window)
    raise typer.Exit(run_explain(Explained(quota, quota.burst if burst is None else burst), as_json=as_json))


@app.command("plan")
def plan(
    topics: Annotated[int, typer.Option("--topics", min=1, help="to be created or deleted")],
    rate: Rate,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="of each topic")] = 1,
    topics_per_request: Annotated[int, typer.Option("--topics-per-request", min=1)] = 1,
    requests_per_s: Annotated[
        float | None, amount(parse_number, "how fast the client asks; without it as fast as it may", "RATE")
    ] = None,
    samples: Samples = 11,
    window: Window = 1.0,
    controller: Annotated[str, typer.Option("--controller", help="whose costs: kraft, zookeeper")] = "kraft",
    ms_per_topic: Annotated[
        float | None, amount(parse_cost, "of the controller's time, where it is known better", "MS")
    ] = None,
    ms_per_partition: Annotated[float | None, amount(parse_cost, "the same", "MS")] = None,
    wait_max: Annotated[
        float | None, amount(units.parse_span, "which quota keeps others from waiting longer?", "TIME")
    ] = None,
    as_json: Json = False,
) -> None:
    """How long creating topics takes under a quota, and what the controller feels. Exit code 1: more than --wait-max."""
    from rheostat.quotas.plan import QuotaQuestion, run_plan
    from tuner.core.token_bucket import MutationQuota
    from tuner.planning.quota_time import Creation

    asked = QuotaQuestion(
        Creation(topics, partitions, topics_per_request, requests_per_s),
        MutationQuota(rate, samples, window),
        controller,
        ms_per_topic,
        ms_per_partition,
        wait_max,
    )
    raise typer.Exit(run_plan(asked, as_json=as_json))
