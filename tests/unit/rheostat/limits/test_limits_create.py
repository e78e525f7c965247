"""`rheostat limits create`: what is refused before a cluster is asked, what Kafka refuses, and a race that was lost."""

from __future__ import annotations

import pytest
from command_rig import Command

from rheostat.errors import BadInputError, CommandError
from rheostat.limits.create import filled_meanwhile, refused
from rheostat.limits.overrides import parse_topic_configs
from streaming.shared.kafka.placed_topics import TopicRefusal
from tuner.core.partition_limits import PartitionCounts, PartitionLimits

said = Command("limits").refused

CREATE = ["create", "-c", "none.yaml", "--topic", "a"]
WHOLE = [*CREATE, "--partitions", "3", "--replication", "2"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (CREATE, "--partitions"),
        ([*CREATE, "--partitions", "3"], "--replication"),
        ([*CREATE, "--partitions", "0", "--replication", "1"], "--partitions"),
        ([*WHOLE, "--topic", "a b"], "--topic: expected 1 to 249 letters, digits"),
        ([*WHOLE, "--preset", "huge"], "--preset: expected one of kafka"),
        ([*WHOLE, "--topic-config", "retention.ms"], "--topic-config: expected KEY=VALUE such as retention.ms=86400000"),
        ([*WHOLE, "--topic-config", "=5"], "--topic-config: expected KEY=VALUE"),
        ([*WHOLE, "--topic-config", "a=1", "--topic-config", "a=2"], "--topic-config: a is given twice"),
        (WHOLE, "none.yaml: cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(arguments: list[str], named: str) -> None:
    assert named in " ".join(said(*arguments).replace("│", " ").split())


def test_settings_of_the_topic_may_hold_an_equals_sign_or_nothing() -> None:
    assert parse_topic_configs(["a=b=c", "d="]) == {"a": "b=c", "d": ""}


def test_what_kafka_refuses_is_a_fault_of_what_was_given_or_of_the_moment() -> None:
    wrong = refused(TopicRefusal(40, "INVALID_CONFIG: Unknown topic config name: colour"))
    assert isinstance(wrong, BadInputError)
    assert str(wrong) == "--topic-config: Kafka refuses it: INVALID_CONFIG: Unknown topic config name: colour"
    assert isinstance(
        refused(TopicRefusal(17, "INVALID_TOPIC: Topic 'a.b' collides with existing topics: a_b")), BadInputError
    )
    held = refused(
        TopicRefusal(89, "THROTTLING_QUOTA_EXCEEDED: The throttling quota has been exceeded.; try again in 3.5 s")
    )
    assert (type(held), held.exit_code) == (CommandError, 1)
    assert "try again in 3.5 s. Nothing was changed." in str(held)


# -- a race ----------------------------------------------------------------------------------------------------------------

PLACED = ((1, 2), (2, 1))  # Where 8, 6 and 9 were.
TEN = PartitionLimits(10, 30)


def test_what_was_counted_with_stands_and_nobody_was_faster() -> None:
    assert filled_meanwhile(PLACED, PartitionCounts({1: 10, 2: 8, 3: 9}), TEN) == []


def test_whoever_took_the_same_room_is_told_with_both_numbers() -> None:
    (broker,) = filled_meanwhile(PLACED, PartitionCounts({1: 11, 2: 8, 3: 9}), TEN)
    assert broker.startswith("POLICY_VIOLATION in a race: broker 1 has 11 partitions of 10, as others were created")
    _, cluster = filled_meanwhile(PLACED, PartitionCounts({1: 11, 2: 10, 3: 10}), TEN)
    assert cluster.startswith("POLICY_VIOLATION in a race: the cluster has 31 partitions of 30")


def test_an_old_excess_elsewhere_is_not_ours_to_tell() -> None:
    assert filled_meanwhile(PLACED, PartitionCounts({1: 10, 2: 8, 3: 12}), PartitionLimits(10)) == []
