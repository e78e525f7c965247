"""Defines the command `rheostat quotas` and its subcommands."""

from __future__ import annotations

from typing import Annotated

import typer

from rheostat.console.help_form import PlainGroup
from rheostat.declaration import EXAMPLE, with_example
from rheostat.options import Config, Json, OptionalConfig, Yes, number_option, time_option
from rheostat.quotas.numbers import parse_number, parse_per_s

app = typer.Typer(
    cls=PlainGroup,
    help="Shows, explains and plans mutation quotas, which limit how fast tenants create and delete topics (KIP-599).\n\n"
    "Without a command: shows each tenant's rate and quota, and the reason for the quota. Exit code 1: a quota limits a tenant, or "
    "an objective is exceeded.",
)

Quota = Annotated[
    float, number_option(parse_per_s, "the quota, controller_mutation_rate, in partitions/s", "NUMBER", "--quota")
]
Samples = Annotated[
    int, typer.Option("--samples", min=1, metavar="N", help="controller.quota.window.num of the brokers")
]
SampleLength = Annotated[
    float,
    time_option(
        "length of one sample, controller.quota.window.size.seconds of the brokers",
        "--sample-length",
        shown_default="1s",
    ),
]


@app.callback(invoke_without_command=True, epilog=f"{EXAMPLE}rheostat quotas --watch")
def quotas(
    context: typer.Context,
    config: OptionalConfig = None,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="refresh every 5 s, until Ctrl-C")] = False,
    total: Annotated[
        float | None,
        number_option(
            parse_per_s,
            "show which tenants a total rate of this many partitions/s would hold back; default, if no quota limits a tenant: the "
            "total rate of the last calibration, or an estimate",
            "NUMBER",
            "--total",
        ),
    ] = None,
) -> None:
    """Shows each tenant's rate and quota, and the reason for the quota.

    Exit code 1: a quota limits a tenant, or an objective is exceeded.
    """
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise typer.BadParameter(
            "no settings file is given: give its path here, or in RHEOSTAT_CONFIG", param_hint="--config"
        )
    if as_json and watch:
        raise typer.BadParameter("give --json or --watch, not both", param_hint="--json, --watch")
    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.quotas.live import run_quotas

    set_up_logs()
    raise typer.Exit(run_quotas(load_settings(config), as_json=as_json, watch=watch, total_per_s=total))


@app.command("explain", **with_example("rheostat quotas explain --quota 5 --burst 100"))
def explain(
    quota: Quota,
    burst: Annotated[
        float | None,
        number_option(
            parse_number, "partitions created at once; default: as many as a full bucket allows", "NUMBER", "--burst"
        ),
    ] = None,
    samples: Samples = 11,
    sample_length_s: SampleLength = 1.0,
    as_json: Json = False,
) -> None:
    """Explains what a quota does to a burst, in tokens and throttle time. Compares the quota with one for a mean rate."""
    from rheostat.quotas.explain import BurstExample, run_explain
    from tuner.core.token_bucket import MutationQuota

    mutation_quota = MutationQuota(rate_per_s=quota, samples=samples, window_s=sample_length_s)
    example = BurstExample(mutation_quota, mutation_quota.burst if burst is None else burst)
    raise typer.Exit(run_explain(example, as_json=as_json))


@app.command("plan", **with_example("rheostat quotas plan --topics 5000 --partitions 4 --quota 20"))
def plan(
    topics: Annotated[int, typer.Option("--topics", min=1, metavar="N", help="topics to create or delete")],
    quota: Quota,
    partitions: Annotated[int, typer.Option("--partitions", min=1, metavar="N", help="partitions of each topic")] = 1,
    topics_per_request: Annotated[
        int, typer.Option("--topics-per-request", min=1, metavar="N", help="topics in each request of the client")
    ] = 1,
    request_rate: Annotated[
        float | None,
        number_option(
            parse_per_s,
            "requests/s of the client; default: as many as the quota allows",
            "NUMBER",
            "--request-rate",
        ),
    ] = None,
    samples: Samples = 11,
    sample_length_s: SampleLength = 1.0,
    controller: Annotated[
        str,
        typer.Option(
            "--controller", metavar="KIND", help="use the built-in times of this kind of controller: kraft or zookeeper"
        ),
    ] = "kraft",
    time_per_topic_s: Annotated[
        float | None,
        time_option(
            "time that the controller needs for one topic, such as 12ms; replaces the built-in time",
            "--time-per-topic",
            zero=True,
        ),
    ] = None,
    time_per_partition_s: Annotated[
        float | None,
        time_option(
            "time that the controller needs for one partition; replaces the built-in time",
            "--time-per-partition",
            zero=True,
        ),
    ] = None,
    max_wait: Annotated[
        float | None,
        time_option(
            "longest time that other requests may wait; the command computes the highest quota for it", "--max-wait"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Estimates how long the creation of topics takes under a quota.

    Exit code 1: other requests wait longer than --max-wait.
    """
    from rheostat.quotas.plan import QuotaPlanOptions, run_plan
    from tuner.core.token_bucket import MutationQuota
    from tuner.planning.quota_time import Creation

    options = QuotaPlanOptions(
        creation=Creation(
            topics,
            partitions_per_topic=partitions,
            topics_per_request=topics_per_request,
            requests_per_s=request_rate,
        ),
        quota=MutationQuota(rate_per_s=quota, samples=samples, window_s=sample_length_s),
        controller=controller,
        per_topic_ms=_milliseconds(time_per_topic_s),
        per_partition_ms=_milliseconds(time_per_partition_s),
        wait_s_max=max_wait,
    )
    raise typer.Exit(run_plan(options, as_json=as_json))


@app.command("calibrate", **with_example("rheostat quotas calibrate --for 5m --latency-max 100ms"))
def calibrate(
    config: Config,
    duration_s: Annotated[
        float,
        time_option("how long to measure at most; a calibration takes some minutes", "--for", shown_default="10m"),
    ] = 600.0,
    partitions_max: Annotated[
        int,
        typer.Option(
            "--partitions-max",
            min=1,
            metavar="N",
            help="highest number of partitions that the calibration's topics have at the same time",
        ),
    ] = 1_000,
    partitions: Annotated[
        list[int] | None,
        typer.Option(
            "--partitions",
            min=1,
            metavar="N",
            help="partitions of each topic; may be repeated; default: first 1, then 10",
        ),
    ] = None,
    replication: Annotated[
        int | None,
        typer.Option(
            "--replication",
            min=1,
            metavar="N",
            help="replicas of each partition; default: 3, or the number of brokers if it is lower",
        ),
    ] = None,
    latency_max_s: Annotated[
        float | None,
        time_option(
            "highest latency (p90) of a request to the controller; default: create_probe_p90_ms_max of the settings, or twice the "
            "latency without load",
            "--latency-max",
        ),
    ] = None,
    tenants: Annotated[
        int,
        typer.Option(
            "--tenants", min=1, metavar="N", help="number of tenants among which the proposal divides the total rate"
        ),
    ] = 10,
    clear: Annotated[
        bool, typer.Option("--clear", help="only delete the topics that a killed calibration has left behind")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Measures how many partitions/s the controller can create, add and delete, and proposes a quota.

    Creates topics of its own at rising rates until the controller no longer meets its objective, and deletes them. Exit code 1:
    there is no proposal, or topics could not be deleted.
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.quotas.calibrate.calibration_options import CalibrationOptions
    from rheostat.quotas.calibrate.command import run_calibrate, run_clear

    set_up_logs()
    if clear:
        raise typer.Exit(run_clear(config, yes=yes, as_json=as_json))
    options = CalibrationOptions(
        for_s=duration_s,
        partitions_max=partitions_max,
        sizes=tuple(dict.fromkeys(partitions or (1, 10))),
        replication_factor=replication,
        latency_ms_max=_milliseconds(latency_max_s),
        tenants=tenants,
    )
    raise typer.Exit(run_calibrate(config, options, yes=yes, as_json=as_json))


@app.command("measure", **with_example("rheostat quotas measure --for 2m"))
def measure(
    config: Config,
    duration_s: Annotated[
        float, time_option("how long Kafka counts the mutations of each tenant", "--for", shown_default="1m")
    ] = 60.0,
    clear: Annotated[
        bool, typer.Option("--clear", help="only remove the quota that a killed measurement has left behind")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Shows what each tenant creates and deletes, on a cluster without mutation quotas.

    Kafka counts only tenants that have a quota. So the command sets a quota that limits no tenant, and removes it at the end. If a
    mutation quota exists already, the command sets none, and shows the tenants that have a quota. Exit code 1: the quota could
    not be removed.
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.quotas.measure.command import run_clear, run_measure

    set_up_logs()
    if clear:
        if as_json:
            raise typer.BadParameter("give --json or --clear, not both", param_hint="--json, --clear")
        raise typer.Exit(run_clear(config, yes=yes))
    raise typer.Exit(run_measure(config, duration_s, yes=yes, as_json=as_json))


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds
