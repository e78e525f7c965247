"""Renders the tables of rights: one table for each process and each group of commands."""

from __future__ import annotations

from collections.abc import Iterator

from docs_build.page import cell, paragraph
from rheostat.permissions.table import ROLES, Permission, Role


def render_permissions() -> str:
    """Returns a section with a table for each role."""
    return "\n".join(line for role in ROLES for line in _section(role))


def _section(role: Role) -> Iterator[str]:
    yield f"\n## {role.title}\n"
    if role.before:
        yield f"{paragraph(role.before)}\n"
    yield "| rights | on | for |"
    yield "|---|---|---|"
    for permission in role.permissions:
        yield f"| {', '.join(permission.operations)} | {_resource(permission)} | {cell(permission.purpose)} |"
    if role.after:
        yield f"\n{paragraph(role.after)}"


def _resource(permission: Permission) -> str:
    words = [str(permission.kind), "prefix" if permission.is_prefix else "", permission.name and f"`{permission.name}`"]
    return " ".join(word for word in words if word)
