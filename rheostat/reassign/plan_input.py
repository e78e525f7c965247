"""Reads a plan file and the cluster, and finds the partitions that the plan changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError, CommandError, UnreachableError
from rheostat.plan.cluster_layout import ClusterLayout, read_copy_bytes, read_layout, read_log_bytes
from rheostat.plan.estimate.sources import check_targets_exist, read_plan
from rheostat.plan.write_rates import NoSignalsError, measure_write_rates
from rheostat.run.services import probe
from streaming.shared import kafka_names
from streaming.shared.cordons import BrokerCordon
from streaming.shared.kafka.cluster import ClusterError, Unreachable
from streaming.shared.kafka.cordons import read_known_cordons
from streaming.shared.kafka.reassignments import Disk, ReassignmentClient
from streaming.shared.kafka.tiered import copies_that_cannot_begin, tiered_topics
from streaming.shared.kafka.versions import BrokerVersion
from streaming.shared.lease import lease_group
from tuner.core.reassignment_plan import OriginalTopic, PlanPartition, TopicPartition
from tuner.planning.plan_file import PlanFile, Target

CLIENT_ID = "rheostat-reassign"


@dataclass(frozen=True, slots=True)
class PlanClusterState:
    """The state of the cluster that the checks of a plan need."""

    layout: ClusterLayout
    size_bytes: Mapping[TopicPartition, int]  # Bytes that a new replica of each partition of the plan copies.
    disks: Mapping[int, tuple[Disk, ...]]  # Log directories of each broker that reports them.
    write_bytes_per_s: Mapping[TopicPartition, float]
    tuners: int | None  # Tuners that could execute the plan; None if not known.
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    min_in_sync: Mapping[str, int] = field(default_factory=dict)  # By topic of the plan; 1 for a topic that is missing.
    cordons: Mapping[int, BrokerCordon] = field(default_factory=dict)
    versions: Mapping[int, BrokerVersion | ClusterError] = field(default_factory=dict)
    # Brokers on which a new replica of a tiered partition cannot begin to copy.
    blocked_copies: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlanChanges:
    """All targets of a plan, and the partitions that do not have their target replicas yet."""

    targets: tuple[Target, ...]
    partitions: Mapping[TopicPartition, PlanPartition] = field(default_factory=dict)
    cordon: tuple[int, ...] = ()  # Brokers that are cordoned before the first step.


@contextmanager
def open_client(settings: Settings) -> Iterator[ReassignmentClient]:
    """Yields a client; its errors become errors that end the command.

    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: the cluster answers, but a right is missing.
    """
    probe(settings)
    client = ReassignmentClient(settings.kafka, CLIENT_ID)
    try:
        yield client
    except Unreachable as error:
        raise UnreachableError(str(error)) from error
    except ClusterError as error:
        raise CommandError(f"The cluster cannot be read: {error}.") from error
    finally:
        client.close()


def read_cluster_state(
    client: ReassignmentClient,
    settings: Settings,
    topics: Collection[str],
    measure_s: float,
    notify: Callable[[str], None],
) -> PlanClusterState:
    """Reads the state of the cluster for a plan.

    Args:
        topics: topics of the plan.
        measure_s: how long the logs are watched to measure write rates; 0 means that the rates come from the signals.
        notify: shows a line to the operator.
    """
    # The ids are read first. If a topic is deleted and created again during the later reads, the plan contains its old id, and the
    # executor drops the partitions of a topic whose id differs.
    ids = client.topic_ids(topics)
    layout = read_layout(client, settings, CLIENT_ID)
    disk_answers = client.disks(layout.brokers)
    disks = {broker: disks for broker, disks in disk_answers.items() if not isinstance(disks, ClusterError)}
    try:
        tuners = client.group_members(lease_group(settings.cluster))
    except ClusterError:
        tuners = None
    rates = _read_write_rates(client, settings, layout, measure_s, notify)
    try:
        min_in_sync = client.min_in_sync(sorted(topics & layout.topics.keys()), layout.brokers)
    except ClusterError as error:
        notify(f"{kafka_names.MIN_IN_SYNC} of the topics cannot be read ({error}): the steps are shown as if it was 1.")
        min_in_sync = {}
    return PlanClusterState(
        layout=layout,
        size_bytes=read_copy_bytes(client, layout, topics, read_log_bytes(client, layout)),
        disks=disks,
        write_bytes_per_s=rates,
        tuners=tuners,
        topic_ids=ids,
        min_in_sync=min_in_sync,
        cordons=read_known_cordons(client, layout.brokers),
        versions=client.broker_versions(layout.brokers),
        blocked_copies=_read_blocked_copies(client, layout, topics),
    )


def _read_blocked_copies(
    client: ReassignmentClient, layout: ClusterLayout, topics: Collection[str]
) -> dict[TopicPartition, frozenset[int]]:
    tiered = tiered_topics(client, topics & layout.topics.keys())
    leaders = {key: state.leader for key, state in layout.partitions.items() if key[0] in tiered}
    return copies_that_cannot_begin(client, layout.brokers, leaders)


def _read_write_rates(
    client: ReassignmentClient,
    settings: Settings,
    layout: ClusterLayout,
    measure_s: float,
    notify: Callable[[str], None],
) -> Mapping[TopicPartition, float]:
    """Returns the write rate of each partition in bytes/s; nothing, with a note, if there are no signals."""
    try:
        return measure_write_rates(client, settings, layout, measure_s, notify)
    except NoSignalsError as error:
        notify(f"{error} The checks assume that nothing is written.")
        return {}


def read_plan_file(path: Path) -> PlanFile:
    """Reads a plan of kafka-reassign-partitions.

    Raises:
        BadInputError: the file has faults; the message has one line for each.
    """
    return refuse_log_dirs(read_plan(path), str(path))


def refuse_log_dirs(plan: PlanFile, name: str) -> PlanFile:
    """Returns the plan unchanged.

    Args:
        name: the name of the plan, for messages.

    Raises:
        BadInputError: the plan moves replicas between log directories.
    """
    with_log_dirs = next((t for t in plan.targets if any(d != "any" for d in t.log_dirs)), None)
    if with_log_dirs is not None:
        raise BadInputError(
            f"{name}: {with_log_dirs.topic}-{with_log_dirs.partition} names log_dirs: rheostat moves replicas between brokers, "
            "not between log directories of a broker. Leave log_dirs out, or move this partition with kafka-reassign-partitions"
        )
    return plan


def find_changes(plan: PlanFile, cluster: PlanClusterState) -> PlanChanges:
    """Returns the partitions that the plan changes.

    Raises:
        BadInputError: the plan names partitions or brokers that do not exist; the message names each.
    """
    layout = cluster.layout
    # The layout lists only brokers that are alive. A plan may also name a broker that is down, if it holds replicas.
    holders = {broker for state in layout.partitions.values() for broker in state.replicas}
    check_targets_exist(plan, {*layout.brokers, *holders}, layout.partitions)
    topics = {target.topic for target in plan.targets}
    originals = {
        topic: OriginalTopic(cluster.topic_ids.get(topic, ""), len(states))
        for topic, states in layout.topics.items()
        if topic in topics
    }
    partitions = {}
    for target in plan.targets:
        key = (target.topic, target.partition)
        state = layout.partitions[key]
        if state.adding or state.removing or state.replicas != target.replicas:
            # The plan waits for a reassignment that runs now, so its original replicas are the replicas after that reassignment.
            original = tuple(b for b in state.replicas if b not in state.removing)
            partitions[key] = PlanPartition(
                target=target.replicas,
                original_replicas=original,
                size_bytes=float(cluster.size_bytes.get(key, 0)),
                write_bytes_per_s=cluster.write_bytes_per_s.get(key, 0.0),
                topic=originals[target.topic],
            )
    return PlanChanges(plan.targets, partitions, plan.cordon)
