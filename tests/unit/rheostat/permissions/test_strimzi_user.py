"""The KafkaUser for Strimzi has the rights of the table: those of the four processes, and the creation of the topics."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from rheostat.config.resources import shipped_path
from rheostat.permissions.table import COLLECT, CREATE, LEARN, STREAM, TUNE

# (operation, kind, name, whether it is a prefix)
Right = tuple[str, str, str, bool]
USER = yaml.safe_load(shipped_path("deploy", "kubernetes", "strimzi", "kafka-user.yaml").read_text())
CLUSTER = "production"
# Kafka grants Describe together with each of these.
WITH_DESCRIBE = ("Read", "Write", "Alter", "Delete")


def granted() -> set[Right]:
    rights: set[Right] = set()
    for acl in USER["spec"]["authorization"]["acls"]:
        resource = acl["resource"]
        for operation in acl["operations"]:
            is_prefix = resource.get("patternType") == "prefix"
            rights.add((operation, resource["type"].lower(), resource.get("name", ""), is_prefix))
    return rights


def needed() -> Iterator[Right]:
    for role in (CREATE, COLLECT, STREAM, TUNE, LEARN):
        for permission in role.permissions:
            name = permission.name.replace("<prefix>", "rheostat").replace("<cluster>", CLUSTER)
            for operation in permission.operations:
                yield operation, permission.kind.lower(), name, permission.is_prefix


def covers(right: Right, wanted: Right) -> bool:
    """Returns whether Kafka allows ``wanted`` to a client that has ``right``."""
    operation, kind, name, is_prefix = right
    if kind != wanted[1] or (operation != wanted[0] and not (wanted[0] == "Describe" and operation in WITH_DESCRIBE)):
        return False
    if wanted[3]:
        return name == "*" or (is_prefix and wanted[2].startswith(name))
    return name in ("*", wanted[2]) or (is_prefix and wanted[2].startswith(name))


def test_user_has_every_right_of_the_table() -> None:
    assert not [wanted for wanted in needed() if not any(covers(right, wanted) for right in granted())]


def test_user_has_no_right_beyond_the_table() -> None:
    wanted = set(needed())
    assert not [right for right in granted() if right not in wanted]
