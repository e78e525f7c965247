"""Prints the kafka-acls commands that grant the table of rights to users, as a shell script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError
from rheostat.permissions.table import (
    CALIBRATE,
    CLUSTER,
    COLLECT,
    CREATE,
    LEARN,
    OPERATE,
    PREFIX,
    READ,
    ROLE_NAMES,
    STREAM,
    TUNE,
    TUNE_DRY_RUN,
    Permission,
    ResourceKind,
    Role,
)
from streaming.shared.kafka import KafkaSettings
from streaming.shared.lease import lease_group

ADMIN_FILE = "admin.properties"
# In the order in which kafka-acls lists them.
_OPERATIONS = ("Read", "Write", "Create", "Delete", "Alter", "Describe", "DescribeConfigs", "AlterConfigs")
_OPTIONS = {
    ResourceKind.TOPIC: "--topic",
    ResourceKind.GROUP: "--group",
    ResourceKind.TRANSACTIONAL_ID: "--transactional-id",
}
# The lease groups of the collectors and of the streams. These groups are in the metrics cluster, and have its name.
_COLLECTOR_AND_STREAM_GROUPS = tuple(lease_group(CLUSTER, part) for part in ("collect", "stream"))
_PRINCIPAL = re.compile(r"[A-Za-z]+:\S.*")
_PLAIN_TEXT = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class _Grant:
    """One command: operations on resources of one kind."""

    operations: tuple[str, ...]
    kind: ResourceKind
    is_prefix: bool
    names: tuple[str, ...]


def parse_principals(values: Iterable[str]) -> dict[str, str]:
    """Returns the principal of each role, from values such as ``User:rheostat`` or ``collect=User:collector``.

    A value without a role is for all roles that have no value of their own. Without any value, a role's principal is
    ``User:rheostat-<role>``.

    Raises:
        BadInputError: a value has another form, or a role has two values.
    """
    others: str | None = None
    own: dict[str, str] = {}
    for value in values:
        role, _, principal = value.partition("=")
        if role not in ROLE_NAMES:  # The name of a principal may have an equals sign itself: User:CN=rheostat.
            role, principal = "", value
        if not _PRINCIPAL.fullmatch(principal):
            raise BadInputError(
                f"--principal: expected User:NAME, or ROLE=User:NAME with a role of {', '.join(ROLE_NAMES)}; found {value!r}"
            )
        if role in own or (not role and others is not None):
            raise BadInputError(f"--principal: {role or 'all roles'} has two values; give one")
        if role:
            own[role] = principal
        else:
            others = principal
    return {role: own.get(role, others or f"User:rheostat-{role}") for role in ROLE_NAMES}


def acl_script(settings: Settings, principals: Mapping[str, str]) -> str:
    """Returns a shell script with the commands for all roles, with the names of these settings.

    Args:
        principals: the principal of each role; a principal with several roles gets the rights of all of them.
    """
    by_principal: dict[str, list[Role]] = {}
    for role in _roles(settings):
        by_principal.setdefault(principals[role.name], []).append(role)
    lines = [
        "#!/bin/sh",
        f"# Grants the rights that rheostat needs on the cluster {settings.cluster}. Run it as an administrator of the cluster.",
    ]
    if any(kafka.security_protocol != _PLAIN_TEXT for kafka in _clusters(settings)):
        lines.append(f"# {ADMIN_FILE} holds the administrator's login, as Kafka's own tools read it.")
    lines.append("set -eu")
    for principal, roles in by_principal.items():
        titles = "; ".join(role.title.replace("`", "") for role in roles)
        lines += ["", f"# {principal}: {titles}"]
        permissions = [p for role in roles for p in _resolved(role, settings)]
        for kafka, in_metrics in ((settings.kafka, False), (settings.metrics_kafka, True)):
            here = [p for p in permissions if _is_needed(p, settings, in_metrics_cluster=in_metrics)]
            lines += [_command(kafka, principal, grant) for grant in _grants(here)]
        if STREAM in roles:
            lines += _commands_for_sources(settings, principal)
    return "\n".join(lines) + "\n"


def _roles(settings: Settings) -> Sequence[Role]:
    tune = TUNE_DRY_RUN if settings.tuner.dry_run else TUNE
    return (CREATE, COLLECT, STREAM, tune, LEARN, READ, OPERATE, CALIBRATE)


def _clusters(settings: Settings) -> list[KafkaSettings]:
    return [
        settings.kafka,
        settings.metrics_kafka,
        *(source.kafka for source in settings.stream.sources if source.kafka is not None),
    ]


def _resolved(role: Role, settings: Settings) -> Iterator[Permission]:
    """Yields the rights that these settings need, with the names of these settings."""
    for permission in role.permissions:
        elects = settings.tuner.reassign.enabled or settings.tuner.leadership == "act"
        if permission.is_for_plans_and_leaders and not elects:
            continue
        has_metrics_cluster_name = (
            permission.kind is ResourceKind.GROUP and permission.name in _COLLECTOR_AND_STREAM_GROUPS
        )
        cluster = settings.metrics_cluster if has_metrics_cluster_name else settings.cluster
        name = permission.name.replace(PREFIX, settings.topics.prefix).replace(CLUSTER, cluster)
        yield replace(permission, name=name)


def _is_needed(permission: Permission, settings: Settings, *, in_metrics_cluster: bool) -> bool:
    """Returns whether the right is needed in the watched cluster or, with ``in_metrics_cluster``, in a separate metrics cluster."""
    if not settings.has_own_metrics_cluster:
        return not in_metrics_cluster
    if permission.kind is ResourceKind.TOPIC and permission.name == f"{settings.topics.prefix}.":
        return True  # The watched cluster and the metrics cluster both have topics of rheostat.
    groups = [name.replace(CLUSTER, settings.metrics_cluster) for name in _COLLECTOR_AND_STREAM_GROUPS]
    return (permission.name in (*settings.topic_names().of_measurements, *groups)) == in_metrics_cluster


def _grants(permissions: Iterable[Permission]) -> list[_Grant]:
    """Returns one grant for all resources of a kind that need the same operations."""
    operations: dict[tuple[ResourceKind, bool, str], set[str]] = {}
    for permission in permissions:
        resource = (permission.kind, permission.is_prefix, permission.name)
        operations.setdefault(resource, set()).update(permission.operations)
    names: dict[tuple[ResourceKind, bool, tuple[str, ...]], list[str]] = {}
    for (kind, is_prefix, name), allowed in operations.items():
        ordered = tuple(operation for operation in _OPERATIONS if operation in allowed)
        names.setdefault((kind, is_prefix, ordered), []).append(name)
    return [
        _Grant(operations=ordered, kind=kind, is_prefix=is_prefix, names=tuple(resources))
        for (kind, is_prefix, ordered), resources in names.items()
    ]


def _command(kafka: KafkaSettings, principal: str, grant: _Grant) -> str:
    words = ["kafka-acls", "--bootstrap-server", kafka.bootstrap_servers]
    if kafka.security_protocol != _PLAIN_TEXT:
        words += ["--command-config", ADMIN_FILE]
    words += ["--add", "--allow-principal", principal]
    for operation in grant.operations:
        words += ["--operation", operation]
    if grant.kind is ResourceKind.CLUSTER:
        words.append("--cluster")
    else:
        for name in grant.names:
            words += [_OPTIONS[grant.kind], name]
    if grant.is_prefix:
        words += ["--resource-pattern-type", "prefixed"]
    return shlex.join(words)


def _commands_for_sources(settings: Settings, principal: str) -> Iterator[str]:
    """Yields the commands for the topics that other collectors write, which may be in other clusters."""
    for source in settings.stream.sources:
        grant = _Grant(operations=("Read", "Describe"), kind=ResourceKind.TOPIC, is_prefix=False, names=(source.topic,))
        yield _command(source.kafka or settings.metrics_kafka, principal, grant)
