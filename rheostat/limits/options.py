"""Declares the options of partition limits (KIP-578), which several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from rheostat.limits.overrides import LimitOverrides

_Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="a named set of limits: `kafka` (4000 replicas per broker, 200000 in the cluster), msk.t3.small, msk.large, ...",
    ),
]
_BrokerMax = Annotated[
    int | None,
    typer.Option("--max-broker-partitions", min=0, metavar="N", help="highest number of replicas on each broker"),
]
_ClusterMax = Annotated[
    int | None, typer.Option("--max-partitions", min=0, metavar="N", help="highest number of replicas in the cluster")
]
_BrokerLimit = Annotated[
    list[str] | None,
    typer.Option(
        "--broker-limit", metavar="BROKER=N", help="highest number of replicas on one broker; may be repeated"
    ),
]
_OPTIONS = {  # By name of the parameter.
    "preset": _Preset,
    "max_broker_partitions": _BrokerMax,
    "max_partitions": _ClusterMax,
    "broker_limit": _BrokerLimit,
}


def takes_limits(command: Callable[..., None]) -> Callable[..., None]:
    """Replaces the keyword parameter ``overrides`` of a typer command by the options of the limits.

    Typer reads a command's options from its signature. The returned function has the options in its signature, and calls the
    command with one ``LimitOverrides``.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name != "overrides":
            parameters.append(parameter)
            continue
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in _OPTIONS.items()
        ]

    @wraps(command)
    def run(**arguments: Any) -> None:
        overrides = LimitOverrides(
            preset=arguments.pop("preset"),
            broker_partitions_max=arguments.pop("max_broker_partitions"),
            partitions_max=arguments.pop("max_partitions"),
            by_broker=tuple(arguments.pop("broker_limit") or ()),
        )
        command(**arguments, overrides=overrides)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run
