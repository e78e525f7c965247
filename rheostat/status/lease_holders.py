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

_NAMED_MAX = 5
# Key in the status → name of the process as it appears in the name of the consumer group.
_PART_BY_KEY = {"collector": "collect", "stream": "stream"}


def read_lease_holders(client: ClusterClient, cluster: str, topics: Topics) -> dict[str, Any]:
    """Returns the holder and the standbys of both leases as JSON values. For a group that cannot be read, returns the problem."""
    topic_by_key = {"collector": topics.metrics, "stream": topics.signals}
    return {key: _read_lease(client, cluster, part, topic_by_key[key]) for key, part in _PART_BY_KEY.items()}


def _read_lease(client: ClusterClient, cluster: str, part: str, topic: str) -> dict[str, Any]:
    group = lease_group(cluster, part)
    try:
        members = client.describe_members(group)
    except ClusterError as error:
        return _lease_json("unknown", problem=str(error))
    if members is None:
        return _lease_json("unknown", problem=f"missing right: Describe on Group {group}")
    # An installation with the same cluster name and another prefix is in the same group, with other topics. During a rebalance
    # Kafka names no topics; then each member counts as a standby.
    active, standbys = [], []
    for member in members:
        if topic in member.assigned_topics:
            active.append(_name(member, part))
        elif topic in member.topics or not member.topics:
            standbys.append(_name(member, part))
    return _lease_json("active" if active else "none", holder=next(iter(active), None), standbys=sorted(standbys))


def _lease_json(
    state: str, *, holder: str | None = None, standbys: list[str] | None = None, problem: str | None = None
) -> dict[str, Any]:
    return {"state": state, "holder": holder, "standbys": standbys or [], "problem": problem}


def _name(member: GroupMember, part: str) -> str:
    """Returns ``host:pid``, or the address of a member with another client id."""
    return holder_in_client_id(part, member.client_id) or member.address


def lease_lines(status: Mapping[str, Any]) -> list[str]:
    """Returns a sentence for each lease in ``status``, which may have the keys of ``read_lease_holders``."""
    return [_lease_line(key.capitalize(), status[key]) for key in _PART_BY_KEY if key in status]


def _lease_line(name: str, lease: Mapping[str, Any]) -> str:
    if lease["state"] == "unknown":
        return f"{name}: unknown, {lease['problem']}."
    text = f"active on {lease['holder']}" if lease["state"] == "active" else "none has the lease"
    standbys = f"; on standby: {join_names(lease['standbys'], _NAMED_MAX)}" if lease["standbys"] else ""
    return f"{name}: {text}{standbys}."
