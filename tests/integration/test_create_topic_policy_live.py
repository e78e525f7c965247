"""The CreateTopicPolicy on real controllers, with Kafka's own kafka-topics: the examples of KIP-578, and `rheostat limits grow`."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka.errors import KafkaTimeoutError
from lab_parts import RHEOSTAT, rheostat, running, until, wait_for_metadata
from policy_kit import READ_S_MAX, config_with_limits, count, create, figures, fill, kafka_topics, policy_lab

from rheostat.lab.cluster import Lab
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient

CHECK_MICROS_MAX = 1_000


@pytest.fixture
def limits_file(tmp_path: Path) -> Path:
    return tmp_path / "limits.properties"


@pytest.fixture(params=[pytest.param("3.9", marks=pytest.mark.campaign), "4.4"])
def old_or_new_lab(request: pytest.FixtureRequest, limits_file: Path) -> Iterator[Lab]:
    with policy_lab(limits_file, request.param) as running_lab:
        yield running_lab


@pytest.fixture
def lab(limits_file: Path) -> Iterator[Lab]:
    with policy_lab(limits_file, settings={"auto.create.topics.enable": "true"}) as running_lab:
        yield running_lab


def test_policy_refuses_and_allows_the_examples_of_kip_578(
    old_or_new_lab: Lab, limits_file: Path, tmp_path: Path
) -> None:
    lab = old_or_new_lab
    fill(lab)  # The brokers host 8, 6 and 9 partitions, and there is no limits file yet.
    assert figures(lab)["allowedunchecked_total"] == 4
    config = config_with_limits(lab, tmp_path, max_broker_partitions=10)
    count(lab, config, limits_file)

    # "… if the original request … was actually a request for a topic with 2 partitions … failed in entirety."
    refusal = create(lab, "two", 2, 3)
    assert refusal is not None
    assert "PolicyViolationException" in refusal
    assert (
        "2 partitions of topic two with replication factor 3 need room for 6 replicas within max.broker.partitions=10"
        in refusal
    )
    assert (
        "max.partitions=unlimited. The brokers can take 5, one of each partition at most (1: 8 of 10, 2: 6 of 10, 3: 9 of 10)"
        in refusal
    )
    # "… a request to create a new topic with 1 partition and a replication factor 3 can be satisfied"
    assert create(lab, "first", 1, 3) is None
    # "… the next topic creation request … will fail because broker 3 has already reached the limit": before the next count, and after it.
    refusal = create(lab, "second", 1, 3)
    assert refusal is not None
    assert "topics with 3 were allowed since" in refusal
    await_refusal(
        lab,
        config,
        limits_file,
        "second",
        3,
        "The brokers can take 2, one of each partition at most (1: 9 of 10, 2: 7 of 10, 3: 10 of 10)",
    )
    # "A similar request with a replication factor of 2 can however, succeed"
    assert create(lab, "third", 1, 2) is None

    # The limit of the cluster alone: 28 partitions exist now.
    config_with_limits(lab, tmp_path, max_partitions=29)
    await_refusal(
        lab,
        config,
        limits_file,
        "fourth",
        2,
        "max.broker.partitions=unlimited and max.partitions=29",
        "the cluster can take 1 (28 of 29)",
    )
    assert create(lab, "fifth", 1, 1) is None
    assert create(lab, "__transaction_state", 4, 3) is None  # Internal topics are exempt.
    result = figures(lab)
    assert result["refused_total"] >= 4
    assert (result["allowed_total"], result["allowedunchecked_total"], result["limitsusable"]) == (4, 4, 1)
    # A mean of some ten checks, of which the first loads classes; test_create_topic_policy.py measures the bound.
    assert 0 < result["checkmicrosmean"] < 50 * CHECK_MICROS_MAX


def await_refusal(lab: Lab, config: Path, limits_file: Path, topic: str, replication: int, *texts: str) -> None:
    """Counts and asks again until the count is younger than the topics that were allowed before."""

    def is_refused() -> bool:
        count(lab, config, limits_file)
        refusal = create(lab, topic, 1, replication)
        assert refusal is not None
        return all(text in refusal for text in texts)

    until(is_refused, 60, f"topic {topic} is refused with {texts}")


@pytest.mark.campaign
def test_keeper_lets_the_policy_fail_open_when_it_is_away(lab: Lab, limits_file: Path, tmp_path: Path) -> None:
    config = config_with_limits(lab, tmp_path, max_broker_partitions=0)
    log = tmp_path / "keep.log"
    with running(
        *RHEOSTAT, "limits", "policy", "keep", limits_file, "--config", config, "--every", "5s", log=log
    ) as keeper:
        until(lambda: figures(lab).get("limitsusable") == 1, READ_S_MAX + 10, "the policy uses the file")
        assert create(lab, "refused", 1, 1) is not None
        assert kafka_topics(lab, "--create", "--topic", "with-defaults").returncode != 0
        sender = producer(lab.kafka_settings(), "test", max_block_ms=3_000)
        with pytest.raises(KafkaTimeoutError), closing(sender):
            sender.send("automatic", b"a broker would create the topic").get(timeout=5)
        assert figures(lab)["refused_total"] >= 3
        first = limits_file.read_text()
        until(lambda: limits_file.read_text() != first, 20, "the keeper counts again")
        # The keeper reads its settings again. A fault in them keeps the last file.
        config.write_text(config.read_text().replace('_partitions": 0', '_partitions": "many"'))
        until(lambda: "The limits file was not replaced" in keeper.said(), 20, "the keeper names the fault")
        config.write_text(config.read_text().replace('_partitions": "many"', '_partitions": 5'))
        until(lambda: "max.broker.partitions=5" in limits_file.read_text(), 20, "the keeper uses the new limit")
        assert keeper.end(signal.SIGTERM) == 0
    # rheostat has been away for hours.
    old = re.sub(
        r"counted.at.ms=\d+", f"counted.at.ms={round(1000 * (time.time() - 4 * 3600))}", limits_file.read_text()
    )
    limits_file.write_text(old.replace("max.broker.partitions=5", "max.broker.partitions=0"))
    until(lambda: figures(lab)["limitsusable"] == 0, READ_S_MAX, "the policy sees that the counts are old")
    assert create(lab, "allowed", 1, 1) is None
    assert figures(lab)["allowedunchecked_total"] == 1


def test_growth_is_placed_within_limits_and_read_back(lab: Lab, limits_file: Path, tmp_path: Path) -> None:
    fill(lab)
    config = config_with_limits(lab, tmp_path, max_broker_partitions=10)
    done = rheostat("limits", "grow", "old-1", "--to", "12", "--config", config, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["grown"], result["read_back"], result["limits_exceeded"]) == (True, True, [])
    placed = {entry["partition"]: tuple(entry["replicas"]) for entry in result["plan"]["partitions"]}
    assert sorted(placed) == [8, 9, 10, 11]
    assert "Grown: topic old-1 from 8 to 12 partitions, replication factor 1; read back as placed above." in done.stderr
    assert "by the key of a record" in done.stderr
    with ClusterClient(lab.kafka_settings(), "test") as client:
        wait_for_metadata(lab)
        states = {s.partition: s.replicas for s in client.partitions(["old-1"])}
        assert {partition: states[partition] for partition in placed} == placed
    # 8 + 6 + 9 + 4 partitions exist, and 3 more fit.
    refused = rheostat("limits", "grow", "old-1", "--to", "16", "--config", config)
    assert refused.returncode == 1
    assert (
        "POLICY_VIOLATION: 4 partitions of topic old-1 with replication factor 1 need room for 4 replicas"
        in refused.stderr
    )
    for arguments, message in (
        (("absent", "--to", "3"), "TOPIC: absent does not exist, or this user may not describe it"),
        (("old-1", "--to", "12"), "--to: topic old-1 already has 12 partitions, and Kafka cannot remove partitions"),
        (("old-1", "--to", "0"), "--to"),
    ):
        bad = rheostat("limits", "grow", *arguments, "--config", config)
        assert bad.returncode == 2, bad.stderr
        assert message in bad.stderr
    # Kafka asks no policy about partitions that are added, so this client exceeds the limit.
    count(lab, config, limits_file)
    assert kafka_topics(lab, "--alter", "--topic", "old-2", "--partitions", "40").returncode == 0
    assert figures(lab)["refused_total"] == 0
