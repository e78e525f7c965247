"""Log sizes in which the followers of tiered partitions have what they do not have to copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from streaming.shared.kafka.tiered import (
    copies_that_cannot_begin,
    new_replica_bytes,
    tiered_topics,
    with_copied_bytes,
)
from streaming.shared.kafka.values import ClusterError, ConfigValue, PartitionState

MB = 1_000_000
KEY = ("orders", 0)
# Led by 1, in sync on 2, being added on 3.
MOVE = PartitionState("orders", 0, leader=1, replicas=(1, 2, 3), isr=(1, 2), adding=(3,))
SIZES = {1: {KEY: 100 * MB}, 2: {KEY: 60 * MB}, 3: {KEY: 5 * MB}}
TIERED = {"orders"}


@dataclass
class Cluster:
    """The offsets of one tiered partition by broker; None: the broker does not answer."""

    ends: Mapping[int, int | None] = field(default_factory=lambda: {1: 10_000, 2: 10_000, 3: 9_250})
    start: int | None = 9_000
    follower_starts: Mapping[int, int] = field(default_factory=dict)
    pending_upload: int | None = None
    skips: Mapping[int, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def topic_configs(self, topics: Iterable[str], keys: Iterable[str]) -> dict[str, dict[str, str]]:
        [key] = keys
        return {topic: {key: str(topic in TIERED).lower()} for topic in topics}

    def broker_configs(self, brokers: Iterable[int], keys: Iterable[str]) -> dict[int, Any]:
        [key] = keys
        self.asked.append("broker_configs")
        return {b: {key: ConfigValue(self.skips[b], 3)} if b in self.skips else {} for b in brokers}

    def replica_end_offsets(self, replicas: Mapping[int, Iterable[Any]]) -> dict[int, Any]:
        self.asked.append("ends")
        known = {b: self.ends.get(b, -1) for b in replicas}
        return {b: ClusterError("away") if end is None else {KEY: end} if end >= 0 else {} for b, end in known.items()}

    def local_start_offsets(self, replicas: Mapping[int, Iterable[Any]]) -> dict[int, Any]:
        if self.start is None:
            return {b: ClusterError("too old") for b in replicas}
        starts = {MOVE.leader: self.start, **self.follower_starts}
        return {b: {KEY: starts[b]} if b in starts else {} for b in replicas}

    def pending_upload_offsets(self, led: Mapping[int, Iterable[Any]]) -> dict[int, Any]:
        self.asked.append("pending")
        return {b: ClusterError("too old") if self.pending_upload is None else {KEY: self.pending_upload} for b in led}


def copied(cluster: Cluster, sizes: Mapping[int, Any] = SIZES) -> dict[int, Any]:
    found = with_copied_bytes(cluster, sizes, [MOVE], TIERED).by_broker
    return {b: answer if isinstance(answer, ClusterError) else answer.get(KEY) for b, answer in found.items()}


def test_followers_have_their_share_of_the_leaders_local_log() -> None:
    # Broker 2 has deleted more segments than its leader, and lacks nothing.
    assert copied(Cluster()) == {1: 100 * MB, 2: 100 * MB, 3: 25 * MB}
    assert SIZES[3] == {KEY: 5 * MB}, "the sizes that Kafka reported are unchanged"


def test_follower_with_a_known_start_has_its_own_size() -> None:
    """The first records are small: a quarter of the records is a twentieth of the bytes."""
    assert copied(Cluster(follower_starts={2: 9_600, 3: 9_000})) == {1: 100 * MB, 2: 100 * MB, 3: 5 * MB}


def test_plain_topics_need_no_request() -> None:
    cluster = Cluster()
    result = with_copied_bytes(cluster, SIZES, [MOVE], ())
    assert result.by_broker is SIZES
    assert cluster.asked == []


def test_replica_that_does_not_exist_yet_has_nothing() -> None:
    cluster = Cluster(ends={1: 10_000, 2: 10_000})
    assert copied(cluster, {**SIZES, 3: {}})[3] == 0
    assert with_copied_bytes(cluster, {**SIZES, 3: {}}, [MOVE], TIERED).waiting == {}


def test_replica_with_a_log_but_no_offset_keeps_its_size() -> None:
    assert copied(Cluster(ends={1: 10_000, 2: 10_000}))[3] == 5 * MB


@pytest.mark.parametrize("end", [0, 9_000])
def test_empty_replica_waits_for_the_remote_storage(end: int) -> None:
    cluster = Cluster(ends={1: 10_000, 2: 10_000, 3: end})
    found = with_copied_bytes(cluster, {**SIZES, 3: {KEY: 0}}, [MOVE], TIERED)
    assert found.waiting == {KEY: frozenset({3})}
    assert with_copied_bytes(Cluster(), SIZES, [MOVE], TIERED).waiting == {}


def test_offset_that_a_broker_does_not_have_leaves_the_sizes() -> None:
    assert copied(Cluster(ends={2: 10_000, 3: 9_250})) == {1: 100 * MB, 2: 60 * MB, 3: 5 * MB}


def test_broker_that_tells_no_offsets_has_no_sizes() -> None:
    """A size without offsets would look like bytes that were lost or gained."""
    for silent_leader in (Cluster(start=None), Cluster(ends={1: None, 2: 10_000, 3: 9_250})):
        sizes = copied(silent_leader)
        assert isinstance(sizes[1], ClusterError)
        assert (sizes[2], sizes[3]) == (60 * MB, 5 * MB)
    sizes = copied(Cluster(ends={1: 10_000, 2: 10_000, 3: None}))
    assert isinstance(sizes[3], ClusterError)
    assert sizes[1] == sizes[2] == 100 * MB


def test_broker_without_sizes_stays_unknown() -> None:
    away = ClusterError("away")
    assert copied(Cluster(), {**SIZES, 3: away})[3] is away
    assert 3 not in copied(Cluster(), {1: SIZES[1], 2: SIZES[2]})


def test_empty_replica_skips_uploaded_data_with_the_setting() -> None:
    cluster = Cluster(ends={1: 10_000, 2: 10_000, 3: 0}, pending_upload=9_800, skips={3: "true"})
    assert copied(cluster)[3] == 80 * MB
    switched_off = Cluster(ends={1: 10_000, 2: 10_000, 3: 0}, pending_upload=9_800, skips={3: "false"})
    assert copied(switched_off)[3] == 0


def test_replica_with_an_old_log_begins_at_the_local_start() -> None:
    """KIP-1023 is for empty replicas only. Here broker 2 is empty too."""
    cluster = Cluster(ends={1: 10_000, 2: 0, 3: 500}, pending_upload=9_800, skips={2: "true", 3: "true"})
    assert copied(cluster) == {1: 100 * MB, 2: 80 * MB, 3: 0}


def test_old_leader_of_a_mixed_cluster_copies_the_whole_local_log() -> None:
    cluster = Cluster(ends={1: 10_000, 2: 10_000, 3: 0}, pending_upload=None, skips={3: "true"})
    assert copied(cluster)[3] == 0


def test_running_copies_need_no_settings_of_brokers() -> None:
    cluster = Cluster(skips={3: "true"})
    copied(cluster)
    assert "broker_configs" not in cluster.asked


def test_new_replica_copies_the_local_log_or_what_is_not_uploaded() -> None:
    assert new_replica_bytes(Cluster(), {KEY: 100 * MB}, {KEY: 1}) == {KEY: 100 * MB}
    skipping = Cluster(pending_upload=9_800, skips={1: "true"})
    plain = ("clicks", 0)
    sizes = {KEY: 100 * MB, plain: 7 * MB}
    assert new_replica_bytes(skipping, sizes, {KEY: 1, plain: 2}) == {KEY: 20 * MB, plain: 7 * MB}


def test_copy_from_a_leader_that_does_not_know_the_request_cannot_begin() -> None:
    old, new = Cluster(skips={3: "true"}), Cluster(skips={3: "true"}, pending_upload=9_800)
    assert copies_that_cannot_begin(old, [1, 2, 3], {KEY: 1}) == {KEY: frozenset({3})}
    assert copies_that_cannot_begin(new, [1, 2, 3], {KEY: 1}) == {}
    assert copies_that_cannot_begin(old, [1, 2], {KEY: 1}) == {}, "broker 2 copies the whole local log"
    assert copies_that_cannot_begin(replace(old, start=0), [1, 2, 3], {KEY: 1}) == {}, "the whole log is local"
    assert copies_that_cannot_begin(old, [1, 2, 3], {}) == {}


def test_new_replica_of_a_silent_leader_copies_its_size() -> None:
    assert new_replica_bytes(Cluster(start=None), {KEY: 100 * MB}, {KEY: 1}) == {KEY: 100 * MB}
    assert new_replica_bytes(Cluster(), {KEY: 100 * MB}, {KEY: -1}) == {KEY: 100 * MB}


def test_tiered_topics_are_those_with_remote_storage() -> None:
    assert tiered_topics(Cluster(), ["orders", "clicks"]) == {"orders"}
