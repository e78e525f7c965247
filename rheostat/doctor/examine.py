"""Runs the checks of `rheostat doctor`: everything that rheostat needs, and what to do about each failure.

The doctor tests each right with the call that needs the right, and reads the error code in Kafka's response, because three of the
reads return an empty answer if the right is missing. It tests writes with validate_only: Kafka then checks the right and changes
nothing. Only ``--create`` makes a change: it creates rheostat's own topics if they are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, astuple
from typing import Any

from rheostat.config.settings import Settings
from rheostat.doctor.agents import agents
from rheostat.doctor.capacities import capacities
from rheostat.doctor.cluster import connection, leases_of_shared_parts, names_on_record, quota_window, rights, topics
from rheostat.doctor.cordons import cordons
from rheostat.doctor.findings import Finding, FindingVerdict
from rheostat.doctor.kafka_version import kafka_version
from rheostat.doctor.leadership import leadership
from rheostat.doctor.leftovers import leftover_throttles, leftover_trials
from rheostat.doctor.machine import machine, storage_of_stream
from rheostat.doctor.source_records import format_of
from rheostat.doctor.sources import source_elsewhere, source_of
from rheostat.doctor.writers import writers
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, EXIT_UNREACHABLE
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.reassignments import ReassignmentClient

__all__ = ["Finding", "FindingVerdict", "as_json", "examine", "exit_code"]

_REACHABILITY = "reachability"


def examine(settings: Settings, *, create: bool = False) -> Iterator[Finding]:
    """Yields the finding of each check.

    Args:
        create: create rheostat's own topics if they are missing; otherwise nothing is changed.
    """
    yield from machine()
    yield from storage_of_stream(settings)
    kafka = settings.kafka
    connection_findings = connection(kafka, _REACHABILITY, "kafka")
    yield from connection_findings
    if any(finding.verdict is FindingVerdict.FAILED for finding in connection_findings):
        return
    with ReassignmentClient(kafka, "rheostat-doctor") as client:
        try:
            brokers = {e.node: e.host for e in client.brokers()}
        except ClusterError as error:
            yield Finding(
                _REACHABILITY,
                FindingVerdict.FAILED,
                f"a bootstrap server answers, but: {error}",
                "compare the brokers' advertised.listeners with what can be reached from here",
            )
            return
        ids = ", ".join(map(str, sorted(brokers)))
        yield Finding(_REACHABILITY, FindingVerdict.OK, f"brokers {ids} at {kafka.bootstrap_servers}")
        yield from kafka_version(client, sorted(brokers), settings)
        # The topics come first, because rights on topics are tested on a topic that exists.
        names = settings.topic_names()
        own_topics = names.of_tuner if settings.has_own_metrics_cluster else astuple(names)
        yield from topics(client, settings, kafka, own_topics, create=create)
        yield from names_on_record(settings, sorted(brokers))
        yield from rights(client, sorted(brokers), settings, create=create)
        yield from writers(client, settings, kafka, own_topics)
        yield from quota_window(client, sorted(brokers))
        yield from cordons(client, sorted(brokers), settings)
        yield from capacities(client, sorted(brokers), settings)
        yield from leadership(client, brokers, settings)
        yield from leftover_throttles(client, settings)
        yield from leftover_trials(client, settings)
        for source in settings.stream.sources:
            if source.kafka is None and not settings.has_own_metrics_cluster:
                yield from source_of(client, sorted(brokers), source, kafka)
                yield from format_of(source, kafka)
    if settings.has_own_metrics_cluster:
        yield from _metrics_cluster(settings, create=create)
    for source in settings.stream.sources:
        if source.kafka is not None or settings.has_own_metrics_cluster:
            yield from source_elsewhere(source, source.kafka or settings.metrics_kafka)
    yield from agents(settings, brokers)


def _metrics_cluster(settings: Settings, *, create: bool) -> Iterator[Finding]:
    """Checks the metrics cluster, which has the topics of all measurements, if it is not the watched cluster itself."""
    kafka = settings.metrics_kafka
    connection_findings = connection(kafka, f"metrics cluster {settings.metrics_cluster}", "kafka")
    yield from connection_findings
    if any(finding.verdict is FindingVerdict.FAILED for finding in connection_findings):
        return
    with ReassignmentClient(kafka, "rheostat-doctor") as client:
        yield from topics(client, settings, kafka, settings.topic_names().of_measurements, create=create)
        yield from leases_of_shared_parts(client, settings, create=create)
        yield from writers(client, settings, kafka, settings.topic_names().of_measurements)


def exit_code(findings: list[Finding]) -> int:
    """Returns the exit code: the code of an unreachable cluster, else 1 if any check failed, else 0."""
    failed = [f.check for f in findings if f.verdict is FindingVerdict.FAILED]
    if _REACHABILITY in failed:
        return EXIT_UNREACHABLE
    return EXIT_NOT_WELL if failed else EXIT_DONE


def as_json(findings: list[Finding]) -> list[dict[str, Any]]:
    return [asdict(f) for f in findings]
