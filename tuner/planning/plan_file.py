"""Reads the JSON files of kafka-reassign-partitions strictly: the target assignment (plan) and the current assignment.

Kafka's tool ignores unknown keys. If ``replicas`` is misspelt, the tool reads a partition without replicas. This module instead
reports all faults at once, each with its line and key.

Terms:
    plan     ``{"version": 1, "partitions": [{"topic", "partition", "replicas", "log_dirs"?}], "cordon"?}``: the target. ``cordon``
             lists the brokers that rheostat cordons before the first step; Kafka's tool ignores this key.
    current  the same form, as ``--generate`` prints it under "Current partition replica assignment". A partition may also have
             ``leader``, ``isr``, ``size_bytes`` and ``write_bytes_per_s``; the document may have ``brokers``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.core.reassignment_plan import TopicPartition
from tuner.planning.json_positions import KeyPath
from tuner.planning.plan_json import Faults, broker_list, check_brokers, read_body, read_entries

_PLAN_KEYS = ("topic", "partition", "replicas", "log_dirs")
_CURRENT_KEYS = (*_PLAN_KEYS, "leader", "isr", "size_bytes", "write_bytes_per_s")


@dataclass(frozen=True, slots=True)
class Target:
    """The desired replicas of a partition."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CurrentPartition:
    """The current state of a partition. An attribute is None if the file does not have it."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    size_bytes: float | None = None
    write_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class CurrentFile:
    """The current assignment from a file."""

    partitions: Mapping[TopicPartition, CurrentPartition]
    brokers: frozenset[int] | None  # None: not in the file.


class PlanFile:
    """A plan with the text of its file, so that faults that ``check`` finds later can name a line too."""

    def __init__(self, text: str, name: str) -> None:
        """
        Raises:
            PlanFileError: not JSON, or not a plan.
        """
        self._faults = Faults(text, name)
        body = read_body(text, self._faults, ("version", "partitions", "cordon"))
        entries = read_entries(body, _PLAN_KEYS, self._faults)
        cordon = body.get("cordon", [])
        if "cordon" in body:
            check_brokers(cordon, ("cordon",), self._faults)
        self._faults.raise_any()
        self.cordon: tuple[int, ...] = tuple(cordon)
        self.targets = tuple(
            Target(e["topic"], e["partition"], tuple(e["replicas"]), tuple(e.get("log_dirs", ()))) for e in entries
        )

    def check(self, brokers: Collection[int] | None, partitions: Collection[TopicPartition]) -> None:
        """Checks that all partitions and brokers of the plan exist.

        Args:
            brokers: ids of the cluster's brokers; None: unknown, so no broker is refused.

        Raises:
            PlanFileError: names each partition and broker that does not exist.
        """
        known_brokers = "" if brokers is None else broker_list(brokers)
        for i, target in enumerate(self.targets):
            at: KeyPath = ("partitions", i)
            if (target.topic, target.partition) not in partitions:
                self._faults.add((*at, "partition"), f"there is no partition {target.topic}-{target.partition}")
            for n, broker in enumerate(target.replicas):
                if brokers is not None and broker not in brokers:
                    self._faults.add((*at, "replicas", n), f"unknown broker {broker}, there are {known_brokers}")
        self._faults.raise_any()


def parse_current(text: str, name: str) -> CurrentFile:
    """Parses a current assignment.

    Raises:
        PlanFileError: not JSON, or not an assignment.
    """
    faults = Faults(text, name)
    body = read_body(text, faults, ("version", "partitions", "brokers"))
    entries = read_entries(body, _CURRENT_KEYS, faults)
    brokers = body.get("brokers")
    if brokers is not None:
        check_brokers(brokers, ("brokers",), faults)
    faults.raise_any()
    for i, entry in enumerate(entries):
        replicas = entry["replicas"]
        leaders = [entry["leader"]] if "leader" in entry else []
        for key, named in (("leader", leaders), ("isr", entry.get("isr", []))):
            if not set(named) <= set(replicas):
                faults.add(("partitions", i, key), f"expected only brokers of replicas {replicas}, found {named}")
        if brokers is not None and not set(replicas) <= set(brokers):
            faults.add(("partitions", i, "replicas"), f"expected only ids of the list brokers: {broker_list(brokers)}")
    faults.raise_any()
    partitions = [_current_partition(entry) for entry in entries]
    return CurrentFile(
        partitions={(current.topic, current.partition): current for current in partitions},
        brokers=None if brokers is None else frozenset(brokers),
    )


def _current_partition(entry: Mapping[str, Any]) -> CurrentPartition:
    replicas = entry["replicas"]
    return CurrentPartition(
        entry["topic"],
        entry["partition"],
        tuple(replicas),
        # Without ``leader`` the preferred replica counts as the leader. Without ``isr`` all replicas count as in sync.
        leader=entry.get("leader", replicas[0]),
        isr=tuple(entry.get("isr", replicas)),
        size_bytes=entry.get("size_bytes"),
        write_bytes_per_s=entry.get("write_bytes_per_s"),
    )
