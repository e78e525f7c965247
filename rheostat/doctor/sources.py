"""Checks the topics that other collectors write: whether they exist, are readable, and have Kafka's time in their records."""

from __future__ import annotations

from collections.abc import Iterator

from rheostat.doctor.cluster import connection
from rheostat.doctor.findings import Finding, FindingVerdict, grant, raise_first, server
from rheostat.doctor.source_records import format_of
from streaming.settings import SourceSettings
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, MissingPermission

_TIMESTAMP_TYPE = "message.timestamp.type"
_BROKERS_TIMESTAMP_TYPE = "log.message.timestamp.type"  # Applies to topics without a setting of their own.
_APPENDED = "LogAppendTime"  # Kafka writes its own time into the records.


def source_elsewhere(source: SourceSettings, kafka: KafkaSettings) -> Iterator[Finding]:
    """Checks a source on another Kafka cluster: its connection, then its topic and the format of its records."""
    connection_findings = connection(kafka, _source_name(source), "stream.sources' own kafka")
    yield from connection_findings
    if any(finding.verdict is FindingVerdict.FAILED for finding in connection_findings):
        return
    with ClusterClient(kafka, "rheostat-doctor") as client:
        try:
            brokers = sorted(e.node for e in client.brokers())
        except ClusterError as error:
            yield Finding(
                _source_name(source),
                FindingVerdict.FAILED,
                str(error),
                "check address, protocol and credentials under `kafka` of this source in stream.sources",
            )
            return
        yield from source_of(client, brokers, source, kafka)
    yield from format_of(source, kafka)


def source_of(
    client: ClusterClient, brokers: list[int], source: SourceSettings, kafka: KafkaSettings
) -> Iterator[Finding]:
    """Checks whether another collector's topic exists, may be read, and has Kafka's time in its records."""
    check, topic = _source_name(source), source.topic
    try:
        if not client.partitions([topic]):
            yield Finding(
                check,
                FindingVerdict.FAILED,
                f"there is no topic {topic} at {kafka.bootstrap_servers}",
                "start the collector that writes this topic, so that it creates the topic, or correct stream.sources",
            )
            return
        # Only these rights are checked: rheostat never writes to other collectors' topics.
        if "Read" in client.missing_operations([topic]).get(topic, []):
            raise MissingPermission(f"Read on Topic {topic}", "to read metrics")
    except MissingPermission as error:
        yield Finding(check, FindingVerdict.FAILED, f"missing right: {error.right}", grant(error.right, kafka))
        return
    except ClusterError as error:
        yield Finding(check, FindingVerdict.FAILED, str(error), "see the brokers' logs")
        return
    try:
        topic_type = client.topic_configs([topic], [_TIMESTAMP_TYPE]).get(topic, {}).get(_TIMESTAMP_TYPE)
        timestamp_types = {topic_type} if topic_type is not None else _broker_timestamp_types(client, brokers)
    except ClusterError as error:
        # The stream works without this right, but its lag cannot be shown.
        do = "see the brokers' logs"
        if isinstance(error, MissingPermission):
            do = grant(_with_topic(topic, error.right), kafka)
        yield Finding(
            check,
            FindingVerdict.ADVICE,
            f"exists and is readable, but its {_TIMESTAMP_TYPE} cannot be read: {error}",
            do,
        )
        return
    if timestamp_types == {_APPENDED}:
        yield Finding(
            check, FindingVerdict.OK, f"exists, is readable, and has Kafka's time in its records ({_APPENDED})"
        )
        return
    yield Finding(
        check,
        FindingVerdict.FAILED,
        f"topic {topic} has {_TIMESTAMP_TYPE}=CreateTime, so windows use the senders' clocks: a fast clock closes all windows "
        "some seconds early, and records of a slow clock are dropped as late",
        f"kafka-configs --bootstrap-server {server(kafka)} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {_TIMESTAMP_TYPE}={_APPENDED}",
    )


def _broker_timestamp_types(client: ClusterClient, brokers: list[int]) -> set[str | None]:
    """Returns the brokers' values, which apply to topics without a value of their own; None is Kafka's default."""
    answers = client.broker_configs(brokers, [_BROKERS_TIMESTAMP_TYPE])
    raise_first(answers)
    return {
        configs[_BROKERS_TIMESTAMP_TYPE].value if _BROKERS_TIMESTAMP_TYPE in configs else None
        for configs in answers.values()
        if not isinstance(configs, ClusterError)
    }


def _source_name(source: SourceSettings) -> str:
    return f"source {source.topic}"


def _with_topic(topic: str, right: str) -> str:
    """Returns the right with the name of the topic, which some of Kafka's answers leave out."""
    return f"{right} {topic}" if right.endswith("on Topic") else right
