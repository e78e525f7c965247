"""Members of a consumer group, as kafka-python describes them."""

from __future__ import annotations

from kafka.coordinator.assignors.abstract import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.protocol.admin import DescribeGroupsResponse

from streaming.shared.kafka.answers import read_group_member
from streaming.shared.kafka.values import GroupMember


def member(subscription: bytes, assignment: bytes) -> dict[str, object]:
    """Returns a described member in the form in which kafka-python's admin client returns it."""
    described = DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(
        member_id="m", client_id="c", client_host="/10.0.0.5",
        member_metadata=ConsumerProtocolSubscription.decode(subscription) if subscription else b"",
        member_assignment=ConsumerProtocolAssignment.decode(assignment) if assignment else b"",
    )  # fmt: skip
    values: dict[str, object] = described.to_dict()
    return values


def test_member_has_its_topics() -> None:
    subscription = ConsumerProtocolSubscription(0, ["metrics"], b"3").encode()
    holder = member(subscription, ConsumerProtocolAssignment(0, [("metrics", [0])], b"").encode())
    standby = member(subscription, ConsumerProtocolAssignment(0, [("metrics", [])], b"").encode())
    topics = frozenset({"metrics"})
    assert read_group_member(holder) == GroupMember("c", "10.0.0.5", topics, topics)
    assert read_group_member(standby) == GroupMember("c", "10.0.0.5", topics, frozenset())


def test_member_during_a_rebalance_has_no_topics() -> None:
    assert read_group_member(member(b"", b"")) == GroupMember("c", "10.0.0.5", frozenset(), frozenset())
