"""The admin calls that rheostat makes, with typed values and typed errors. cluster_connection.py sends the requests.

Invariant: a response that is empty because a right is missing is reported as a missing right. kafka-python passes it on as
"nothing there" (``describe_configs`` returns ``{}``, ``describe_log_dirs`` ``[]``), so this module reads the error codes itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import kafka.errors
from kafka.admin import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    NewTopic,
    ResourceType,
)
from kafka.protocol.admin import (
    DescribeAclsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest

from streaming.shared import kafka_names
from streaming.shared.contract import TopicPartition
from streaming.shared.kafka.answers import (
    alter_operations,
    error_for_code,
    raise_for_code,
    read_alter_result,
    read_configs,
    read_group_member,
    read_log_dir_copies,
    read_log_sizes,
    read_offsets,
    read_or_error,
)
from streaming.shared.kafka.cluster_connection import ClusterConnection
from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.kafka.values import (
    Append,
    Change,
    ClusterError,
    ConfigValue,
    Endpoint,
    GroupMember,
    MissingPermission,
    PartitionState,
    Subtract,
    TopicCreation,
    Unreachable,
)
from streaming.shared.kafka.versions import BrokerVersion, read_broker_version
from streaming.shared.log_dirs import LogDirCopy

# Resource name of the cluster-wide default of broker settings, for which kafka-python has no method.
CLUSTER_DEFAULT = ""
# Values of ``timestamp`` in a ListOffsets request: the log end offset, the first offset on the broker's own disks, and the first
# offset that is not in the remote storage yet.
_LATEST = -1
_EARLIEST_LOCAL = -4
_EARLIEST_PENDING_UPLOAD = -6
# By special timestamp: the first version of the request that knows it. An earlier version would treat the value as a time.
_FIRST_VERSIONS = {_LATEST: 0, _EARLIEST_LOCAL: 8, _EARLIEST_PENDING_UPLOAD: 11}
# Values of ``replica_id`` in a ListOffsets request: Kafka returns the high watermark to a consumer, and the leader's log end offset
# to a debugging client.
_CONSUMER = -1
_DEBUGGER = -2

__all__ = [
    "Append",
    "ClusterClient",
    "ClusterError",
    "ConfigValue",
    "Endpoint",
    "GroupMember",
    "MissingPermission",
    "PartitionState",
    "Subtract",
    "Unreachable",
]


class ClusterClient:
    """An admin connection to a cluster. Not thread-safe: each control loop has its own."""

    def __init__(self, settings: KafkaSettings, client_id: str) -> None:
        self._connection = ClusterConnection(settings, client_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    # -- state of the cluster -----------------------------------------------------------------------------------------

    def brokers(self) -> list[Endpoint]:
        """Returns the brokers that are alive and unfenced now."""
        # describe_cluster would include fenced brokers, which cannot serve replicas.
        answer = self._metadata()
        return [Endpoint(int(b.node_id), str(b.host), int(b.port)) for b in answer.brokers]

    def cluster_id(self) -> str | None:
        """Returns the id that Kafka has given the cluster, which does not depend on its addresses."""
        cluster_id: str | None = self._metadata().cluster_id
        return cluster_id

    def _metadata(self) -> Any:
        return self._connection.send_any(
            "describe the cluster", MetadataRequest(topics=[], allow_auto_topic_creation=False)
        )

    def broker_versions(self, brokers: Iterable[int]) -> dict[int, BrokerVersion | ClusterError]:
        """Returns the version data of each broker. All brokers are asked in parallel; no right is needed."""
        request = ApiVersionsRequest(client_software_name="rheostat", client_software_version="0")
        answers = self._connection.send_each("read the version", dict.fromkeys(set(brokers), request))
        return {broker: read_or_error(answer, read_broker_version) for broker, answer in answers.items()}

    def partitions(self, topics: Iterable[str] | None = None) -> list[PartitionState]:
        """Returns leader, replicas and ISR of the topics' partitions (None means all topics). Unknown topics are left out.

        Raises:
            MissingPermission: Describe on one of the named topics.
        """
        named = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=t) for t in sorted(set(topics))]
        if named == []:
            return []
        request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
        answer = self._connection.send_any("list partitions", request)
        states = []
        for topic in answer.topics:
            if topic.error_code == kafka_names.ERROR_TOPIC_AUTHORIZATION_FAILED:
                raise MissingPermission(f"Describe on Topic {topic.name}", "to list partitions")
            if topic.error_code != kafka_names.ERROR_NONE:
                continue  # The topic has been deleted.
            states += [
                PartitionState(
                    str(topic.name),
                    int(p.partition_index),
                    leader=int(p.leader_id),
                    replicas=tuple(p.replica_nodes),
                    isr=tuple(p.isr_nodes),
                    offline=tuple(p.offline_replicas or ()),
                )
                for p in topic.partitions
            ]
        return states

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Returns topic ids (KIP-516), which change when a topic is deleted and created again.

        Missing topics are absent, as are topics of brokers before 2.8, which have no ids.
        """
        named = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(set(topics))]
        if not named:
            return {}
        request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
        answer = self._connection.send_any("read topic ids", request)
        return {
            str(t.name): str(t.topic_id)
            for t in answer.topics
            if t.error_code == kafka_names.ERROR_NONE and _is_id(t.topic_id)
        }

    def missing_operations(self, topics: Iterable[str]) -> dict[str, list[str]]:
        """Returns which of Read and Write this client may not do, by topic; topics that allow both are absent."""
        named = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(set(topics))]
        request = MetadataRequest(
            topics=named,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            min_version=8,  # Earlier versions do not return authorized operations.
        )
        missing_by_topic = {
            str(topic.name): [
                name
                for name, code in kafka_names.OPERATIONS.items()
                if code not in {int(o) for o in topic.authorized_operations}
            ]
            for topic in self._connection.send_any("list rights on topics", request).topics
        }
        return {topic: missing for topic, missing in missing_by_topic.items() if missing}

    def writers(self, topic: str) -> set[str] | None:
        """Returns the principals that ACLs allow to write to the topic, as ``User:name``.

        Returns None if the cluster has no authorizer, because then every client may write. Kafka does not disclose superusers.

        Raises:
            MissingPermission: Describe on Cluster.
        """
        request = DescribeAclsRequest(
            resource_type_filter=ResourceType.TOPIC,
            resource_name_filter=topic,
            pattern_type_filter=ACLResourcePatternType.MATCH,
            principal_filter=None,
            host_filter=None,
            operation=ACLOperation.ANY,
            permission_type=ACLPermissionType.ANY,
        )
        answer = self._connection.send_any("describe ACLs", request)
        if answer.error_code == kafka_names.ERROR_SECURITY_DISABLED:
            return None
        raise_for_code(answer.error_code, "Describe on Cluster", "to describe ACLs")
        principals: dict[int, set[str]] = {ACLPermissionType.ALLOW: set(), ACLPermissionType.DENY: set()}
        for acl in (acl for resource in answer.resources for acl in resource.acls):
            if acl.operation in (ACLOperation.ALL, ACLOperation.WRITE) and acl.permission_type in principals:
                # A principal that is denied on one host may still write from other hosts.
                denies_one_host = acl.permission_type == ACLPermissionType.DENY and acl.host != "*"
                if not denies_one_host:
                    principals[acl.permission_type].add(str(acl.principal))
        return principals[ACLPermissionType.ALLOW] - principals[ACLPermissionType.DENY]

    def may_join(self, group: str) -> None:
        """Checks the right to join the group. FindCoordinator needs Describe only, so a client with Describe alone passes too.

        Raises:
            MissingPermission: Read on Group.
        """
        self._find_coordinator(
            group, kafka_names.COORDINATOR_OF_GROUP, right=f"Read on Group {group}", call="to join a group"
        )

    def may_transact(self, transactional_id: str) -> None:
        """Checks the right to write transactions. FindCoordinator needs Describe only, so a client with Describe alone passes too.

        Raises:
            MissingPermission: Write on TransactionalId.
        """
        right = f"Write on TransactionalId {transactional_id}"
        self._find_coordinator(
            transactional_id, kafka_names.COORDINATOR_OF_TRANSACTION, right=right, call="to write transactions"
        )

    def _find_coordinator(self, key: str, key_type: int, *, right: str, call: str) -> None:
        """Checks that Kafka lets this client find a coordinator. A refusal is reported as the missing ``right`` for ``call``."""
        answer = self._connection.send_any(
            "find a coordinator", FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        )
        # Only newer versions of the response have a list of coordinators.
        codes = [int(c.error_code) for c in answer.coordinators or ()] or [int(answer.error_code)]
        for code in codes:
            # A new cluster may still be creating the coordinator's topic.
            if code not in (kafka_names.ERROR_COORDINATOR_NOT_AVAILABLE, kafka_names.ERROR_NOT_COORDINATOR):
                raise_for_code(code, right, call)

    def group_members(self, group: str) -> int | None:
        """Returns the number of members of a consumer group; None if the right to describe the group is missing.

        Raises:
            ClusterError: as ``describe_members``.
        """
        members = self.describe_members(group)
        return None if members is None else len(members)

    def describe_members(self, group: str) -> list[GroupMember] | None:
        """Returns the members of a consumer group; None if the right to describe the group is missing.

        Raises:
            ClusterError: the group cannot be described for another reason, which may be temporary (a coordinator that is starting).
        """
        try:
            if not self.partitions([kafka_names.GROUPS_TOPIC]):
                return []  # The cluster has never had a group.
            description = self._connection.call("describe a group", lambda admin: admin.describe_groups([group])).get(
                group, {}
            )
        except MissingPermission:
            return None
        error = str(description.get("error") or "")
        if kafka.errors.GroupAuthorizationFailedError.__name__ in error:
            return None
        if error and kafka.errors.GroupIdNotFoundError.__name__ not in error:
            raise ClusterError(f"group {group} cannot be described: {error}")
        return [read_group_member(member) for member in description.get("members") or ()]

    def reassignments(self) -> list[PartitionState]:
        """Returns the partitions being reassigned, with leader and ISR from current metadata.

        Raises:
            MissingPermission: Describe on Cluster.
        """
        moving = self._list_reassignments()
        if not moving:
            return []
        known = {(s.topic, s.partition): s for s in self.partitions({topic for topic, _ in moving})}
        # A broker with stale metadata may not know the topic yet. The reassignment is still returned, with an unknown leader.
        unknown = PartitionState("", -1, leader=-1, replicas=(), isr=())
        states = []
        for (topic, partition), (replicas, adding, removing) in sorted(moving.items()):
            state = known.get((topic, partition), unknown)
            states.append(
                PartitionState(
                    topic,
                    partition,
                    leader=state.leader,
                    replicas=replicas,
                    isr=state.isr,
                    adding=adding,
                    removing=removing,
                )
            )
        return states

    def adding_replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Returns the replicas that each reassignment in progress adds.

        Raises:
            MissingPermission: Describe on Cluster.
        """
        return {key: adding for key, (_, adding, _) in self._list_reassignments().items()}

    def _list_reassignments(self) -> dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """Returns all, adding and removing replicas of the partitions being reassigned."""
        answer = self._connection.send_any(
            "list reassignments", ListPartitionReassignmentsRequest(timeout_ms=self._connection.timeout_ms, topics=None)
        )
        raise_for_code(answer.error_code, "Describe on Cluster", "to list reassignments")
        return {
            (str(t.name), int(p.partition_index)): (
                tuple(p.replicas),
                tuple(p.adding_replicas),
                tuple(p.removing_replicas),
            )
            for t in answer.topics
            for p in t.partitions
        }

    def log_sizes(
        self, brokers: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> dict[int, dict[TopicPartition, int] | ClusterError]:
        """Returns bytes on disk of the partitions, by broker. All brokers are asked in parallel."""
        return self._log_sizes(dict.fromkeys(brokers, _log_dirs_request(partitions)))

    def log_sizes_by_broker(
        self, partitions: Mapping[int, Iterable[TopicPartition]]
    ) -> dict[int, dict[TopicPartition, int] | ClusterError]:
        """Returns bytes on disk of each broker's partitions. All brokers are asked in parallel."""
        return self._log_sizes({broker: _log_dirs_request(hosted) for broker, hosted in partitions.items()})

    def _log_sizes(self, requests: Mapping[int, Any]) -> dict[int, dict[TopicPartition, int] | ClusterError]:
        """The response's ``offset_lag`` is not used, because Kafka reports 0 for every replica that is still catching up."""
        answers = self._connection.send_each("describe log dirs", requests)
        return {broker: read_or_error(answer, read_log_sizes) for broker, answer in answers.items()}

    def log_dir_copies(self, brokers: Iterable[int]) -> dict[int, tuple[LogDirCopy, ...] | ClusterError]:
        """Returns the copies between log directories of each broker (KIP-113). A broker's answer names all of its partitions."""
        answers = self._connection.send_each(
            "describe log dirs", {b: DescribeLogDirsRequest(topics=None) for b in set(brokers)}
        )
        return {broker: read_or_error(answer, read_log_dir_copies) for broker, answer in answers.items()}

    def end_offsets(self, partitions: Iterable[PartitionState]) -> dict[TopicPartition, int]:
        """Returns the high watermarks, from the leaders. Partitions whose leader does not answer are absent."""
        return self._offsets(partitions, _CONSUMER)

    def log_end_offsets(self, partitions: Iterable[PartitionState]) -> dict[TopicPartition, int]:
        """Returns the leaders' log end offsets. Partitions whose leader does not answer are absent."""
        return self._offsets(partitions, _DEBUGGER)

    def replica_end_offsets(
        self, replicas: Mapping[int, Iterable[TopicPartition]]
    ) -> dict[int, dict[TopicPartition, int] | ClusterError]:
        """Returns the log end offsets of each broker's replicas. A replica that does not exist yet is absent."""
        return self._offsets_by_broker(replicas, _DEBUGGER, _LATEST)

    def local_start_offsets(
        self, replicas: Mapping[int, Iterable[TopicPartition]]
    ) -> dict[int, dict[TopicPartition, int] | ClusterError]:
        """Returns the first offset that each broker's replicas have on its own disks, not in the remote storage (KIP-405)."""
        return self._offsets_by_broker(replicas, _DEBUGGER, _EARLIEST_LOCAL)

    def pending_upload_offsets(
        self, led: Mapping[int, Iterable[TopicPartition]]
    ) -> dict[int, dict[TopicPartition, int] | ClusterError]:
        """Returns the first offset that each leader has still to upload (KIP-1023); an error from brokers before Kafka 4.2."""
        return self._offsets_by_broker(led, _CONSUMER, _EARLIEST_PENDING_UPLOAD)

    def _offsets(self, partitions: Iterable[PartitionState], replica_id: int) -> dict[TopicPartition, int]:
        by_leader: dict[int, list[TopicPartition]] = {}
        for state in partitions:
            if state.leader >= 0:
                by_leader.setdefault(state.leader, []).append((state.topic, state.partition))
        offsets: dict[TopicPartition, int] = {}
        for answer in self._offsets_by_broker(by_leader, replica_id, _LATEST).values():
            if not isinstance(answer, ClusterError):
                offsets |= answer
        return offsets

    def _offsets_by_broker(
        self, replicas: Mapping[int, Iterable[TopicPartition]], replica_id: int, timestamp: int
    ) -> dict[int, dict[TopicPartition, int] | ClusterError]:
        topic_type = ListOffsetsRequest.ListOffsetsTopic
        partition_type = topic_type.ListOffsetsPartition
        requests = {}
        for broker, partitions in replicas.items():
            by_topic: dict[str, list[int]] = {}
            for topic, partition in partitions:
                by_topic.setdefault(topic, []).append(partition)
            requests[broker] = ListOffsetsRequest(
                replica_id=replica_id,
                isolation_level=0,
                topics=[
                    topic_type(
                        name=topic,
                        partitions=[partition_type(partition_index=p, timestamp=timestamp) for p in sorted(numbers)],
                    )
                    for topic, numbers in by_topic.items()
                ],
                min_version=_FIRST_VERSIONS[timestamp],
            )
        answers = self._connection.send_each("list offsets", requests)
        return {broker: read_or_error(answer, read_offsets) for broker, answer in answers.items()}

    # -- settings -----------------------------------------------------------------------------------------------------

    def broker_configs(
        self, brokers: Iterable[int], keys: Iterable[str]
    ) -> dict[int, dict[str, ConfigValue] | ClusterError]:
        """Returns the named settings of each broker with their source; settings at Kafka's default are absent."""
        names = list(keys)
        requests = {
            b: DescribeConfigsRequest(resources=[(kafka_names.RESOURCE_BROKER, str(b), names)], include_synonyms=False)
            for b in set(brokers)
        }
        answers = self._connection.send_each("describe broker configs", requests)
        configs = {broker: read_or_error(answer, _broker_configs) for broker, answer in answers.items()}
        return {
            broker: by_resource if isinstance(by_resource, ClusterError) else by_resource.get(str(broker), {})
            for broker, by_resource in configs.items()
        }

    def topic_configs(self, topics: Iterable[str], keys: Iterable[str]) -> dict[str, dict[str, str]]:
        """Returns the named settings that are set on the topics themselves; other topics are absent.

        Raises:
            MissingPermission: DescribeConfigs on Topic.
        """
        topic_level = {
            name: {key: c.value for key, c in configs.items() if c.source == kafka_names.SOURCE_TOPIC}
            for name, configs in self._topic_configs(topics, keys).items()
        }
        return {name: configs for name, configs in topic_level.items() if configs}

    def effective_topic_configs(self, topics: Iterable[str], keys: Iterable[str]) -> dict[str, dict[str, str]]:
        """Returns the named settings that apply to the topics, set on the topic or on the broker that answers.

        Settings at Kafka's default and deleted topics are absent.

        Raises:
            MissingPermission: DescribeConfigs on Topic.
        """
        by_topic = self._topic_configs(topics, keys)
        return {name: {key: c.value for key, c in configs.items()} for name, configs in by_topic.items()}

    def _topic_configs(self, topics: Iterable[str], keys: Iterable[str]) -> dict[str, dict[str, ConfigValue]]:
        names, settings = sorted(set(topics)), list(keys)
        if not names:
            return {}
        request = DescribeConfigsRequest(
            resources=[(kafka_names.RESOURCE_TOPIC, name, settings) for name in names], include_synonyms=False
        )
        return read_configs(self._connection.send_any("describe topic configs", request), "DescribeConfigs on Topic")

    def alter_broker_configs(
        self, changes: Mapping[int, Mapping[str, Change]], *, validate_only: bool = False
    ) -> dict[int, ClusterError | None]:
        """Sets (str) or deletes (None) the given settings of each broker; other settings stay. The brokers are asked in parallel.

        Returns errors by broker (None means success).

        Args:
            validate_only: Kafka checks rights and values and changes nothing.
        """
        requests = {
            broker: IncrementalAlterConfigsRequest(
                resources=[(kafka_names.RESOURCE_BROKER, str(broker), alter_operations(configs))],
                validate_only=validate_only,
            )
            for broker, configs in changes.items()
        }
        answers = self._connection.send_each("alter broker configs", requests)
        return {broker: read_alter_result(answer, "AlterConfigs on Cluster") for broker, answer in answers.items()}

    def default_config(self, key: str) -> str | None:
        """Returns the cluster-wide default as set at runtime; None if it is not set.

        Raises:
            MissingPermission: DescribeConfigs on Cluster.
        """
        request = DescribeConfigsRequest(
            resources=[(kafka_names.RESOURCE_BROKER, CLUSTER_DEFAULT, [key])], include_synonyms=False
        )
        answer = self._connection.send_any("describe the cluster's default configs", request)
        config = read_configs(answer, "DescribeConfigs on Cluster").get(CLUSTER_DEFAULT, {}).get(key)
        is_default = config is not None and config.source == kafka_names.SOURCE_DYNAMIC_DEFAULT_BROKER
        return config.value if config is not None and is_default else None

    def alter_topic_configs(
        self, changes: Mapping[str, Mapping[str, Change]], *, validate_only: bool = False
    ) -> dict[str, ClusterError | None]:
        """Alters topic settings like ``alter_broker_configs``, in one request.

        Changes may also append to or subtract from lists.
        """
        if not changes:
            return {}
        request = IncrementalAlterConfigsRequest(
            resources=[
                (kafka_names.RESOURCE_TOPIC, topic, alter_operations(configs)) for topic, configs in changes.items()
            ],
            validate_only=validate_only,
        )
        answer = self._connection.send_any("alter topic configs", request)
        return {
            str(r.resource_name): error_for_code(
                r.error_code, r.error_message, "AlterConfigs on Topic", "to alter topic configs"
            )
            for r in answer.responses
        }

    def create_topics(self, topics: Sequence[TopicCreation], *, validate_only: bool = False) -> None:
        """Creates the topics that do not exist, in one request. An error of one topic does not prevent the others.

        Args:
            validate_only: Kafka checks rights and values and creates nothing.

        Raises:
            MissingPermission: Create on Topic.
        """
        if not topics:
            return

        def create(admin: KafkaAdminClient) -> Any:
            new = [NewTopic(t.name, t.partitions, t.replication_factor, topic_configs=dict(t.configs)) for t in topics]
            return admin.create_topics(new, validate_only=validate_only, raise_errors=False)

        answer = self._connection.call(f"create the topics {', '.join(topic.name for topic in topics)}", create)
        for topic in answer["topics"]:
            code, name = topic["error_code"], topic["name"]
            if code != kafka_names.ERROR_TOPIC_ALREADY_EXISTS:
                raise_for_code(code, f"Create on Topic {name}", f"to create topic {name}")


def _log_dirs_request(partitions: Iterable[TopicPartition]) -> Any:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(set(partitions)):
        by_topic.setdefault(topic, []).append(partition)
    topic_type = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(
        topics=[topic_type(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
    )


def _broker_configs(answer: Any) -> dict[str, dict[str, ConfigValue]]:
    return read_configs(answer, "DescribeConfigs on Cluster")


def _is_id(topic_id: Any) -> bool:
    return isinstance(topic_id, UUID) and topic_id.int != 0
