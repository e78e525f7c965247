"""The key ``clusters`` of the settings file: several clusters in one installation.

Each entry contains only the values that differ from the shared sections:

    cluster: observability                  the metrics cluster, which has the topics of samples, signals, history and profiles
    kafka: {bootstrap_servers: ...}         its connection
    tuner: {rate_bytes_per_s_max: 50MB/s}   shared
    clusters:
      east: {kafka: {...}, tuner: {http: {port: 9474}}}

``complete_entries`` merges the shared sections into each entry, and pydantic then checks the result. Only ``kafka`` is not merged,
because the password of one cluster must not reach another. The metrics cluster may itself be watched: its entry has the name in
``cluster``, and no ``kafka``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from rheostat.config.merge import merge
from streaming.collector.settings import CollectorSettings
from streaming.shared.kafka import KafkaSettings
from tuner.settings.partition_limits import LimitsSettings
from tuner.settings.tuner import TunerSettings

if TYPE_CHECKING:
    from rheostat.config.settings import Settings

NAME_PATTERN = r"^[A-Za-z0-9._-]{1,100}$"
_CLUSTERS = "clusters"
_Path = tuple[str | int, ...]


class ClusterSettings(BaseModel):
    """The settings of one of several clusters: all sections that may differ between clusters, with the shared values merged in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kafka: KafkaSettings = Field(description="how to reach this cluster")
    collector: CollectorSettings = Field(default_factory=CollectorSettings, description="what is measured, how often")
    limits: LimitsSettings = Field(default_factory=LimitsSettings, description="how many partitions there may be")
    tuner: TunerSettings = Field(description="what the tuner may do")


_MERGED = [section for section in ClusterSettings.model_fields if section != "kafka"]
# Keys of processes that serve all clusters.
_SHARED_ONLY = (("collector", "http"), ("collector", "interval_s"))


def entries_in(body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entries of ``clusters`` as they are written; no entries if the value is not a mapping from names."""
    entries = body.get(_CLUSTERS)
    return {str(name): entry for name, entry in entries.items()} if isinstance(entries, dict) else {}


def name_faults(body: Mapping[str, Any]) -> Iterator[tuple[_Path, str]]:
    """Yields place and text of each name that YAML does not read as text. YAML reads ``no`` as false, and ``1.10`` as 1.1."""
    entries = body.get(_CLUSTERS)
    for name in entries if isinstance(entries, dict) else ():
        if not isinstance(name, str):
            yield (_CLUSTERS, str(name)), f"YAML reads this name as {name!r}, and not as text: write it in quotes"


def complete_entries(merged: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of the file with the shared sections merged into each entry of ``clusters``."""
    entries = entries_in(merged)
    if not entries:
        return dict(merged)
    completed: dict[str, Any] = {}
    for name, entry in entries.items():
        sections = [*_MERGED, "kafka"] if name == merged.get("cluster") else _MERGED
        shared = {section: merged[section] for section in sections if section in merged}
        completed[name] = merge(shared, entry or {}) if isinstance(entry, dict | None) else entry
    return {**merged, _CLUSTERS: completed}


def is_repeated(fault: Any, faults: Collection[tuple[_Path, str]], entries: Mapping[str, Any]) -> bool:
    """Returns whether a fault of pydantic repeats the fault of a shared value, which was merged into each entry.

    Args:
        faults: place and message of all faults.
        entries: the entries of ``clusters`` as they are written.
    """
    at = fault["loc"]
    if len(at) < 3 or at[0] != _CLUSTERS or (at[2:], fault["msg"]) not in faults:
        return False
    return not _contains(entries.get(str(at[1])), at[2:])


def _contains(value: Any, at: _Path) -> bool:
    for key in at:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def variable_names(names: Sequence[str]) -> dict[str, str]:
    """Returns the cluster names. The keys are the names' lower-case form in environment variables: prod_east for prod-east."""
    return {re.sub(r"[.-]", "_", name.lower()): name for name in names}


def entry_faults(settings: Settings, entries: Mapping[str, Any]) -> Iterator[tuple[_Path, str]]:
    """Yields place and text of each fault that concerns several keys of ``clusters``.

    Args:
        entries: the entries of ``clusters`` as they are written.
    """
    seen: dict[str, dict[Any, str]] = {"names": {}, "servers": {}, "ports": {}, "agents": {}, "cruise_controls": {}}
    if settings.clusters and settings.cluster not in settings.clusters:
        seen["servers"] = dict.fromkeys(_servers(settings.kafka), f"the metrics cluster {settings.cluster}")
    for name, cluster in settings.clusters.items():
        here = (_CLUSTERS, name)
        if not re.match(NAME_PATTERN, name):
            yield here, "a name of a cluster has letters, digits, '.', '_' and '-', and at most 100 characters"
        form = next(iter(variable_names([name])))
        if (other := seen["names"].setdefault(form, name)) != name:
            yield here, f"the name differs from {other} only in capitals or in '.', '_' and '-': choose another"
        if name == settings.cluster and _contains(entries.get(name), ("kafka",)):
            yield (
                (*here, "kafka"),
                f"{name} is the metrics cluster, whose connection is the shared key kafka: remove kafka from this entry",
            )
        for section, key in _SHARED_ONLY:
            if _contains(entries.get(name), (section, key)):
                yield (
                    (*here, section, key),
                    f"one process serves all clusters: set it in the shared section {section}",
                )
        for server in _servers(cluster.kafka):
            if (other := seen["servers"].setdefault(server, name)) != name:
                yield (
                    (*here, "kafka", "bootstrap_servers"),
                    f"{server} is also a server of {other}, and one Kafka cluster has one name. If it is the metrics cluster, give "
                    "this entry the name of the metrics cluster, and leave out kafka",
                )
        yield from _shared_address_faults(name, cluster, seen)
        port = cluster.tuner.http.port
        if port and (other := seen["ports"].setdefault(port, name)) != name:
            yield (
                (*here, "tuner", "http", "port"),
                f"{port} is also the port of the tuner of {other}: choose another",
            )
    yield from _source_faults(settings)


def _shared_address_faults(
    name: str, cluster: ClusterSettings, seen: Mapping[str, dict[Any, str]]
) -> Iterator[tuple[_Path, str]]:
    """Yields the addresses of services that two clusters share, for example because a shared section sets them."""
    for node, url in cluster.collector.endpoints.items():
        if (other := seen["agents"].setdefault(url, name)) != name:
            yield (
                (_CLUSTERS, name, "collector", "endpoints", str(node)),
                f"the agent of node {node} is also an agent of {other}, so its samples would count for both clusters: name it in "
                "the entry of its cluster only",
            )
    cruise_control = cluster.tuner.cruise_control
    if cruise_control is not None:
        url = cruise_control.url.rstrip("/").lower()
        if (other := seen["cruise_controls"].setdefault(url, name)) != name:
            yield (
                (_CLUSTERS, name, "tuner", "cruise_control", "url"),
                f"it is also the Cruise Control of {other}, and a Cruise Control moves partitions of one Kafka cluster: name it in "
                "the entry of its cluster only",
            )


def _source_faults(settings: Settings) -> Iterator[tuple[_Path, str]]:
    for i, source in enumerate(settings.stream.sources if settings.clusters else ()):
        if source.cluster not in settings.clusters:
            found = "is missing" if source.cluster is None else f"is {source.cluster!r}"
            yield (
                ("stream", "sources", i, "cluster"),
                f"{found}: the settings have several clusters, so name the cluster of the records: {', '.join(settings.clusters)}",
            )


def _servers(kafka: KafkaSettings) -> list[str]:
    return [server.strip().lower() for server in kafka.bootstrap_servers.split(",")]
