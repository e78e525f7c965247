"""The calls, metrics and records that rheostat relies on, with each version of Kafka."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import kafka.errors
import pytest
from compat_kit import STRANGER
from kafka.admin import NewTopic
from lab_parts import rheostat, until, wait_for_metadata

from rheostat.lab.cluster import Lab
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from streaming.collector.jmx import read_samples
from streaming.shared import kafka_names
from streaming.shared.contract import Metric, Side, Topics
from streaming.shared.contract.quotas import Default, QuotaEntity
from streaming.shared.kafka import admin_client, consumer, producer
from streaming.shared.kafka.clients import close_admin
from streaming.shared.kafka.cluster import Append, ClusterError, Subtract
from streaming.shared.kafka.default_config import DefaultConfigClient
from streaming.shared.kafka.quotas import QuotaClient
from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.kafka.values import InvalidConfig, TopicCreation
from streaming.shared.kafka.versions import IDLE_RATIO_FROM, minor_version
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS
from streaming.shared.topics import ensure_topics
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.throttle_limits import MB
from tuner.journal.entries import Entry
from tuner.journal.kafka_journal import JournalLost, KafkaJournal
from tuner.journal.transactions import transactional_settings

BROKERS = (1, 2, 3)
TOPIC = "orders"
LEADER_KEY, FOLLOWER_KEY = RATE_KEYS[Side.LEADER], RATE_KEYS[Side.FOLLOWER]
LISTS = LIST_KEYS[Side.LEADER]
RATE = 5 * MB
SLOW_BYTES_PER_S = 300_000
PRELOAD_BYTES = 30 * MB
VISIBLE_S_MAX = 30.0  # Kafka shows a change within a second; on a busy machine it takes longer.
# Kafka registers it, and never has a number for it.
NEVER_A_NUMBER = {Metric.MUTATION_THROTTLE_TIME}


@pytest.fixture(scope="session")
def topic(cluster: Lab) -> str:
    """A topic on brokers 1 and 2 with data, which takes minutes to move under SLOW_BYTES_PER_S."""
    replicas = {0: [1, 2], 1: [2, 1]}
    with cluster.admin() as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=-1, replication_factor=-1, replica_assignments=replicas)])
    with ProducerLoad(
        cluster.artifacts, cluster.bootstrap_servers, TOPIC,
        rate_bytes_per_s=None, record_bytes=100_000, total_bytes=PRELOAD_BYTES, properties=("batch.size=800000", "linger.ms=5"),
    ) as load:  # fmt: skip
        load.wait(60)
    return TOPIC


@pytest.fixture
def client(cluster: Lab) -> Iterator[DefaultConfigClient]:
    with DefaultConfigClient(cluster.kafka_settings(), "compat") as made:
        yield made


def own_rates(client: DefaultConfigClient) -> dict[int, dict[str, str]]:
    answers = client.broker_configs(BROKERS, RATE_KEYS.values())
    assert not any(isinstance(answer, ClusterError) for answer in answers.values()), answers
    return {
        broker: {key: one.value for key, one in configs.items() if one.source == kafka_names.SOURCE_DYNAMIC_BROKER}
        for broker, configs in answers.items()
        if not isinstance(configs, ClusterError)
    }


def test_brokers_tell_their_version(cluster: Lab, client: DefaultConfigClient, version: str) -> None:
    answers = client.broker_versions(BROKERS)
    for answer in answers.values():
        assert not isinstance(answer, ClusterError), answer
        assert answer.is_kraft
        assert answer.version == minor_version(version), answer
        assert answer.metadata_version == answer.metadata_version_max, "a new cluster has all features"


def test_rates_are_written_read_and_removed(client: DefaultConfigClient) -> None:
    written = {broker: {LEADER_KEY: str(RATE), FOLLOWER_KEY: str(RATE)} for broker in BROKERS}
    assert client.alter_broker_configs(written) == dict.fromkeys(BROKERS)
    until(lambda: own_rates(client) == written, VISIBLE_S_MAX, "both rates of each broker are read back")
    refused = client.alter_broker_configs({1: {LEADER_KEY: "-1"}})[1]
    assert isinstance(refused, ClusterError)
    assert client.alter_broker_configs({b: {LEADER_KEY: None, FOLLOWER_KEY: None} for b in BROKERS}) == dict.fromkeys(
        BROKERS
    )
    until(lambda: own_rates(client) == {b: {} for b in BROKERS}, VISIBLE_S_MAX, "they are removed")


def test_cluster_default_rate_is_seen_and_removed(client: DefaultConfigClient) -> None:
    assert client.alter_default_config(FOLLOWER_KEY, str(RATE)) is None
    until(lambda: client.default_config(FOLLOWER_KEY) == str(RATE), VISIBLE_S_MAX, "the default is read back")

    def source_on_broker() -> int | None:
        configs = client.broker_configs([1], [FOLLOWER_KEY])[1]
        assert not isinstance(configs, ClusterError), configs
        return configs[FOLLOWER_KEY].source if FOLLOWER_KEY in configs else None

    # The broker that has told the default, and broker 1, learn of it one after the other.
    default = kafka_names.SOURCE_DYNAMIC_DEFAULT_BROKER
    until(lambda: source_on_broker() == default, VISIBLE_S_MAX, "broker 1 has the default")
    assert client.alter_default_config(FOLLOWER_KEY, None) is None
    until(lambda: client.default_config(FOLLOWER_KEY) is None, VISIBLE_S_MAX, "it is removed")


def test_throttled_replica_lists_grow_shrink_and_vanish(client: DefaultConfigClient, topic: str) -> None:
    def current() -> str | None:
        return client.topic_configs([topic], [LISTS]).get(topic, {}).get(LISTS)

    steps = [
        ("0:1", "0:1"),
        (Append("0:2,1:1"), "0:1,0:2,1:1"),
        (Subtract("0:1"), "0:2,1:1"),
        (Subtract("0:2,1:1"), ""),
    ]
    for change, expected in steps:
        assert client.alter_topic_configs({topic: {LISTS: change}}) == {topic: None}
        until(lambda expected=expected: current() == expected, VISIBLE_S_MAX, f"{change} → {expected!r}")
    assert client.alter_topic_configs({topic: {LISTS: "*"}}) == {topic: None}
    until(lambda: current() == "*", VISIBLE_S_MAX, "the list of all replicas")
    assert isinstance(client.alter_topic_configs({topic: {LISTS: Append("0:1")}})[topic], InvalidConfig)
    assert client.alter_topic_configs({topic: {LISTS: None}}) == {topic: None}
    until(lambda: current() is None, VISIBLE_S_MAX, "no list is left")


def test_mutation_quota_refuses_creations_and_is_removed(cluster: Lab) -> None:
    entities = {
        QuotaEntity(client_id="loader"): 1.0,
        QuotaEntity("alice", "loader"): 2.0,
        QuotaEntity(Default.DEFAULT): 1e9,
    }
    quotas, loader = QuotaClient(cluster.kafka_settings(), "compat"), admin_client(cluster.kafka_settings(), "loader")
    try:
        assert not any(quotas.alter_mutation_quotas(entities).values())
        until(lambda: quotas.mutation_quotas() == entities, VISIBLE_S_MAX, "the quotas are read back")
        # The quota of user and client-id does not apply, and that of the user takes precedence over that of the client-id.
        assert not any(quotas.alter_mutation_quotas({QuotaEntity(Default.DEFAULT): 1.0}).values())
        until(lambda: quotas.mutation_quotas()[QuotaEntity(Default.DEFAULT)] == 1.0, VISIBLE_S_MAX, "the lower quota")

        attempts = count()

        def is_refused() -> bool:
            attempt = next(attempts)
            topics = [NewTopic(f"storm-{attempt}-{i}", num_partitions=10, replication_factor=1) for i in range(3)]
            try:
                loader.create_topics(topics)
            except kafka.errors.ThrottlingQuotaExceededError:
                return True
            return False

        until(is_refused, 20, "a creation beyond the quota is refused")
    finally:
        close_admin(loader)
        assert not any(quotas.alter_mutation_quotas(dict.fromkeys(entities)).values())
        until(lambda: quotas.mutation_quotas() == {}, VISIBLE_S_MAX, "no quota is left")
        quotas.close()


def test_reassignment_is_throttled_listed_and_cancelled(cluster: Lab, topic: str) -> None:
    target = {(topic, 0): [1, 3]}
    # The tool of this version, with the brokers of this version.
    reassign_partitions(
        cluster.node_artifacts, cluster.bootstrap_servers, target, "--execute", "--throttle", str(SLOW_BYTES_PER_S)
    )
    with ReassignmentClient(cluster.kafka_settings(), "compat") as client:
        (move,) = client.reassignments()
        assert (move.topic, move.partition, move.adding, move.removing) == (topic, 0, (3,), (2,))
        wait_for_metadata(cluster)
        lists = client.topic_configs([topic], LIST_KEYS.values())[topic]
        assert set(lists[LIST_KEYS[Side.LEADER]].split(",")) == {"0:1", "0:2"}
        assert lists[LIST_KEYS[Side.FOLLOWER]] == "0:3"

        def throttled() -> float:
            samples = read_samples(cluster.jmx_urls()[3], 10.0)
            return max((s.value for s in samples if s.name == Metric.FOLLOWER_THROTTLED), default=0.0)

        until(lambda: throttled() > 0, 30, "the throttled byte rate of the new replica")
        sizes = client.log_sizes([1, 3], [(topic, 0)])
        assert not any(isinstance(one, ClusterError) for one in sizes.values()), sizes
        assert sizes[3][(topic, 0)] < sizes[1][(topic, 0)]  # type: ignore[index]  # both are sizes, as asserted above
        assert client.alter_reassignments({(topic, 0): None}, allow_replication_factor_change=True) == {
            (topic, 0): None
        }
        until(lambda: not client.reassignments(), 20, "the move is rolled back")
        wait_for_metadata(cluster)
        assert {s.partition: s.replicas for s in client.partitions([topic])}[0] == (1, 2)
        assert client.alter_reassignments({(topic, 1): [2, 3]}, allow_replication_factor_change=True) == {
            (topic, 1): None
        }
        until(lambda: not client.reassignments(), 60, "an unlisted move ends without a throttle")
        assert client.elect_preferred([(topic, 1)]) == {(topic, 1): None}
        assert all(client.disks(BROKERS).values()), "brokers report the sizes of their volumes"
    reassign_partitions(cluster.node_artifacts, cluster.bootstrap_servers, target, "--cancel")
    with DefaultConfigClient(cluster.kafka_settings(), "compat") as client:
        until(lambda: own_rates(client) == {b: {} for b in BROKERS}, VISIBLE_S_MAX, "the tool removes its rates")
        wait_for_metadata(cluster)
        assert client.topic_configs([topic], LIST_KEYS.values()) == {}


def copy_to_other_directory(cluster: Lab, topic: str) -> None:
    """Moves broker 1's replica to its other log directory."""
    folders = cluster.nodes[1].log_dirs
    until(lambda: any((folder / f"{topic}-0").exists() for folder in folders), 10, "the replica is there")
    (other,) = [folder for folder in folders if not (folder / f"{topic}-0").exists()]
    with cluster.admin() as admin:
        admin.alter_replica_log_dirs({(topic, 0, 1): str(other)})


def test_metrics_that_signals_need_have_values(
    cluster: Lab, client: DefaultConfigClient, topic: str, version: str
) -> None:
    """The tests above have caused each event that a metric counts."""
    needed = {
        name for name in vars(Metric).values() if isinstance(name, str) and name.startswith("kafka_")
    } - NEVER_A_NUMBER
    absent = {Metric.CONTROLLER_IDLE} if minor_version(version) < IDLE_RATIO_FROM else set()
    rates = {1: {LEADER_KEY: str(RATE)}}
    assert client.alter_broker_configs(rates) == {1: None}
    quotas = QuotaClient(cluster.kafka_settings(), "compat")
    try:
        assert not any(quotas.alter_mutation_quotas({QuotaEntity(Default.DEFAULT): 1e6}).values())
        client.create_topics([TopicCreation("counted", 1, 3, {})])
        copy_to_other_directory(cluster, "counted")

        def missing() -> set[str]:
            samples = [sample for url in cluster.jmx_urls().values() for sample in read_samples(url, 10.0)]
            return needed - {sample.name for sample in samples if math.isfinite(sample.value)}

        until(lambda: missing() == absent, 20, lambda: f"without a value: {sorted(missing() ^ absent)}", every_s=1.0)
    finally:
        assert not any(quotas.alter_mutation_quotas({QuotaEntity(Default.DEFAULT): None}).values())
        quotas.close()
        assert client.alter_broker_configs({1: {LEADER_KEY: None}}) == {1: None}


def test_journal_only_newest_writer_writes(cluster: Lab, client: DefaultConfigClient) -> None:
    topics, settings = Topics.with_prefix("compat"), cluster.kafka_settings()
    assert ensure_topics(client, topics) == []
    old, new = (
        KafkaJournal(
            producer(settings, f"compat-{name}", linger_ms=0, **transactional_settings("compat")),
            topics.journal, "compat", holder=name, fenced=True,
        )
        for name in ("old", "new")
    )  # fmt: skip
    entry = Entry(1, "decision", "hold", "watching", "well")
    owned = {(1, Side.LEADER): OwnedRate(None, 5, (5,))}
    try:
        old.take_over()
        old.write([entry], memory=Memory(throttled=True), owned=owned)
        new.take_over()
        with pytest.raises(JournalLost):
            old.write([entry], memory=Memory())
        reader = consumer(settings, "compat-recovery", isolation_level="read_committed")
        try:
            assert new.recover(reader) == Memory(throttled=True, owned=owned)
        finally:
            reader.close(timeout_ms=2000)
    finally:
        old.close()
        new.close()


def test_doctor_names_version_and_each_missing_right(cluster: Lab, topic: str, tmp_path: Path, version: str) -> None:
    def findings(**env: str) -> dict[str, dict[str, str]]:
        done = rheostat("doctor", "--config", config, "--create", "--json", env=env)
        return {one["check"]: one for one in json.loads(done.stdout)}

    config = tmp_path / "rheostat.yaml"
    config.write_text(lab_config(cluster))
    with_all_rights = findings()
    assert [one for one in with_all_rights.values() if one["verdict"] == "failed"] == []
    told = with_all_rights["kafka version"]
    assert told["found"].startswith(f"brokers 1, 2, 3 run Kafka {version.rpartition('.')[0]} (metadata.version ")
    assert ("idle ratio" in told["found"]) == (minor_version(version) < IDLE_RATIO_FROM)

    without = findings(
        RHEOSTAT_KAFKA__BOOTSTRAP_SERVERS=cluster.sasl_bootstrap_servers,
        RHEOSTAT_KAFKA__SECURITY_PROTOCOL="SASL_PLAINTEXT", RHEOSTAT_KAFKA__SASL_MECHANISM="PLAIN",
        RHEOSTAT_KAFKA__SASL_USERNAME=STRANGER, RHEOSTAT_KAFKA__SASL_PASSWORD="pw",
    )  # fmt: skip
    named = {check for check, one in without.items() if one["verdict"] == "failed" and "missing right" in one["found"]}
    assert {
        "right: Describe on Cluster",
        "right: DescribeConfigs on Cluster",
        "right: AlterConfigs on Cluster",
    } <= named
    assert without["kafka version"]["found"] == told["found"], "the version needs no right"
