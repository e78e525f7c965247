"""Reads from the live cluster which brokers hold and lead each partition, for several commands. Changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rheostat.config.settings import Settings
from rheostat.errors import CommandError, UnreachableError
from rheostat.run.services import probe
from streaming.shared.cordons import cordoned_brokers
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, PartitionState, Unreachable
from streaming.shared.kafka.cordons import read_known_cordons
from streaming.shared.kafka.racks import broker_racks
from streaming.shared.kafka.tiered import new_replica_bytes
from tuner.core.reassignment_plan import TopicPartition

_ATTEMPTS_MAX = 5
_RETRY_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """A snapshot of the cluster.

    Attributes:
        source: where the snapshot is from, as text for the operator.
        racks: rack by broker, of the brokers that are alive.
        partitions: all partitions; their replicas include replicas that are being added or removed.
    """

    source: str
    racks: Mapping[int, str | None]
    partitions: Mapping[TopicPartition, PartitionState]

    @property
    def brokers(self) -> list[int]:
        """The brokers that are alive."""
        return sorted(self.racks)

    @property
    def topics(self) -> dict[str, list[PartitionState]]:
        """The partitions of each topic, in order."""
        by_topic: dict[str, list[PartitionState]] = {}
        for key in sorted(self.partitions):
            by_topic.setdefault(key[0], []).append(self.partitions[key])
        return by_topic


@contextmanager
def open_cluster(settings: Settings, client_id: str) -> Iterator[ClusterClient]:
    """Opens a client whose errors end the command.

    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: a right is missing.
    """
    probe(settings)
    with ClusterClient(settings.kafka, client_id) as client, raise_as_command_errors():
        yield client


@contextmanager
def raise_as_command_errors(failed_action: str = "The cluster cannot be read") -> Iterator[None]:
    """Turns errors of the cluster client into errors that end the command, see ``open_cluster``."""
    try:
        yield
    except Unreachable as error:
        raise UnreachableError(str(error)) from error
    except ClusterError as error:
        raise CommandError(f"{failed_action}: {error}.") from error


def read_layout(client: ClusterClient, settings: Settings, client_id: str) -> ClusterLayout:
    """Returns a consistent snapshot of the cluster.

    Raises:
        CommandError: the answers of the brokers contradict each other in all of several attempts.
    """
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        # Only this list says which replicas are being added or removed, so its entries replace the entries of ``partitions()``.
        moving = {(s.topic, s.partition): s for s in client.reassignments()}
        states = {(s.topic, s.partition): s for s in client.partitions()} | moving
        racks = broker_racks(settings.kafka, client_id)
        layout = ClusterLayout(f"the live cluster at {settings.kafka.bootstrap_servers}", racks, states)
        dead_leaders = find_dead_leaders(layout)
        if not dead_leaders:
            return layout
        if attempts_left:
            threading.Event().wait(_RETRY_AFTER_S)
    # No plan is made now: a broker that only missed a heartbeat would count as dead, and the plan would move all its replicas.
    raise CommandError(
        f"Brokers {', '.join(map(str, dead_leaders))} lead partitions, but the cluster does not list them as alive: the "
        "cluster is changing now, or is overloaded. Try again in a minute."
    )


def read_cordoned_brokers(client: ClusterClient, layout: ClusterLayout) -> frozenset[int]:
    """Returns the brokers that take no new replicas, because all of their log directories are cordoned (KIP-1066).

    Raises:
        ClusterError: the settings of a broker cannot be read.
    """
    return cordoned_brokers(read_known_cordons(client, layout.brokers))


def find_dead_leaders(layout: ClusterLayout) -> list[int]:
    """Returns the brokers that lead partitions although they are not alive."""
    return sorted({s.leader for s in layout.partitions.values() if s.leader >= 0} - layout.racks.keys())


def read_copy_bytes(
    client: ClusterClient, layout: ClusterLayout, topics: Collection[str], sizes: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Returns the bytes that a new replica of each partition of these topics copies; ``sizes`` are the sizes of leaders' logs."""
    chosen = {key: size for key, size in sizes.items() if key[0] in topics}
    return new_replica_bytes(client, chosen, {key: layout.partitions[key].leader for key in chosen})


def read_log_bytes(client: ClusterClient, layout: ClusterLayout) -> dict[TopicPartition, int]:
    """Returns the size (bytes) of each partition's log on its leader; partitions without a living leader are absent."""
    sizes: dict[int, Mapping[TopicPartition, int]] = {}
    for broker, answer in client.log_sizes(layout.brokers, layout.partitions).items():
        if isinstance(answer, ClusterError):
            raise answer
        sizes[broker] = answer
    return {key: sizes[state.leader].get(key, 0) for key, state in layout.partitions.items() if state.leader in sizes}
