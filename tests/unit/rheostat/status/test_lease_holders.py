"""The lines of `rheostat status` about the active collector and the active stream."""

from __future__ import annotations

from typing import cast

import pytest

from rheostat.status.lease_holders import lease_lines, read_lease_holders
from streaming.shared.contract import Topics
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, GroupMember
from streaming.shared.lease import holder_in_client_id, lease_client_id

TOPICS = Topics.with_prefix("rheostat")
Answer = list[GroupMember] | ClusterError | None


def member(part: str, host: str, *, active: bool = False, topic: str | None = None, client_id: str = "") -> GroupMember:
    subscribed = frozenset({topic or (TOPICS.metrics if part == "collect" else TOPICS.signals)})
    name = client_id or lease_client_id(part, host, 7)
    return GroupMember(name, "10.0.0.5", subscribed, subscribed if active else frozenset())


class Cluster:
    def __init__(self, collectors: Answer, streams: Answer) -> None:
        self._answers = {"rheostat-collect-lab": collectors, "rheostat-stream-lab": streams}

    def describe_members(self, group: str) -> list[GroupMember] | None:
        answer = self._answers[group]
        if isinstance(answer, ClusterError):
            raise answer
        return answer


def lines(collectors: Answer, streams: Answer = None) -> list[str]:
    return lease_lines(read_lease_holders(cast(ClusterClient, Cluster(collectors, streams)), "lab", TOPICS))


def test_lines_name_holders_and_standbys() -> None:
    found = lines(
        [member("collect", "b"), member("collect", "a-1", active=True), member("collect", "c")],
        [member("stream", "b", active=True)],
    )
    assert found == ["Collector: active on a-1:7; on standby: b:7, c:7.", "Stream: active on b:7."]


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ([], "Collector: none has the lease."),
        (
            [GroupMember(lease_client_id("collect", "a", 7), "10.0.0.5", frozenset(), frozenset())],
            "Collector: none has the lease; on standby: a:7.",
        ),
        ([member("collect", "", active=True, client_id="another")], "Collector: active on 10.0.0.5."),
        ([member("collect", "a", active=True, topic="other.metrics")], "Collector: none has the lease."),
        (ClusterError("broker 1 is away"), "Collector: unknown, broker 1 is away."),
        (None, "Collector: unknown, missing right: Describe on Group rheostat-collect-lab."),
    ],
    ids=["no-member", "rebalance", "other-client-id", "other-prefix", "error", "no-right"],
)
def test_line_tells_what_the_group_answers(answer: Answer, line: str) -> None:
    assert lines(answer)[0] == line


def test_status_without_parts_has_no_lines() -> None:
    assert lease_lines({"tuner": {}}) == []


@pytest.mark.parametrize("host", ["web1", "web-1.example.org", "rheostat-run-5d9c-x2"])
def test_client_id_tells_host_and_process(host: str) -> None:
    client_id = lease_client_id("stream", host, 4711)
    assert holder_in_client_id("stream", client_id) == f"{host}:4711"
    assert holder_in_client_id("collect", client_id) is None


@pytest.mark.parametrize(
    "client_id", ["rheostat-stream-lease", "rheostat-stream-lease-7", "rheostat-stream-lease-web-x", "kafka-1"]
)
def test_other_client_ids_tell_no_holder(client_id: str) -> None:
    assert holder_in_client_id("stream", client_id) is None
