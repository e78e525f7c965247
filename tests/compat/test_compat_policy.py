"""The CreateTopicPolicy on controllers of each version of Kafka: the three examples of KIP-578 with Kafka's own kafka-topics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from policy_kit import config_with_limits, count, create, figures, fill, policy_lab

from rheostat.lab.cluster import Lab


@pytest.fixture
def limits_file(tmp_path: Path) -> Path:
    return tmp_path / "limits.properties"


@pytest.fixture
def lab(version: str, limits_file: Path) -> Iterator[Lab]:
    with policy_lab(limits_file, version) as running:
        yield running


def test_policy_refuses_and_allows_the_examples_of_kip_578(lab: Lab, limits_file: Path, tmp_path: Path) -> None:
    fill(lab)  # The brokers host 8, 6 and 9 partitions, and there is no limits file yet.
    assert figures(lab)["allowedunchecked_total"] == 4
    config = config_with_limits(lab, tmp_path, "{max_broker_partitions: 10}")
    count(lab, config, limits_file)

    # "… if the original request … was actually a request for a topic with 2 partitions … failed in entirety."
    refusal = create(lab, "two", 2, 3)
    assert refusal is not None
    assert "PolicyViolationException" in refusal
    assert "2 partitions of topic two with replication factor 3 need room for 6 replicas within max.broker.partitions=10" in refusal
    assert "max.partitions=unlimited. The brokers can take 5, one of each partition at most (1: 8 of 10, 2: 6 of 10, 3: 9 of 10)" in refusal
    # "… a request to create a new topic with 1 partition and a replication factor 3 can be satisfied"
    assert create(lab, "first", 1, 3) is None
    # "… the next topic creation request … will fail because broker 3 has already reached the limit": before the next count, and after it.
    refusal = create(lab, "second", 1, 3)
    assert refusal is not None
    assert "topics with 3 were allowed since" in refusal
    count(lab, config, limits_file)
    refusal = create(lab, "second", 1, 3)
    assert refusal is not None
    assert "The brokers can take 2, one of each partition at most (1: 9 of 10, 2: 7 of 10, 3: 10 of 10)" in refusal
    # "A similar request with a replication factor of 2 can however, succeed"
    assert create(lab, "third", 1, 2) is None

    # The limit of the cluster alone: 28 partitions exist now.
    config_with_limits(lab, tmp_path, "{max_partitions: 29}")
    count(lab, config, limits_file)
    refusal = create(lab, "fourth", 1, 2)
    assert refusal is not None
    assert "max.broker.partitions=unlimited and max.partitions=29" in refusal
    assert "the cluster can take 1 (28 of 29)" in refusal
    assert create(lab, "fifth", 1, 1) is None
    assert create(lab, "__transaction_state", 4, 3) is None  # Internal topics are exempt.
    result = figures(lab)
    assert (result["refused_total"], result["allowed_total"], result["limitsusable"]) == (4, 4, 1)
