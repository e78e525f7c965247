"""rheostat's own topics: missing ones are created, and wrong settings are reported with the command that corrects them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from rheostat.config.settings import parse_settings
from rheostat.doctor.cluster import topics
from rheostat.doctor.findings import Finding, FindingVerdict
from streaming.shared.contract import Topics
from streaming.shared.kafka.cluster import PartitionState
from streaming.shared.kafka.values import TopicCreation
from streaming.shared.topics import ensure_topics, topic_specs, unreadable_topic_complaints

TOPICS = Topics.with_prefix("rheostat")
NAMES = ("metrics", "signals", "rejects", "journal", "orders", "history", "profiles", "inputs")
ALL = tuple(f"rheostat.{name}" for name in NAMES)
WELL = {
    "rheostat.metrics": {"message.timestamp.type": "LogAppendTime"},
    "rheostat.journal": {"cleanup.policy": "compact"},
    "rheostat.orders": {"cleanup.policy": "compact"},
    "rheostat.history": {"cleanup.policy": "compact,delete"},
    "rheostat.profiles": {"cleanup.policy": "compact"},
    "rheostat.inputs": {"message.timestamp.type": "LogAppendTime"},
}


class Cluster:
    """Three brokers, with these topics and what is set on them."""

    def __init__(self, configs: Mapping[str, Mapping[str, str]], topics: Iterable[str] = ALL, brokers: int = 3) -> None:
        self.configs = configs
        self.topics = set(topics)
        self.asked: set[str] = set()
        self._brokers = brokers
        self.made: dict[str, tuple[int, int, dict[str, str]]] = {}
        self.validated: set[str] = set()

    def partitions(self, topics: Iterable[str]) -> list[PartitionState]:
        self.asked |= set(topics)
        return [PartitionState(t, 0, 1, (1, 2, 3), (1, 2, 3)) for t in topics if t in self.topics]

    def brokers(self) -> range:
        return range(self._brokers)

    def create_topics(self, topics: Sequence[TopicCreation], *, validate_only: bool = False) -> None:
        for name, partitions, factor, configs in topics:
            if validate_only:
                self.validated.add(name)
            else:
                self.made[name] = (partitions, factor, dict(configs))

    def missing_operations(self, topics: Iterable[str]) -> dict[str, list[str]]:
        assert set(topics) <= self.topics | self.made.keys()
        return {}

    def effective_topic_configs(self, topics: Iterable[str], keys: Iterable[str]) -> dict[str, dict[str, str]]:
        asked = set(keys)
        found = {t: {k: v for k, v in self.configs.get(t, {}).items() if k in asked} for t in topics}
        return {topic: configs for topic, configs in found.items() if configs}


def ensured(cluster: Cluster) -> list[str]:
    client: Any = cluster
    return ensure_topics(client, TOPICS)


def test_ensure_topics_creates_missing_topics_only() -> None:
    cluster = Cluster({}, topics=())
    assert ensured(cluster) == []
    assert cluster.made.keys() == set(ALL)
    assert all(factor == 3 for _, factor, _ in cluster.made.values())
    partitions, _, configs = cluster.made["rheostat.inputs"]
    assert partitions == 1
    assert configs == {
        "message.timestamp.type": "LogAppendTime",
        "compression.type": "producer",
        "max.message.bytes": "16777216",
        "cleanup.policy": "delete",
        "retention.ms": "604800000",
        "retention.bytes": "1073741824",
        "segment.bytes": "67108864",
    }
    assert cluster.made["rheostat.journal"][2]["cleanup.policy"] == "compact"

    there = Cluster(WELL)
    assert ensured(there) == []
    assert there.made == {}


def test_ensure_topics_complains_about_compacted_inputs() -> None:
    """All input records of a cluster have the same key, so compaction would keep only the newest."""
    compacted = {**WELL["rheostat.inputs"], "cleanup.policy": "compact"}
    [complaint] = ensured(Cluster({**WELL, "rheostat.inputs": compacted}))
    assert complaint == (
        "topic rheostat.inputs has cleanup.policy=compact, rheostat needs delete: "
        "kafka-configs --alter --entity-type topics --entity-name rheostat.inputs --add-config cleanup.policy=delete"
    )


def test_complaints_accept_kafka_defaults_that_fit() -> None:
    complaints = ensured(Cluster({}))
    assert [complaint.split(",")[0] for complaint in complaints] == [
        "topic rheostat.metrics has message.timestamp.type=the default",
        "topic rheostat.journal has cleanup.policy=delete",
        "topic rheostat.orders has cleanup.policy=delete",
        "topic rheostat.history has cleanup.policy=delete",
        "topic rheostat.profiles has cleanup.policy=delete",
        "topic rheostat.inputs has message.timestamp.type=the default",
    ]


def test_journal_on_three_brokers_needs_two_in_sync() -> None:
    three, two = Cluster({}, topics=()), Cluster({}, topics=(), brokers=2)
    ensured(three)
    ensured(two)
    assert three.made["rheostat.journal"][2]["min.insync.replicas"] == "2"
    assert "min.insync.replicas" not in two.made["rheostat.journal"][2]
    assert "min.insync.replicas" not in three.made["rheostat.metrics"][2]


def test_process_asks_only_for_the_topics_it_uses() -> None:
    cluster = Cluster({}, topics=())
    client: Any = cluster
    ensure_topics(client, TOPICS, [TOPICS.metrics])
    assert cluster.made.keys() == {"rheostat.metrics"}
    assert cluster.asked == {"rheostat.metrics"}


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_journal_and_orders_that_would_be_deleted_are_named(policy: str) -> None:
    client: Any = Cluster({**WELL, "rheostat.orders": {"cleanup.policy": policy}})
    [complaint] = unreadable_topic_complaints(client, TOPICS)
    assert complaint.startswith(
        f"topic rheostat.orders has cleanup.policy={policy}, rheostat needs compact: kafka-configs "
    )
    well: Any = Cluster(WELL)
    assert unreadable_topic_complaints(well, TOPICS) == []


ZSTD = {topic: {**WELL.get(topic, {}), "compression.type": "zstd"} for topic in ALL}


def test_topics_inheriting_a_compression_are_complained_about() -> None:
    """The Python client reads only gzip, and a broker with its own codec recompresses what it receives."""
    complaints = ensured(Cluster(ZSTD))
    assert [complaint.split(": ")[0] for complaint in complaints] == [
        f"topic {topic} has compression.type=zstd, rheostat needs producer" for topic in ALL
    ]
    client: Any = Cluster(ZSTD)
    unsafe = unreadable_topic_complaints(client, TOPICS)
    assert unsafe == [c for c in complaints if "rheostat.journal" in c or "rheostat.orders" in c]
    assert unsafe[0].endswith("--entity-name rheostat.journal --add-config compression.type=producer")
    assert {found.verdict for found in examined(Cluster(ZSTD), create=False)} == {FindingVerdict.FAILED}


def test_topic_specs_keep_producer_compression() -> None:
    cluster = Cluster({}, topics=())
    ensured(cluster)
    assert {configs["compression.type"] for _, _, configs in cluster.made.values()} == {"producer"}


def test_complaints_ignore_retention_of_inputs() -> None:
    shorter = {**WELL["rheostat.inputs"], "retention.ms": "3600000", "retention.bytes": "-1"}
    assert ensured(Cluster({**WELL, "rheostat.inputs": shorter})) == []


def test_topic_specs_cover_every_topic() -> None:
    assert {spec.name for spec in topic_specs(TOPICS)} == set(ALL)


def examined(cluster: Cluster, *, create: bool) -> list[Finding]:
    client: Any = cluster
    settings = parse_settings(
        "cluster: c\nkafka: {bootstrap_servers: 'a:1'}\nstream: {checkpoint_dir: /x}\ntuner: {rate_bytes_per_s_max: 50MB/s}\n",
        "f.yaml", {},
    )  # fmt: skip
    return list(topics(client, settings, settings.kafka, ALL, create=create))


def test_doctor_without_create_makes_no_topic_and_says_when() -> None:
    cluster = Cluster(WELL, topics=ALL[1:])
    (found,) = examined(cluster, create=False)
    assert (found.verdict, found.found) == (
        FindingVerdict.ADVICE,
        "missing; the first start creates them: rheostat.metrics",
    )
    assert "rheostat doctor --create" in found.do
    assert (cluster.made, cluster.validated) == ({}, {"rheostat.metrics"})


def test_doctor_with_create_makes_missing_topics_once() -> None:
    cluster = Cluster(WELL, topics=ALL[1:])
    (found,) = examined(cluster, create=True)
    assert (found.verdict, found.found) == (FindingVerdict.OK, "created: rheostat.metrics")
    assert cluster.made.keys() == {"rheostat.metrics"}
    (found,) = examined(Cluster(WELL), create=True)
    assert (found.verdict, found.found) == (FindingVerdict.OK, ", ".join(ALL))
