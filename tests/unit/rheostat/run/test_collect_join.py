"""How a collector joins the group of its lease."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, cast

import pytest

from rheostat.config.settings import parse_settings
from rheostat.run import collect_service
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, GroupMember

SETTINGS = parse_settings(
    "{cluster: lab, kafka: {bootstrap_servers: 'localhost:1'}, stream: {checkpoint_dir: /tmp/x}, tuner: {rate_bytes_per_s_max: 50MB/s}}",
    "test",
    {},
)
KILLED = GroupMember("rheostat-collect-lease-a-7", "10.0.0.5", frozenset(), frozenset())


@pytest.mark.parametrize(
    ("answer", "begins_alone"),
    [([], True), ([KILLED], False), (None, False), (ClusterError("the coordinator is away"), False)],
    ids=["no-member", "member", "no-right", "no-answer"],
)
def test_collector_begins_alone_only_in_an_empty_group(
    monkeypatch: pytest.MonkeyPatch, answer: Any, begins_alone: bool
) -> None:
    class Cluster:
        def describe_members(self, group: str) -> Any:
            assert group == "rheostat-collect-lab"
            if isinstance(answer, ClusterError):
                raise answer
            return answer

    joined: dict[str, Any] = {}

    def join(*_: Any, **options: Any) -> nullcontext[None]:
        joined.update(options)
        return nullcontext()

    monkeypatch.setattr(collect_service, "part_lease", join)
    collect_service._join(SETTINGS, cast(ClusterClient, Cluster()))
    assert joined == {"begins_alone": begins_alone}
