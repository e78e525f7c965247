"""The text of the limits file; PolicyCalls in tests/integration reads it with the policy's own parser."""

from __future__ import annotations

import pytest

from rheostat.limits.policy.limits_file import USABLE_S_MAX, render_limits_file
from tuner.core.partition_limits import UNLIMITED, PartitionCounts, PartitionLimits

COUNTS = PartitionCounts({3: 9, 1: 8, 2: 6, 4: 5})  # Broker 4 is down.


def values_of(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))


def test_limits_file_counts_brokers_that_are_down_for_the_cluster_only() -> None:
    text = render_limits_file(COUNTS, [2, 1, 3], PartitionLimits(10, 30, {2: 7, 4: 1}), 1_700_000_000_000, 300)
    assert values_of(text) == {
        "format": "1",
        "counted.at.ms": "1700000000000",
        "usable.for.s": "300",
        "max.broker.partitions": "10",
        "max.partitions": "30",
        "max.broker.partitions.2": "7",
        "exempt.topics": "__consumer_offsets,__share_group_state,__transaction_state",
        "partitions": "28",
        "partitions.1": "8",
        "partitions.2": "6",
        "partitions.3": "9",
        "complete": "true",
    }
    assert text.endswith("complete=true\n")


def test_limits_file_leaves_out_limits_that_are_not_set() -> None:
    values = values_of(
        render_limits_file(COUNTS, [1], PartitionLimits(partitions_max=30, by_broker={1: UNLIMITED}), 0, 300)
    )
    assert [key for key in values if key.startswith("max.")] == ["max.partitions"]


@pytest.mark.parametrize("usable_for_s", [0, USABLE_S_MAX + 1])
def test_limits_file_is_never_usable_for_hours(usable_for_s: int) -> None:
    with pytest.raises(AssertionError):
        render_limits_file(COUNTS, [1], PartitionLimits(), 0, usable_for_s)
