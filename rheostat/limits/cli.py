"""Declares the commands of `rheostat limits` and their options (KIP-578)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.limits.overrides import LimitOverrides
from rheostat.options import Config, Json

app = typer.Typer()

Preset = Annotated[
    str | None,
    typer.Option("--preset", help="kafka (4000 per broker, 200000 in all), msk.t3.small, msk.large, ..."),
]
BrokerMax = Annotated[int | None, typer.Option("--max-broker-partitions", min=0, help="replicas a broker may host")]
ClusterMax = Annotated[int | None, typer.Option("--max-partitions", min=0, help="replicas the cluster may have")]
BrokerLimit = Annotated[
    list[str] | None,
    typer.Option("--broker-limit", metavar="BROKER=N", help="limit of one broker; may be given several times"),
]

_Topic = Annotated[str, typer.Option("--topic", help="name of the topic")]
_Partitions = Annotated[int, typer.Option("--partitions", min=1, help="partitions that the topic shall have")]
_Replication = Annotated[int, typer.Option("--replication", min=1, help="replicas of each partition")]
_OptionalConfig = Annotated[
    Path | None, typer.Option("--config", "-c", envvar="RHEOSTAT_CONFIG", help="the settings file")
]
_OptionalReplication = Annotated[
    int | None, typer.Option("--replication", min=1, help="replicas of each partition; an existing topic keeps its own")
]
_TopicConfig = Annotated[
    list[str] | None,
    typer.Option("--topic-config", metavar="KEY=VALUE", help="a setting of the topic; may be given several times"),
]


@app.callback(invoke_without_command=True)
def limits(
    context: typer.Context,
    config: _OptionalConfig = None,
    preset: Preset = None,
    max_broker_partitions: BrokerMax = None,
    max_partitions: ClusterMax = None,
    broker_limit: BrokerLimit = None,
    as_json: Json = False,
) -> None:
    """Shows the partitions of each broker and the cluster with their limits (KIP-578). Exit code 1: a limit is reached."""
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
    overrides = LimitOverrides(preset, max_broker_partitions, max_partitions, tuple(broker_limit or ()))
    raise typer.Exit(run_limits(config, overrides, as_json=as_json))


@app.command("place")
def place(
    config: Config,
    topic: _Topic,
    partitions: _Partitions,
    replication: _OptionalReplication = None,
    preset: Preset = None,
    max_broker_partitions: BrokerMax = None,
    max_partitions: ClusterMax = None,
    broker_limit: BrokerLimit = None,
    as_json: Json = False,
) -> None:
    """Places the partitions of a new topic, or further ones of an existing topic, within the limits.

    Prints the JSON of kafka-reassign-partitions. Exit code 1: POLICY_VIOLATION, there is no room.
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.limits.command import run_place

    set_up_logs()
    overrides = LimitOverrides(preset, max_broker_partitions, max_partitions, tuple(broker_limit or ()))
    raise typer.Exit(run_place(config, overrides, topic, partitions, replication, as_json=as_json))


@app.command("create")
def create(
    config: Config,
    topic: _Topic,
    partitions: _Partitions,
    replication: _Replication,
    topic_config: _TopicConfig = None,
    preset: Preset = None,
    max_broker_partitions: BrokerMax = None,
    max_partitions: ClusterMax = None,
    broker_limit: BrokerLimit = None,
    as_json: Json = False,
) -> None:
    """Creates a new topic within the limits. Exit code 1: POLICY_VIOLATION, and the topic is not created."""
    from rheostat.console.logs import set_up_logs
    from rheostat.limits.create import NewTopic, run_create

    set_up_logs()
    overrides = LimitOverrides(preset, max_broker_partitions, max_partitions, tuple(broker_limit or ()))
    new_topic = NewTopic(topic, partitions, replication, tuple(topic_config or ()))
    raise typer.Exit(run_create(config, overrides, new_topic, as_json=as_json))
