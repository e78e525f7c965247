"""The table of rights (rheostat/permissions/table.py) as ACLs of users."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

from rheostat.permissions.table import ROLES, Permission, ResourceKind

PREFIX, CLUSTER = "own", "lab"
# The user of each role, in the order of the table.
USERS = ("creator", "collector", "stream", "tuner", "dry", "learner", "reader", "operator", "calibrator")
ROLE_OF = dict(zip(USERS, ROLES, strict=True))
KINDS = {
    ResourceKind.CLUSTER: ResourceType.CLUSTER,
    ResourceKind.TOPIC: ResourceType.TOPIC,
    ResourceKind.GROUP: ResourceType.GROUP,
    ResourceKind.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}


def acls(user: str, permission: Permission, prefix: str = PREFIX) -> Iterator[ACL]:
    """Returns the ACLs of one row."""
    name = permission.name.replace("<prefix>", prefix).replace("<cluster>", CLUSTER) or "kafka-cluster"
    pattern = ACLResourcePatternType.PREFIXED if permission.is_prefix else ACLResourcePatternType.LITERAL
    at = ResourcePattern(KINDS[permission.kind], name, pattern)
    for operation in permission.operations:
        code = getattr(ACLOperation, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper())
        yield ACL(f"User:{user}", "*", code, ACLPermissionType.ALLOW, at)
