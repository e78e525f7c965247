"""Tells which collector and which stream of the cluster are active, from the consumer groups of their leases.

Kafka counts a killed process as a member until its session has expired.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streaming.shared.contract import Topics
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, GroupMember
from streaming.shared.lease import holder_in_client_id, lease_group
from streaming.shared.short_lists import join_names

_KEYS = ("collector", "stream")
_NAMED_MAX = 5
NO_PARTS: Mapping[str, Any] = {}


def read_parts(client: ClusterClient, cluster: str, topics: Topics) -> dict[str, Any]:
    """Returns the holder and the standbys of both leases as JSON values; for a group that cannot be read, the problem."""
    return {
        "collector": _read_part(client, cluster, "collect", topics.metrics),
        "stream": _read_part(client, cluster, "stream", topics.signals),
    }


def _read_part(client: ClusterClient, cluster: str, part: str, topic: str) -> dict[str, Any]:
    group = lease_group(cluster, part)
    try:
        members = client.describe_members(group)
    except ClusterError as error:
        return _part_json("unknown", problem=str(error))
    if members is None:
        return _part_json("unknown", problem=f"missing right: Describe on Group {group}")
    # An installation with the same cluster name and another prefix is in the same group.
    active, standbys = [], []
    for member in members:
        if topic in member.assigned_topics:
            active.append(_name(member, part))
        elif topic in member.topics or not member.topics:
            standbys.append(_name(member, part))
    return _part_json("active" if active else "none", holder=next(iter(active), None), standbys=sorted(standbys))


def _part_json(
    state: str, *, holder: str | None = None, standbys: list[str] | None = None, problem: str | None = None
) -> dict[str, Any]:
    return {"state": state, "holder": holder, "standbys": standbys or [], "problem": problem}


def _name(member: GroupMember, part: str) -> str:
    """Returns ``host:pid``, or the address of a member with another client id."""
    return holder_in_client_id(part, member.client_id) or member.address


def part_lines(status: Mapping[str, Any]) -> list[str]:
    """Returns a sentence for each part that ``status`` has, in the form of ``read_parts``."""
    return [_part_line(key.capitalize(), status[key]) for key in _KEYS if key in status]


def _part_line(name: str, part: Mapping[str, Any]) -> str:
    if part["state"] == "unknown":
        return f"{name}: unknown, {part['problem']}."
    text = f"active on {part['holder']}" if part["state"] == "active" else "none has the lease"
    standbys = f"; on standby: {join_names(part['standbys'], _NAMED_MAX)}" if part["standbys"] else ""
    return f"{name}: {text}{standbys}."
