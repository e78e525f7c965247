"""Declares the commands of `rheostat limits` and their options (KIP-578)."""

from __future__ import annotations

from typing import Annotated

import typer

from rheostat.console.help_form import PlainGroup
from rheostat.declaration import EXAMPLE, with_example
from rheostat.limits.options import takes_limits
from rheostat.limits.overrides import LimitOverrides
from rheostat.limits.policy import cli as policy
from rheostat.options import Config, Json, OptionalConfig

app = typer.Typer(cls=PlainGroup)
app.add_typer(policy.app, name="policy")

_Topic = Annotated[str, typer.Option("--topic", metavar="NAME", help="name of the topic")]
_Partitions = Annotated[
    int, typer.Option("--partitions", min=1, metavar="N", help="number of partitions that the topic is to have")
]
_Replication = Annotated[int, typer.Option("--replication", min=1, metavar="N", help="replicas of each partition")]
_OptionalReplication = Annotated[
    int | None,
    typer.Option(
        "--replication", min=1, metavar="N", help="replicas of each partition; an existing topic keeps its number"
    ),
]
_TopicConfig = Annotated[
    list[str] | None,
    typer.Option("--topic-config", metavar="KEY=VALUE", help="a setting of the topic; may be repeated"),
]


@app.callback(invoke_without_command=True, epilog=f"{EXAMPLE}rheostat limits --preset kafka")
@takes_limits
def limits(
    context: typer.Context,
    config: OptionalConfig = None,
    *,
    overrides: LimitOverrides,
    as_json: Json = False,
) -> None:
    """Shows how many partitions each broker and the cluster have, and their limits (KIP-578).

    Exit code 1: a limit is reached.
    """
    if context.invoked_subcommand is not None:
        for option in context.command.params:
            source = context.get_parameter_source(option.name or "")
            if source is not None and source.name == "COMMANDLINE":
                raise typer.BadParameter(
                    f"this option stands before the command `{context.invoked_subcommand}`: write it after the command",
                    param_hint=f"'{option.opts[0]}'",
                )
        return
    if config is None:
        raise typer.BadParameter(
            "no settings file is given: give its path here, or in RHEOSTAT_CONFIG", param_hint="'--config'"
        )
    from rheostat.console.logs import set_up_logs
    from rheostat.limits.command import run_limits

    set_up_logs()
    raise typer.Exit(run_limits(config, overrides, as_json=as_json))


@app.command("place", **with_example("rheostat limits place --topic orders --partitions 12 --replication 3"))
@takes_limits
def place(
    config: Config,
    topic: _Topic,
    partitions: _Partitions,
    replication: _OptionalReplication = None,
    *,
    overrides: LimitOverrides,
    as_json: Json = False,
) -> None:
    """Places the partitions of a new topic, or further partitions of an existing topic, within the limits.

    Prints the placement as JSON for kafka-reassign-partitions. Exit code 1: the partitions do not fit (POLICY_VIOLATION).
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.limits.command import run_place

    set_up_logs()
    raise typer.Exit(run_place(config, overrides, topic, partitions, replication, as_json=as_json))


@app.command("create", **with_example("rheostat limits create --topic orders --partitions 12 --replication 3"))
@takes_limits
def create(
    config: Config,
    topic: _Topic,
    partitions: _Partitions,
    replication: _Replication,
    topic_config: _TopicConfig = None,
    *,
    overrides: LimitOverrides,
    as_json: Json = False,
) -> None:
    """Creates a new topic within the limits.

    Exit code 1: the topic would exceed a limit (POLICY_VIOLATION), and is not created.
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.limits.create import NewTopic, run_create

    set_up_logs()
    new_topic = NewTopic(topic, partitions, replication, tuple(topic_config or ()))
    raise typer.Exit(run_create(config, overrides, new_topic, as_json=as_json))


@app.command("grow", **with_example("rheostat limits grow orders --to 24"))
@takes_limits
def grow(
    config: Config,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="name of the topic")],
    to: Annotated[
        int,
        typer.Option(
            "--partitions", "--to", min=1, metavar="N", help="number of partitions that the topic is to have in all"
        ),
    ],
    *,
    overrides: LimitOverrides,
    as_json: Json = False,
) -> None:
    """Adds partitions to an existing topic within the limits.

    Kafka cannot remove partitions again. Exit code 1: the partitions would exceed a limit (POLICY_VIOLATION); nothing is changed.
    """
    from rheostat.console.logs import set_up_logs
    from rheostat.limits.grow import run_grow

    set_up_logs()
    raise typer.Exit(run_grow(config, overrides, topic, to, as_json=as_json))
