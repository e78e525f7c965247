"""Topics that other collectors write: there, readable, and stamped by Kafka's clock."""

from __future__ import annotations

from collections.abc import Iterator

from rheostat.doctor.cluster import connection
from rheostat.doctor.findings import Finding, FindingVerdict, grant, raise_first, server
from streaming.settings import SourceSettings
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, MissingPermission

_TIMESTAMP_TYPE = "message.timestamp.type"
_BROKERS_TIMESTAMP_TYPE = "log.message.timestamp.type"  # The value of a topic without a setting of its own.
_APPENDED = "LogAppendTime"


def source_elsewhere(source: SourceSettings, kafka: KafkaSettings) -> Iterator[Finding]:
    reached = connection(kafka, _source_name(source), "stream.sources' own kafka")
    yield from reached
    if any(finding.verdict is FindingVerdict.FAILED for finding in reached):
        return
    with ClusterClient(kafka, "rheostat-doctor") as client:
        try:
            brokers = sorted(e.node for e in client.brokers())
        except ClusterError as error:
            yield Finding(
                _source_name(source),
                FindingVerdict.FAILED,
                str(error),
                "check this source's own kafka: in stream.sources: address, protocol and credentials",
            )
            return
        yield from source_of(client, brokers, source, kafka)


def source_of(
    client: ClusterClient, brokers: list[int], source: SourceSettings, kafka: KafkaSettings
) -> Iterator[Finding]:
    """Whether another collector's topic is there, may be read, and has its records stamped by Kafka's clock."""
    check, topic = _source_name(source), source.topic
    try:
        if not client.partitions([topic]):
            yield Finding(
                check,
                FindingVerdict.FAILED,
                f"there is no topic {topic} at {kafka.bootstrap_servers}",
                "let the collector that writes it create it, or correct stream.sources",
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
        of_topic = client.topic_configs([topic], [_TIMESTAMP_TYPE]).get(topic, {}).get(_TIMESTAMP_TYPE)
        found = {of_topic} if of_topic is not None else _timestamp_types(client, brokers)
    except ClusterError as error:
        # The stream works without this right, but its lag cannot be shown.
        do = grant(_on(topic, error.right), kafka) if isinstance(error, MissingPermission) else "see the brokers' logs"
        yield Finding(
            check, FindingVerdict.ADVICE, f"there and readable, but its {_TIMESTAMP_TYPE} cannot be seen: {error}", do
        )
        return
    if found == {_APPENDED}:
        yield Finding(check, FindingVerdict.OK, f"there, readable, its records stamped by Kafka's clock ({_APPENDED})")
        return
    yield Finding(
        check,
        FindingVerdict.FAILED,
        f"topic {topic} has {_TIMESTAMP_TYPE}=CreateTime, so windows use the senders' clocks: a fast clock closes all windows "
        "some seconds early, and records of a slow clock are dropped as late",
        f"kafka-configs --bootstrap-server {server(kafka)} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {_TIMESTAMP_TYPE}={_APPENDED}",
    )


def _timestamp_types(client: ClusterClient, brokers: list[int]) -> set[str | None]:
    """Returns the value that holds for topics without their own, over all brokers; None is Kafka's default."""
    answers = client.broker_configs(brokers, [_BROKERS_TIMESTAMP_TYPE])
    raise_first(answers)
    return {
        found[_BROKERS_TIMESTAMP_TYPE].value if _BROKERS_TIMESTAMP_TYPE in found else None
        for found in answers.values()
        if not isinstance(found, ClusterError)
    }


def _source_name(source: SourceSettings) -> str:
    return f"source {source.topic}"


def _on(topic: str, right: str) -> str:
    """The right on this one topic, where Kafka's answer leaves its name out."""
    return f"{right} {topic}" if right.endswith("on Topic") else right
