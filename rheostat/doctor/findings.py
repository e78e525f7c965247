"""The findings of an examination, and the texts that all checks share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterError


class FindingVerdict(StrEnum):
    OK = "ok"
    ADVICE = "advice"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        check: what was checked, such as "java".
        found: the state that the check has found.
        do: what the operator should do; empty means nothing.
    """

    check: str
    verdict: FindingVerdict
    found: str
    do: str = ""


_RESOURCE_OPTIONS = {"Cluster": "--cluster", "Group": "--group '{}'", "TransactionalId": "--transactional-id '{}'"}


def grant(right: str, kafka: KafkaSettings) -> str:
    """Returns the kafka-acls command that grants a right, such as "Read on Topic rheostat.signals"."""
    operation, _, resource = right.partition(" on ")
    user = kafka.sasl_username or "<principal>"
    kind, _, name = resource.partition(" ")
    resource_option = f"--topic {name or '*'!r}"
    if kind in _RESOURCE_OPTIONS:
        resource_option = _RESOURCE_OPTIONS[kind].format(name)
    return (
        f"kafka-acls --bootstrap-server {server(kafka)} --add "
        f"--allow-principal User:{user} --operation {operation} {resource_option}"
    )


def server(kafka: KafkaSettings) -> str:
    """Returns the first bootstrap server."""
    return kafka.bootstrap_servers.split(",")[0]


def raise_first(answers: dict[Any, Any]) -> None:
    """Raises the first answer that is an error."""
    for answer in answers.values():
        if isinstance(answer, ClusterError):
            raise answer
