"""Where all partitions are: what `fetchers`, `limits` and `move` read from the live cluster. Reads, changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rheostat.config.settings import Settings
from rheostat.errors import CommandError, UnreachableError
from rheostat.run.services import probe
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, PartitionState, Unreachable
from streaming.shared.kafka.racks import broker_racks
from tuner.planning.plan_file import TopicPartition

_LOOKS_MAX = 5
_LOOK_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """One look at the cluster."""

    source: str
    racks: Mapping[int, str | None]  # Of the brokers that are alive.
    partitions: Mapping[
        TopicPartition, PartitionState
    ]  # With those that are being added or removed among the replicas.

    @property
    def brokers(self) -> list[int]:
        return sorted(self.racks)

    @property
    def topics(self) -> dict[str, list[PartitionState]]:
        """Partitions of each, in order."""
        found: dict[str, list[PartitionState]] = {}
        for key in sorted(self.partitions):
            found.setdefault(key[0], []).append(self.partitions[key])
        return found


@contextmanager
def reading(settings: Settings, client_id: str) -> Iterator[ClusterClient]:
    """A client, whose failures end the command.

    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: it answers, but a right is missing.
    """
    probe(settings)
    with ClusterClient(settings.kafka, client_id) as client, ending_failures():
        yield client


@contextmanager
def ending_failures(what: str = "The cluster cannot be read") -> Iterator[None]:
    """What a cluster does not answer, or not to us, ends the command; as ``reading`` has it."""
    try:
        yield
    except Unreachable as error:
        raise UnreachableError(str(error)) from error
    except ClusterError as error:
        raise CommandError(f"{what}: {error}.") from error


def look(client: ClusterClient, settings: Settings, client_id: str) -> ClusterLayout:
    """
    Raises:
        CommandError: what brokers say doesn't fit together, and goes on not to.
    """
    for left in reversed(range(_LOOKS_MAX)):
        moving = {(s.topic, s.partition): s for s in client.reassignments()}
        states = {(s.topic, s.partition): s for s in client.partitions()} | moving
        racks = broker_racks(settings.kafka, client_id)
        standing = ClusterLayout(f"the live cluster at {settings.kafka.bootstrap_servers}", racks, states)
        gone = leading_though_dead(standing)
        if not gone:
            return standing
        if left:
            threading.Event().wait(_LOOK_AGAIN_S)
    # A plan made now would take brokers for dead that only missed a heartbeat, and move everything off them.
    raise CommandError(
        f"Brokers {', '.join(map(str, gone))} lead partitions, and the cluster does not count them among its brokers that are "
        "alive: it is just changing, or overloaded. Ask again in a minute."
    )


def leading_though_dead(standing: ClusterLayout) -> list[int]:
    """Brokers that lead partitions and are not among those that are alive."""
    return sorted({s.leader for s in standing.partitions.values() if s.leader >= 0} - standing.racks.keys())


def log_bytes(client: ClusterClient, standing: ClusterLayout) -> dict[TopicPartition, int]:
    """Size of each partition's log on its leader; partitions without a leader that is alive are absent."""
    sizes: dict[int, Mapping[TopicPartition, int]] = {}
    for broker, answer in client.log_sizes(standing.brokers, standing.partitions).items():
        if isinstance(answer, ClusterError):
            raise answer
        sizes[broker] = answer
    return {key: sizes[state.leader].get(key, 0) for key, state in standing.partitions.items() if state.leader in sizes}
