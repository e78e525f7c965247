"""A plan as it was given, against the cluster as it stands: what is to be put on record, and what speaks against it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError, CommandError, UnreachableError
from rheostat.plan.cluster_layout import ClusterLayout, log_bytes, look
from rheostat.plan.estimate.sources import check, read_plan
from rheostat.plan.write_rates import NoSignalsError, write_rates
from rheostat.run.services import probe
from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import ClusterError, Unreachable
from streaming.shared.kafka.reassignments import Disk, ReassignmentClient
from tuner.core.reassignment_plan import OriginalTopic, PlanPartition, TopicPartition
from tuner.planning.plan_file import PlanFile, Target
from tuner.runtime.lease import group_of

CLIENT_ID = "rheostat-reassign"


@dataclass(frozen=True, slots=True)
class PlanGround:
    """The cluster as it stands to one plan."""

    standing: ClusterLayout
    size_bytes: Mapping[TopicPartition, int]  # Of each partition's log on its leader.
    disks: Mapping[int, tuple[Disk, ...]]  # Of brokers that tell.
    write_bytes_per_s: Mapping[TopicPartition, float]  # By which it grows.
    tuners: int | None  # That could execute it; None: it can't be told.
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    min_in_sync: Mapping[str, int] = field(default_factory=dict)  # Of the plan's topics.


@dataclass(frozen=True, slots=True)
class PlanInput:
    """``parts`` are those that change; the others are where they shall be."""

    targets: tuple[Target, ...]
    parts: Mapping[TopicPartition, PlanPartition] = field(default_factory=dict)


@contextmanager
def client_of(settings: Settings) -> Iterator[ReassignmentClient]:
    """A client, whose failures end the command.

    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: it answers, but a right is missing.
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


def ground_of(
    client: ReassignmentClient, settings: Settings, topics: Collection[str], watch_s: float, say: Callable[[str], None]
) -> PlanGround:
    """
    Args:
        topics: of the plan.
        watch_s: how long the logs are watched for what is written to them; 0: the signals tell.
    """
    # Before all else is read: of a topic that is made anew meanwhile the plan knows nothing.
    ids = client.topic_ids(topics)
    standing = look(client, settings, CLIENT_ID)
    disks = {b: d for b, d in client.disks(standing.brokers).items() if not isinstance(d, ClusterError)}
    try:
        tuners = client.group_members(group_of(settings.cluster))
    except ClusterError:
        tuners = None
    rates = _rates(client, settings, standing, watch_s, say)
    try:
        in_sync = client.min_in_sync(sorted(topics & standing.topics.keys()), standing.brokers)
    except ClusterError as error:
        say(f"The topics' {kafka_names.MIN_IN_SYNC} cannot be read ({error}): the steps are shown as for 1.")
        in_sync = {}
    return PlanGround(standing, log_bytes(client, standing), disks, rates, tuners, ids, in_sync)


def _rates(
    client: ReassignmentClient, settings: Settings, standing: ClusterLayout, watch_s: float, say: Callable[[str], None]
) -> Mapping[TopicPartition, float]:
    """What is written to each partition; nothing where it is neither watched nor in the signals, and that is said."""
    try:
        return write_rates(client, settings, standing, watch_s, say)
    except NoSignalsError as error:
        say(f"{error} The plan is made as if nothing was written.")
        return {}


def plan_of(path: Path) -> PlanFile:
    """
    Raises:
        BadInputError: with every fault of the file, one a line.
    """
    plan = read_plan(path)
    named = next((t for t in plan.targets if any(d != "any" for d in t.log_dirs)), None)
    if named is not None:
        raise BadInputError(
            f"{path}: {named.topic}-{named.partition} names log_dirs: rheostat moves replicas between brokers, not between "
            "directories of one. Leave log_dirs out, or give that part to kafka-reassign-partitions"
        )
    return plan


def given_of(plan: PlanFile, ground: PlanGround) -> PlanInput:
    """
    Raises:
        BadInputError: naming each partition and broker of the plan that there is not.
    """
    standing = ground.standing
    known = {*standing.brokers, *(b for s in standing.partitions.values() for b in s.replicas)}
    check(plan, known, standing.partitions)
    named = {target.topic for target in plan.targets}
    then = {
        topic: OriginalTopic(ground.topic_ids.get(topic, ""), len(states))
        for topic, states in standing.topics.items()
        if topic in named
    }
    parts = {}
    for target in plan.targets:
        key = (target.topic, target.partition)
        now = standing.partitions[key]
        if now.adding or now.removing or now.replicas != target.replicas:
            before = tuple(b for b in now.replicas if b not in now.removing)  # With what is under way ended.
            size, rate = ground.size_bytes.get(key, 0), ground.write_bytes_per_s.get(key, 0.0)
            parts[key] = PlanPartition(target.replicas, before, float(size), rate, then[target.topic])
    return PlanInput(plan.targets, parts)
