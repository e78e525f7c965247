"""Converts response messages into values. It checks error codes, because an empty response may mean a missing right. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import kafka.errors

from streaming.shared import kafka_names
from streaming.shared.contract import TopicPartition
from streaming.shared.kafka.values import (
    Append,
    Change,
    ClusterError,
    ConfigValue,
    GroupMember,
    InvalidConfig,
    MissingPermission,
    Subtract,
)
from streaming.shared.log_dirs import LogDirCopy

T = TypeVar("T")


AUTHORIZATION_ERRORS = {
    kafka_names.ERROR_TOPIC_AUTHORIZATION_FAILED: "Topic",
    kafka_names.ERROR_CLUSTER_AUTHORIZATION_FAILED: "Cluster",
    kafka_names.ERROR_GROUP_AUTHORIZATION_FAILED: "Group",
    kafka_names.ERROR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalId",
}

# The controller may have applied a request with one of these errors.
OUTCOME_UNKNOWN_ERRORS = (kafka_names.ERROR_REQUEST_TIMED_OUT, kafka_names.ERROR_NOT_CONTROLLER)


def read_or_error(answer: Any, read: Callable[[Any], T]) -> T | ClusterError:
    """Returns ``read(answer)``. Returns the error if the answer is a ``ClusterError`` or ``read`` raises one."""
    if isinstance(answer, ClusterError):
        return answer
    try:
        return read(answer)
    except ClusterError as error:
        return error


def error_for_code(code: int, message: str | None, right: str, call: str) -> ClusterError | None:
    """Returns the error for a Kafka error code; None for success.

    Args:
        message: Kafka's own message.
        right: the right to name if the code is an authorization error.
        call: the refused call, as in "Kafka refused to list partitions".
    """
    if code == kafka_names.ERROR_NONE:
        return None
    if code in AUTHORIZATION_ERRORS:
        return MissingPermission(right, call)
    kind = InvalidConfig if code == kafka_names.ERROR_INVALID_CONFIG else ClusterError
    return kind(f"Kafka refused {call}: error {code} {kafka.errors.for_code(code).__name__} {message or ''}".strip())


def raise_for_code(code: int, right: str, call: str) -> None:
    error = error_for_code(code, None, right, call)
    if error is not None:
        raise error


def read_log_sizes(answer: Any) -> dict[TopicPartition, int]:
    """Returns bytes on disk by partition, from a DescribeLogDirs response."""
    if not answer.results:
        # The response as a whole has no error code: without the right, Kafka returns no directories.
        raise MissingPermission("Describe on Cluster", "to describe log dirs")
    sizes: dict[TopicPartition, int] = {}
    for directory in answer.results:
        if directory.error_code in AUTHORIZATION_ERRORS:
            raise_for_code(directory.error_code, "Describe on Cluster", "to describe log dirs")
        if directory.error_code != kafka_names.ERROR_NONE:
            continue  # A failed disk; the other directories still count.
        for topic in directory.topics:
            for p in topic.partitions:
                if not p.is_future_key:  # A future log is a copy that moves between two disks of the broker.
                    sizes[(str(topic.name), int(p.partition_index))] = int(p.partition_size)
    return sizes


def read_log_dir_copies(answer: Any) -> tuple[LogDirCopy, ...]:
    """Returns the partitions that the broker copies between two of its log directories, from a DescribeLogDirs response."""
    copied = [
        (str(topic.name), int(p.partition_index), int(p.partition_size), str(directory.log_dir))
        for directory in answer.results
        if directory.error_code == kafka_names.ERROR_NONE  # The others are failed disks.
        for topic in directory.topics
        for p in topic.partitions
        if p.is_future_key
    ]
    sizes = read_log_sizes(answer)
    return tuple(
        LogDirCopy(topic, partition, size_bytes=sizes.get((topic, partition), 0), copied_bytes=size, directory=path)
        for topic, partition, size, path in sorted(copied)
    )


def read_offsets(answer: Any) -> dict[TopicPartition, int]:
    """Returns offsets by partition, from a ListOffsets response; absent: the broker reports an error, or no offset (−1)."""
    return {
        (str(topic.name), int(p.partition_index)): int(p.offset)
        for topic in answer.topics
        for p in topic.partitions
        if p.error_code == kafka_names.ERROR_NONE and p.offset >= 0
    }


def read_configs(answer: Any, right: str) -> dict[str, dict[str, ConfigValue]]:
    """Returns the non-default settings by resource name; unknown topics are absent.

    Raises:
        ClusterError: Kafka refused one of the resources.
    """
    configs: dict[str, dict[str, ConfigValue]] = {}
    for result in answer.results:
        if result.error_code == kafka_names.ERROR_UNKNOWN_TOPIC_OR_PARTITION:
            continue
        # One request covers hundreds of topics; the message names the refused one.
        call = f"to describe the configs of {result.resource_name!r}"
        error = error_for_code(result.error_code, result.error_message, right, call)
        if error is not None:
            raise error
        configs[str(result.resource_name)] = {
            str(c.name): ConfigValue(str(c.value), int(c.config_source))
            for c in result.configs
            if c.value is not None and c.config_source != kafka_names.SOURCE_DEFAULT
        }
    return configs


def read_group_member(member: Mapping[str, Any]) -> GroupMember:
    """Returns a member of a consumer group, from kafka-python's description. During a rebalance it has no metadata yet."""
    subscription, assignment = member["member_metadata"] or {}, member["member_assignment"] or {}
    return GroupMember(
        client_id=str(member["client_id"]),
        address=str(member["client_host"]).removeprefix("/"),
        topics=frozenset(subscription.get("topics", ())),
        assigned_topics=frozenset(p["topic"] for p in assignment.get("assigned_partitions", ()) if p["partitions"]),
    )


def alter_operations(configs: Mapping[str, Change]) -> list[tuple[str, int, str | None]]:
    """Returns (setting, operation code, value) for an IncrementalAlterConfigs request."""
    return [(key, *_operation(change)) for key, change in configs.items()]


def _operation(change: Change) -> tuple[int, str | None]:
    match change:
        case None:
            return kafka_names.OP_DELETE, None
        case Append(entries=entries):
            return kafka_names.OP_APPEND, entries
        case Subtract(entries=entries):
            return kafka_names.OP_SUBTRACT, entries
        case value:
            return kafka_names.OP_SET, value


def read_alter_result(answer: Any, right: str) -> ClusterError | None:
    """Returns the first error of an IncrementalAlterConfigs response of a broker's configs; None for success."""
    if isinstance(answer, ClusterError):
        return answer
    for r in answer.responses:
        error = error_for_code(r.error_code, r.error_message, right, "to alter broker configs")
        if error is not None:
            return error
    return None
