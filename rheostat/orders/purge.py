"""Deletes everything that rheostat has created in Kafka, after a release: `rheostat release --purge`.

Invariant: only topics with the exact names of rheostat's own topics are deleted, and only while no process of rheostat uses them.
The journal is the only record of the original settings, so nothing is deleted before all of them are restored.
"""

from __future__ import annotations

import threading
import time
from dataclasses import astuple, dataclass

from rheostat.config.settings import Settings
from rheostat.doctor.findings import grant
from rheostat.errors import BadInputError, CommandError, UnreachableError
from rheostat.orders import send
from rheostat.quotas.calibrate.own_topics import find_leftovers
from rheostat.reassign import plan_store
from rheostat.tuner_presence import read_tuners
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, MissingPermission, Unreachable
from streaming.shared.kafka.removal import RemovalClient
from streaming.shared.lease import lease_group
from streaming.shared.short_lists import join_names
from streaming.shared.units import count_text

_GONE_S_MAX = 30.0
_POLL_S = 0.2
_NAMED_MAX = 5
# The processes that are members of a consumer group while they run, even on standby. `rheostat learn` is in no group.
_PARTS_WITH_LEASE = {"tuner": "a tuner", "collect": "a collector", "stream": "a stream"}


@dataclass(frozen=True, slots=True)
class PurgeScope:
    """The parts of rheostat in Kafka.

    Attributes:
        topics: the existing topics of rheostat.
        groups: the existing consumer groups of the leases.
        other_topics: existing topics whose names begin with the prefix, and that are not rheostat's.
    """

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    other_topics: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not self.topics and not self.groups


def find_scope(settings: Settings) -> PurgeScope:
    """Returns the topics and groups that a purge deletes.

    Raises:
        UnreachableError, CommandError: the cluster cannot be read.
    """
    prefix, own = settings.topics.prefix, astuple(settings.topic_names())
    leases = [lease_group(settings.cluster, part) for part in _PARTS_WITH_LEASE]
    try:
        with RemovalClient(settings.kafka, "rheostat-purge") as client:
            client.partitions(own)  # Without the right to see them, Kafka leaves them out of the list of all topics.
            existing = {state.topic for state in client.partitions()}
            groups = client.groups(leases)
    except Unreachable as error:
        raise UnreachableError(str(error)) from error
    except ClusterError as error:
        raise CommandError(str(error)) from error
    others = sorted(topic for topic in existing - set(own) if topic.startswith(f"{prefix}."))
    return PurgeScope(tuple(topic for topic in own if topic in existing), tuple(sorted(groups)), tuple(others))


def purge_summary(settings: Settings, scope: PurgeScope) -> list[str]:
    """Returns the lines that the operator confirms."""
    lines = [
        f"After the release, this command deletes from the Kafka cluster, which cannot be undone: {', '.join(scope.topics)}"
    ]
    measurements = set(settings.topic_names().of_measurements)
    has_all = not settings.has_own_metrics_cluster and not measurements.isdisjoint(scope.topics)
    if settings.other_pages and has_all:
        others = ", ".join(name for name, _ in settings.other_pages)
        lines.append(
            f"{settings.cluster} is the metrics cluster: the measurements and the history of {others} are deleted too."
        )
    if scope.groups:
        lines.append(f"It also deletes the consumer groups {', '.join(scope.groups)}.")
    if scope.other_topics:
        names = join_names(scope.other_topics, _NAMED_MAX)
        lines.append(f"Topics that begin with {settings.topics.prefix}. and are not rheostat's stay: {names}")
    lines.append(
        "`rheostat learn` must be stopped: it writes once an hour, so this command cannot see whether it runs."
    )
    return lines


def check_nothing_runs(settings: Settings, scope: PurgeScope) -> None:
    """Checks that no process of rheostat uses the topics, and that nothing but settings of this cluster name is on record.

    The check takes some seconds, in which no record may arrive: a process without the right to its group shows only by its records.
    The check does not see `rheostat learn`, which has no group and writes once an hour.

    Raises:
        BadInputError: a process runs, or there are plans, leftovers of commands, or settings of another cluster name.
    """
    names = settings.topic_names()
    if names.journal in scope.topics:
        tuners = read_tuners(settings, round(time.time() * 1000))
        if tuners:
            raise BadInputError(
                f"Nothing was deleted: the tuner {tuners[0].holder} still runs ({tuners[0].mode.value}). Stop all processes of "
                "rheostat, and run the command again. A killed tuner counts as running for half a minute."
            )
        others = send.read_orders(settings).holdings_by_alias
        if others:
            name, holdings = next(iter(others.items()))
            raise BadInputError(
                f"Nothing was deleted: under the cluster name {name!r} rheostat still manages {holdings}. Run `rheostat release` "
                f"with `cluster: {name}` first."
            )
        plans = [plan.id for plan in plan_store.read_plans(settings).active]
        if plans:
            raise BadInputError(
                f"Nothing was deleted: reassignment plans are active ({', '.join(plans)}). Wait until they end, or run `rheostat "
                "reassign cancel` while a tuner runs."
            )
    with ClusterClient(settings.kafka, "rheostat-purge") as client:
        try:
            if trials := find_leftovers(client, settings.topics.prefix):
                raise BadInputError(
                    "Nothing was deleted: `quotas calibrate` runs or was killed, and the cluster has "
                    f"{count_text(len(trials), 'topic')} of a calibration. Run `rheostat quotas calibrate --clear` first."
                )
            member = _part_that_runs(client, settings)
            written = _topic_that_grows(client, settings, scope) if member is None else None
        except ClusterError as error:
            raise CommandError(f"Nothing was deleted: {error}.") from error
    if member is not None:
        group = lease_group(settings.cluster, member)
        raise BadInputError(
            f"Nothing was deleted: the consumer group {group} has members, so {_PARTS_WITH_LEASE[member]} runs. Stop all "
            "processes of rheostat, and run the command again. A killed process stays a member for some seconds."
        )
    if written is not None:
        raise BadInputError(
            f"Nothing was deleted: records still arrive in {written}, so a process of rheostat runs. Stop all processes of "
            "rheostat, and run the command again."
        )


def _part_that_runs(client: ClusterClient, settings: Settings) -> str | None:
    """Returns a part whose consumer group has members.

    Raises:
        MissingPermission: a group cannot be seen, so it is unknown whether a process runs.
    """
    for part in _PARTS_WITH_LEASE:
        group = lease_group(settings.cluster, part)
        members = client.group_members(group)
        if members is None:
            raise MissingPermission(f"Describe on Group {group}", "to describe the group")
        if members:
            return part
    return None


def _topic_that_grows(client: ClusterClient, settings: Settings, scope: PurgeScope) -> str | None:
    """Watches the topics for two intervals of the collector and the stream. Returns a topic that grows; None if none grows."""
    states = client.partitions(scope.topics)
    before = client.end_offsets(states)
    threading.Event().wait(2 * max(settings.collector.interval_s, settings.stream.slide_s))
    after = client.end_offsets(states)
    return next(
        (topic for (topic, number), end in sorted(after.items()) if end > before.get((topic, number), end)), None
    )


def delete_all(settings: Settings, scope: PurgeScope) -> list[str]:
    """Deletes the topics and the groups, and reads back that they are gone.

    Returns:
        A line for each topic or group that is left, with the reason.
    """
    remaining: list[str] = []
    with RemovalClient(settings.kafka, "rheostat-purge") as client:
        try:
            errors = client.delete_topics(scope.topics)
            errors |= {f"group {group}": client.delete_group(group) for group in scope.groups}
            remaining += [_remaining_text(name, error, settings) for name, error in errors.items() if error is not None]
            deleted = [topic for topic in scope.topics if errors[topic] is None]
            remaining += [
                f"{topic}: Kafka still lists it after {_GONE_S_MAX:g} s" for topic in _await_gone(client, deleted)
            ]
        except ClusterError as error:
            remaining.append(f"unknown: {error}")
    return remaining


def _await_gone(client: ClusterClient, topics: list[str]) -> list[str]:
    """Waits until the topics do not exist any more. Returns the topics that still exist."""
    deadline_s = time.monotonic() + _GONE_S_MAX
    while left := sorted({state.topic for state in client.partitions(topics)}):
        if time.monotonic() > deadline_s:
            break
        threading.Event().wait(_POLL_S)
    return left


def _remaining_text(name: str, error: ClusterError, settings: Settings) -> str:
    if isinstance(error, MissingPermission):
        return f"{name}: {error}. To do: {grant(error.right, settings.kafka)}"
    return f"{name}: {error}"
