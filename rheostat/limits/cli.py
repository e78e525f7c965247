"""`rheostat limits`: partition limits (KIP-578)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.limits.overrides import LimitOverrides
from rheostat.options import Config, Json

app = typer.Typer()

Preset = Annotated[
    str | None, typer.Option("--preset", help="kafka (4000 a broker, 200000 in all), msk.t3.small, msk.large, ...")
]
BrokerMax = Annotated[int | None, typer.Option("--max-broker-partitions", min=0, help="replicas a broker may host")]
ClusterMax = Annotated[int | None, typer.Option("--max-partitions", min=0, help="replicas the cluster may have")]
BrokerLimit = Annotated[
    list[str] | None,
    typer.Option("--broker-limit", metavar="BROKER=N", help="for one broker; may stand several times"),
]


@app.callback(invoke_without_command=True)
def limits(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", envvar="RHEOSTAT_CONFIG", help="the settings file")
    ] = None,
    preset: Preset = None,
    max_broker_partitions: BrokerMax = None,
    max_partitions: ClusterMax = None,
    broker_limit: BrokerLimit = None,
    as_json: Json = False,
) -> None:
    """Partitions of each broker and the cluster beside their limits (KIP-578). Exit code 1: something is full."""
    if context.invoked_subcommand is not None:
        for option in context.command.params:
            source = context.get_parameter_source(option.name or "")
            if source is not None and source.name == "COMMANDLINE":
                raise typer.BadParameter(
                    f"options go behind {context.invoked_subcommand}, not before it", param_hint=f"'{option.opts[0]}'"
                )
        return
    if config is None:
        raise typer.BadParameter("missing", param_hint="'--config'")
    from rheostat.console.logs import set_up_logs
    from rheostat.limits.command import run_limits

    set_up_logs()
    given = LimitOverrides(preset, max_broker_partitions, max_partitions, tuple(broker_limit or ()))
    raise typer.Exit(run_limits(config, given, as_json=as_json))


@app.command("place")
def place(
    config: Config,
    topic: Annotated[str, typer.Option("--topic", help="that is new, or gets more partitions")],
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="that the topic shall have")],
    replication: Annotated[
        int | None, typer.Option("--replication", min=1, help="replicas of each; an existing topic's stays")
    ] = None,
    preset: Preset = None,
    max_broker_partitions: BrokerMax = None,
    max_partitions: ClusterMax = None,
    broker_limit: BrokerLimit = None,
    as_json: Json = False,
) -> None:
    """Where a topic's partitions fit, as kafka-reassign-partitions' JSON. Exit code 1: POLICY_VIOLATION, nowhere."""
    from rheostat.console.logs import set_up_logs
    from rheostat.limits.command import run_place

    set_up_logs()
    given = LimitOverrides(preset, max_broker_partitions, max_partitions, tuple(broker_limit or ()))
    raise typer.Exit(run_place(config, given, topic, partitions, replication, as_json=as_json))


@app.command("create")
def create(
    config: Config,
    topic: Annotated[str, typer.Option("--topic", help="that there is not yet")],
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="that it shall have")],
    replication: Annotated[int, typer.Option("--replication", min=1, help="replicas of each")],
    topic_config: Annotated[
        list[str] | None,
        typer.Option("--topic-config", metavar="KEY=VALUE", help="a setting of the topic; may stand several times"),
    ] = None,
    preset: Preset = None,
    max_broker_partitions: BrokerMax = None,
    max_partitions: ClusterMax = None,
    broker_limit: BrokerLimit = None,
    as_json: Json = False,
) -> None:
    """Creates a topic where the limits leave room for it. Exit code 1: POLICY_VIOLATION, and there is no topic."""
    from rheostat.console.logs import set_up_logs
    from rheostat.limits.create import NewTopic, run_create

    set_up_logs()
    given = LimitOverrides(preset, max_broker_partitions, max_partitions, tuple(broker_limit or ()))
    asked = NewTopic(topic, partitions, replication, tuple(topic_config or ()))
    raise typer.Exit(run_create(config, given, asked, as_json=as_json))
