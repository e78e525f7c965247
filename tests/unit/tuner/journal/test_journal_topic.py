"""A waiting tuner creates a missing journal topic again, and reports what it waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.shared.contract import Topics
from streaming.shared.kafka.cluster import ClusterError, MissingPermission, Unreachable
from streaming.shared.kafka.values import TopicCreation
from tuner.journal.journal_topic import CHECK_EVERY_S, JournalTopic

TOPICS = Topics.with_prefix("rheostat")


class Cluster:
    """The topics of a cluster. Creating one raises ``refuses``; every call raises ``away``."""

    def __init__(self) -> None:
        self.topics = set(astuple(TOPICS))
        self.made: list[tuple[str, Mapping[str, str]]] = []
        self.asked = 0
        self.refuses: ClusterError | None = None
        self.away: ClusterError | None = None

    def partitions(self, topics: Sequence[str]) -> list[Any]:
        self.asked += 1
        if self.away is not None:
            raise self.away
        return [SimpleNamespace(topic=t, replicas=(1,)) for t in topics if t in self.topics]

    def brokers(self) -> list[int]:
        return [1]

    def create_topics(self, topics: Sequence[TopicCreation], *, validate_only: bool) -> None:
        assert not validate_only
        if self.refuses is not None:
            raise self.refuses
        for name, partitions, factor, configs in topics:
            assert (partitions, factor) == (1, 1)
            self.made.append((name, configs))
            self.topics.add(name)

    def effective_topic_configs(self, topics: Sequence[str], keys: Sequence[str]) -> dict[str, dict[str, str]]:  # noqa: ARG002
        return {}


class Rig:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.cluster = Cluster()
        self.back = 0
        self.topic = JournalTopic(self.cluster, TOPICS, self._on_back, monotonic=lambda: self.now_s)

    def _on_back(self) -> None:
        self.back += 1

    def look(self) -> str | None:
        self.now_s += CHECK_EVERY_S
        return self.topic.find_problem()


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_journal_topic_existing_topic_is_checked_rarely(rig: Rig) -> None:
    assert rig.look() is None
    for _ in range(10):
        rig.now_s += CHECK_EVERY_S / 20
        assert rig.topic.find_problem() is None
    assert rig.cluster.asked == 1
    assert (rig.cluster.made, rig.back) == ([], 0)


def test_journal_topic_missing_twice_is_created_with_settings(rig: Rig) -> None:
    rig.cluster.topics.remove(TOPICS.journal)
    assert rig.look() is None, "a broker that has just started knows of no topic"
    assert rig.cluster.made == []
    assert rig.look() == "the journal's topic rheostat.journal does not exist, and no tuner acts without a journal"
    ((name, configs),) = rig.cluster.made
    assert (name, configs["cleanup.policy"]) == (TOPICS.journal, "compact")
    assert rig.back == 0
    assert rig.look() is None
    assert rig.back == 1
    assert rig.look() is None
    assert rig.back == 1


def test_journal_topic_missing_once_is_not_created(rig: Rig) -> None:
    for _ in range(3):
        rig.cluster.topics.remove(TOPICS.journal)
        assert rig.look() is None
        rig.cluster.topics.add(TOPICS.journal)
        assert rig.look() is None
    assert rig.cluster.made == []


def test_journal_topic_failed_creation_waits_with_reason(rig: Rig) -> None:
    rig.cluster.topics.remove(TOPICS.journal)
    rig.cluster.refuses = MissingPermission("Create on Topic rheostat.journal", "to create topic rheostat.journal")
    rig.look()
    said = rig.look()
    assert said is not None
    assert "cannot be recreated" in said
    assert "Create on Topic rheostat.journal" in said
    assert rig.look() == said
    rig.cluster.topics.add(TOPICS.journal)  # An operator has made it.
    assert rig.look() is None
    assert rig.back == 1


def test_journal_topic_unreachable_cluster_creates_nothing(rig: Rig) -> None:
    rig.cluster.away = Unreachable("no answer")
    assert [rig.look() for _ in range(3)] == [None] * 3
    assert rig.cluster.made == []
