"""The tables of docs/reference/permissions.md as ACLs of users."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "permissions.md").read_text(encoding="utf-8")
PREFIX, CLUSTER = "own", "lab"
HEADINGS = {
    "creator": "Creation of the topics",
    "collector": "`rheostat collect`",
    "stream": "`rheostat stream`",
    "tuner": "`rheostat tune`",
    "dry": "`rheostat tune` in a dry run",
    "learner": "`rheostat learn`",
    "reader": "`rheostat status`, `signals`, `plan`",
    "operator": "`rheostat pause`, `resume`, `override`",
    "calibrator": "`rheostat quotas measure`, `calibrate`",
}
KINDS = {"Topic": ResourceType.TOPIC, "Group": ResourceType.GROUP, "TransactionalId": ResourceType.TRANSACTIONAL_ID}


def rows(heading: str) -> list[tuple[list[str], str]]:
    """Returns the rights and resources of a section's table."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")
    ]
    return [(operations.split(", "), resource) for operations, resource, *_ in cells[2:]]


def acls(user: str, operations: list[str], resource: str, prefix: str = PREFIX) -> Iterator[ACL]:
    """Returns the ACLs of one row."""
    kind, _, rest = resource.partition(" ")
    name = rest.removeprefix("prefix ").strip("`").replace("<prefix>", prefix).replace("<cluster>", CLUSTER)
    prefixed = rest.startswith("prefix ") or name.endswith(".*")
    pattern = ACLResourcePatternType.PREFIXED if prefixed else ACLResourcePatternType.LITERAL
    at = (
        ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", ACLResourcePatternType.LITERAL)
        if kind == "Cluster"
        else ResourcePattern(KINDS[kind], name.removesuffix("*") if prefixed else name, pattern)
    )
    for operation in operations:
        code = getattr(ACLOperation, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper())
        yield ACL(f"User:{user}", "*", code, ACLPermissionType.ALLOW, at)
