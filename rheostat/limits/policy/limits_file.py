"""Renders the limits file, which the policy on the controllers reads (Limits.java). Does no I/O."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.core.partition_limits import INTERNAL_TOPICS, PartitionCounts, PartitionLimits, limit_or_none

FORMAT = 1
USABLE_S_MAX = 3600  # The policy refuses a file that claims to be usable for longer.
_TITLE = "# Partition limits (KIP-578)"
_HEADER = (
    f"{_TITLE}, and the replicas that existed at counted.at.ms, for rheostat's CreateTopicPolicy.",
    "# `rheostat limits policy keep` replaces this file. Without the last line the policy does not use it.",
)


def render_limits_file(
    counts: PartitionCounts, open_brokers: Iterable[int], limits: PartitionLimits, counted_at_ms: int, usable_for_s: int
) -> str:
    """Returns the file's text, in the format of Java properties.

    Args:
        counts: replicas by broker, without internal topics.
        open_brokers: the brokers on which Kafka may place new replicas: they are alive and not cordoned.
        usable_for_s: the age up to which the policy uses the counts.
    """
    assert 0 < usable_for_s <= USABLE_S_MAX
    brokers = sorted(open_brokers)
    maxima = {
        "max.broker.partitions": limits.broker_partitions_max,
        "max.partitions": limits.partitions_max,
        **{f"max.broker.partitions.{b}": limits.by_broker[b] for b in brokers if b in limits.by_broker},
    }
    values: dict[str, object] = {
        "format": FORMAT,
        "counted.at.ms": counted_at_ms,
        "usable.for.s": usable_for_s,
        **{key: limit for key, limit in maxima.items() if limit_or_none(limit) is not None},
        "exempt.topics": ",".join(sorted(INTERNAL_TOPICS)),
        "partitions": counts.total,
        **{f"partitions.{b}": counts.on_broker(b) for b in brokers},
        "complete": "true",
    }
    return "".join(f"{line}\n" for line in (*_HEADER, *(f"{key}={value}" for key, value in values.items())))


def is_limits_file(content: bytes) -> bool:
    """Returns whether a file may be replaced by a limits file: it is a limits file of any version, or empty after a crash.

    Args:
        content: the beginning of the file.
    """
    return not content.strip(b"\0\n") or content.startswith(_TITLE.encode())
