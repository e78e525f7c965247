"""`rheostat limits create` and `grow`: Kafka's refusals, and limits exceeded in a race."""

from __future__ import annotations

import pytest

from rheostat.errors import BadInputError, CommandError
from rheostat.limits import grow
from rheostat.limits.create import refusal_error
from rheostat.limits.outcome import find_exceeded_limits
from rheostat.limits.overrides import parse_topic_configs
from streaming.shared.kafka.placed_topics import TopicRefusal
from tuner.core.partition_limits import PartitionCounts, PartitionLimits


def test_topic_configs_may_have_equals_sign_or_no_value() -> None:
    assert parse_topic_configs(["a=b=c", "d="]) == {"a": "b=c", "d": ""}


@pytest.mark.parametrize(
    ("code", "text", "kind", "message"),
    [
        (
            40, "INVALID_CONFIG: Unknown topic config name: colour", BadInputError,
            "--topic-config: Kafka refuses it: INVALID_CONFIG: Unknown topic config name: colour",
        ),
        (
            17, "INVALID_TOPIC: Topic 'a.b' collides with existing topics: a_b", BadInputError,
            "--topic: Kafka refuses it: INVALID_TOPIC: Topic 'a.b' collides with existing topics: a_b",
        ),
        (
            89, "THROTTLING_QUOTA_EXCEEDED: The throttling quota has been exceeded.; try again in 3.5 s", CommandError,
            "Kafka did not create the topic: THROTTLING_QUOTA_EXCEEDED: The throttling quota has been exceeded.; try again in 3.5 s. "
            "Nothing was changed.",
        ),
    ],
)  # fmt: skip
def test_refusal_caused_by_an_option_is_bad_input(code: int, text: str, kind: type[CommandError], message: str) -> None:
    error = refusal_error(TopicRefusal(code, text))
    assert (type(error), str(error)) == (kind, message)
    assert error.exit_code == (2 if kind is BadInputError else 1)


PLACEMENT = ((1, 2), (2, 1))  # Before it the brokers had 8, 6 and 9 partitions.


@pytest.mark.parametrize(
    ("after", "limits", "violations"),
    [
        ({1: 10, 2: 8, 3: 9}, PartitionLimits(10, 30), []),
        ({1: 10, 2: 8, 3: 12}, PartitionLimits(10), []),  # Broker 3 gets none of the new replicas.
        ({1: 11, 2: 8, 3: 9}, PartitionLimits(10, 30), ["broker 1 has 11 partitions, and the limit is 10, because other topics"]),
        (
            {1: 11, 2: 10, 3: 10}, PartitionLimits(10, 30),
            ["broker 1 has 11 partitions, and the limit is 10, because other topics", "the cluster has 31 partitions, and the limit is 30"],
        ),
    ],
)  # fmt: skip
def test_find_exceeded_limits_names_only_limits_lost_in_a_race(
    after: dict[int, int], limits: PartitionLimits, violations: list[str]
) -> None:
    texts = find_exceeded_limits(PLACEMENT, PartitionCounts(after), limits)
    assert len(texts) == len(violations)
    for text, violation in zip(texts, violations, strict=True):
        assert text.startswith(f"POLICY_VIOLATION: {violation}")


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (4, "Kafka did not add partitions to topic orders: INVALID_REQUEST: a test. Nothing was changed."),
        (7, "Another client changed topic orders from 4 to 7 partitions at the same time, so Kafka refused this request: nothing was changed."),
    ],
)  # fmt: skip
def test_refused_growth_names_another_client_only_after_its_change(now: int, message: str) -> None:
    error = grow.refusal_error("orders", TopicRefusal(42, "INVALID_REQUEST: a test"), 4, now)
    assert str(error).startswith(message)
    assert error.exit_code == 1
