"""`rheostat doctor`: is everything here that rheostat needs, and if not, what to do.

Rights are tried, not guessed: each call is made as rheostat makes it, and Kafka's error code on the wire is read, because
three of the reads answer "nothing there" when the right is missing. Writes are tried with validate_only: Kafka checks the
right and changes nothing. The one thing the doctor does change: rheostat's own topics are created when they are not there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, EXIT_UNREACHABLE, SetupError
from rheostat.jvm.artifacts import artifacts_present
from rheostat.jvm.java import find_java
from rheostat.reach import reach
from rheostat.reach.words import is_open, remedies, why
from rheostat.settings import Settings
from streaming import words
from streaming.collector import jmx
from streaming.collector.jmx import AccessError, Cause, ScrapeError
from streaming.contract import Metric
from streaming.kafka import KafkaSettings
from streaming.kafka.cluster import ClusterClient, ClusterError, MissingRight
from streaming.settings import SourceSettings
from streaming.topics import ensure_topics, topic_specs
from tuner.lease import group_of

_TIMESTAMP_TYPE = "message.timestamp.type"
_BROKERS_TIMESTAMP_TYPE = "log.message.timestamp.type"  # What a topic without a setting of its own has.
_APPENDED = "LogAppendTime"

_REACHABILITY = "reachability"


class Verdict(StrEnum):
    OK = "ok"
    ADVICE = "advice"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    verdict: Verdict
    found: str
    do: str = ""


def examine(settings: Settings) -> Iterator[Finding]:
    yield from _machine()
    yield _checkpoint(settings)
    kafka = settings.kafka
    way_in = _way_in(kafka, _REACHABILITY, "kafka")
    yield from way_in
    if any(finding.verdict is Verdict.FAILED for finding in way_in):
        return
    with ClusterClient(kafka, "rheostat-doctor") as client:
        try:
            brokers = {e.node: e.host for e in client.brokers()}
        except ClusterError as error:
            yield Finding(
                _REACHABILITY, Verdict.FAILED, f"a bootstrap server answers, but: {error}",
                "compare the brokers' advertised.listeners with what can be reached from here",
            )  # fmt: skip
            return
        ids = ", ".join(map(str, sorted(brokers)))
        yield Finding(_REACHABILITY, Verdict.OK, f"brokers {ids} at {kafka.bootstrap_servers}")
        yield from _topics(client, settings)  # First: rights on topics are tried on one that is there.
        yield from _rights(client, sorted(brokers), settings)
        yield from _quota_window(client, sorted(brokers))
        for source in settings.stream.sources:
            if source.kafka is None:
                yield from _source(client, sorted(brokers), source, kafka)
    for source in settings.stream.sources:
        if source.kafka is not None:
            yield from _source_elsewhere(source, source.kafka)
    yield from _agents(settings, brokers)


def exit_code(findings: list[Finding]) -> int:
    failed = [f.check for f in findings if f.verdict is Verdict.FAILED]
    if _REACHABILITY in failed:
        return EXIT_UNREACHABLE
    return EXIT_NOT_WELL if failed else EXIT_DONE


def as_json(findings: list[Finding]) -> list[dict[str, Any]]:
    return [asdict(f) for f in findings]


def _machine() -> Iterator[Finding]:
    try:
        java = find_java()
        yield Finding("java", Verdict.OK, f"{java.major} at {java.executable}")
    except SetupError as error:
        yield Finding("java", Verdict.FAILED, str(error), "see above; only the stream needs Java")
    try:
        if artifacts_present():
            yield Finding("JVM artifacts", Verdict.OK, "in the cache, whole")
        else:
            yield Finding(
                "JVM artifacts", Verdict.ADVICE, "not in the cache yet",
                "they are fetched at the first start (60 MB); `rheostat doctor --fetch` does it now",
            )  # fmt: skip
    except SetupError as error:
        yield Finding("JVM artifacts", Verdict.FAILED, str(error), "remove the folder it names")


def _checkpoint(settings: Settings) -> Finding:
    folder = settings.stream.checkpoint_dir
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if os.access(nearest, os.W_OK | os.X_OK) and nearest.is_dir():
        return Finding("checkpoint folder", Verdict.OK, str(folder))
    return Finding(
        "checkpoint folder", Verdict.FAILED, f"{folder} cannot be made or written by this user",
        "let stream.checkpoint_dir name a folder that this user may write",
    )  # fmt: skip


def _way_in(kafka: KafkaSettings, check: str, key: str) -> list[Finding]:
    """Why one cannot get in, or that it takes long; empty when all is well. Args: key: of ``kafka`` in the settings file."""
    reached = reach(kafka)
    if not is_open(reached):
        return [Finding(check, Verdict.FAILED, why(reached), remedies(reached, key))]
    server, took_s = reached[-1].server, reached[-1].took_s
    if took_s <= kafka.request_timeout_s:
        return []
    return [
        Finding(
            check, Verdict.ADVICE,
            f"{server} answered after {took_s:.1f} s; rheostat gives up after {key}.request_timeout_s, "
            f"{kafka.request_timeout_s:g} s",
            f"see what keeps the broker busy, or raise {key}.request_timeout_s",
        )
    ]  # fmt: skip


def _rights(client: ClusterClient, brokers: list[int], settings: Settings) -> Iterator[Finding]:
    anywhere = {broker: {words.LEADER_RATE: "1000000"} for broker in brokers}
    own, lease = settings.topic_names().metrics, group_of(settings.cluster)

    def sizes() -> None:
        _raise_first(client.log_sizes(brokers, [(own, 0)]))

    def settings_of_brokers() -> None:
        _raise_first(client.broker_configs(brokers, [words.LEADER_RATE]))

    def alter_brokers() -> None:
        _raise_first(client.alter_broker_configs(anywhere, validate_only=True))

    def alter_topics() -> None:
        topics = {state.topic for state in client.partitions() if not state.topic.startswith("__")} or {own}
        _raise_first(
            client.alter_topic_configs(
                {t: {words.LEADER_REPLICAS: None} for t in sorted(topics)[:1]}, validate_only=True
            )
        )

    def settings_of_topics() -> None:
        client.topic_configs({state.topic for state in client.partitions()} | {own}, [words.LEADER_REPLICAS])

    tries: list[tuple[str, str, Callable[[], object]]] = [
        ("Describe on Cluster", "see reassignments", client.reassignments),
        ("Describe on Cluster (log dirs)", "see log sizes", sizes),
        ("DescribeConfigs on Cluster", "see brokers' throttles", settings_of_brokers),
        ("DescribeConfigs on Topic", "see topics' throttles", settings_of_topics),
    ]
    if not settings.tuner.dry_run:
        tries += [
            ("AlterConfigs on Cluster", "change brokers' throttles", alter_brokers),
            ("AlterConfigs on Topic", "clear topics' throttles", alter_topics),
            (f"Read on Group {lease}", "take part in the lease", lambda: client.may_join(lease)),
            (f"Write on TransactionalId {lease}", "write the journal alone", lambda: client.may_transact(lease)),
        ]
    for right, purpose, attempt in tries:
        yield _try(f"right: {right}", purpose, attempt, settings.kafka)


def _try(check: str, purpose: str, attempt: Callable[[], object], kafka: KafkaSettings) -> Finding:
    try:
        attempt()
        return Finding(check, Verdict.OK, f"may {purpose}")
    except MissingRight as error:
        return Finding(
            check, Verdict.FAILED, f"may not {purpose}: missing right: {error.right}", _grant(error.right, kafka)
        )
    except ClusterError as error:
        return Finding(check, Verdict.FAILED, f"cannot {purpose}: {error}", "see the brokers' logs")


_RESOURCE_OPTIONS = {"Cluster": "--cluster", "Group": "--group '{}'", "TransactionalId": "--transactional-id '{}'"}


def _grant(right: str, kafka: KafkaSettings) -> str:
    operation, _, resource = right.partition(" on ")
    user = kafka.sasl_username or "<principal>"
    kind, _, name = resource.partition(" ")
    where = _RESOURCE_OPTIONS.get(kind, f"--topic {name or '*'!r}").format(name)
    return (
        f"kafka-acls --bootstrap-server {_server(kafka)} --add "
        f"--allow-principal User:{user} --operation {operation} {where}"
    )


def _topics(client: ClusterClient, settings: Settings) -> Iterator[Finding]:
    names = settings.topic_names()
    try:
        complaints = ensure_topics(client, names)
    except MissingRight as error:
        yield Finding("own topics", Verdict.FAILED, str(error), _grant(error.right, settings.kafka))
        return
    except ClusterError as error:
        yield Finding("own topics", Verdict.FAILED, str(error), "see the brokers' logs")
        return
    for complaint in complaints:
        found, _, command = complaint.partition(": ")
        yield Finding("own topics", Verdict.FAILED, found, command)
    if not complaints:
        yield Finding("own topics", Verdict.OK, ", ".join(spec.name for spec in topic_specs(names)))
    for topic, operations in sorted(client.missing_operations(spec.name for spec in topic_specs(names)).items()):
        for operation in operations:
            right = f"{operation} on Topic {topic}"
            yield Finding(f"right: {right}", Verdict.FAILED, f"missing right: {right}", _grant(right, settings.kafka))


def _quota_window(client: ClusterClient, brokers: list[int]) -> Iterator[Finding]:
    key = words.QUOTA_SAMPLES
    answers = client.broker_configs(brokers, [key])
    at_default = [b for b, found in sorted(answers.items()) if not isinstance(found, ClusterError) and key not in found]
    if at_default:
        yield Finding(
            "quota window", Verdict.ADVICE, f"{key} is at its default of 11 on brokers {', '.join(map(str, at_default))}",
            f"{key}=3 in the brokers' files (a restart) calms every change of a throttle: after 5 → 20 MB/s the peak "
            "falls from 8 × to 1.9 × the new rate, after 20 → 5 MB/s the silence from 8–10 s to 2.4 s (measured on Kafka 4.2)",
        )  # fmt: skip


def _source_elsewhere(source: SourceSettings, kafka: KafkaSettings) -> Iterator[Finding]:
    way_in = _way_in(kafka, _source_name(source), "stream.sources' own kafka")
    yield from way_in
    if any(finding.verdict is Verdict.FAILED for finding in way_in):
        return
    with ClusterClient(kafka, "rheostat-doctor") as client:
        try:
            brokers = sorted(e.node for e in client.brokers())
        except ClusterError as error:
            yield Finding(
                _source_name(source), Verdict.FAILED, str(error),
                "check this source's own kafka: in stream.sources: address, protocol and credentials",
            )  # fmt: skip
            return
        yield from _source(client, brokers, source, kafka)


def _source(
    client: ClusterClient, brokers: list[int], source: SourceSettings, kafka: KafkaSettings
) -> Iterator[Finding]:
    """Whether another collector's topic is there, may be read, and has its records stamped by Kafka's clock."""
    check, topic = _source_name(source), source.topic
    try:
        if not client.partitions([topic]):
            yield Finding(
                check, Verdict.FAILED, f"there is no topic {topic} at {kafka.bootstrap_servers}",
                "let the collector that writes it create it, or correct stream.sources",
            )  # fmt: skip
            return
        # Of others' topics only this: rheostat never writes there.
        if "Read" in client.missing_operations([topic]).get(topic, []):
            raise MissingRight(f"Read on Topic {topic}", "to read metrics")
    except MissingRight as error:
        yield Finding(check, Verdict.FAILED, f"missing right: {error.right}", _grant(error.right, kafka))
        return
    except ClusterError as error:
        yield Finding(check, Verdict.FAILED, str(error), "see the brokers' logs")
        return
    try:
        of_topic = client.topic_configs([topic], [_TIMESTAMP_TYPE]).get(topic, {}).get(_TIMESTAMP_TYPE)
        found = {of_topic} if of_topic is not None else _timestamp_types(client, brokers)
    except ClusterError as error:
        # The stream works without this right; it is only that nobody can say how well.
        do = _grant(_on(topic, error.right), kafka) if isinstance(error, MissingRight) else "see the brokers' logs"
        yield Finding(
            check, Verdict.ADVICE, f"there and readable, but its {_TIMESTAMP_TYPE} cannot be seen: {error}", do
        )
        return
    if found == {_APPENDED}:
        yield Finding(check, Verdict.OK, f"there, readable, its records stamped by Kafka's clock ({_APPENDED})")
        return
    yield Finding(
        check, Verdict.FAILED,
        f"topic {topic} has {_TIMESTAMP_TYPE}=CreateTime, so windows go by its senders' clocks: one that is fast closes "
        "everybody's windows seconds early (how many is bounded, but not undone), one that is slow is left out as late",
        f"kafka-configs --bootstrap-server {_server(kafka)} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {_TIMESTAMP_TYPE}={_APPENDED}",
    )  # fmt: skip


def _timestamp_types(client: ClusterClient, brokers: list[int]) -> set[str | None]:
    """What a topic gets that says nothing itself, over all brokers; None is Kafka's default."""
    answers = client.broker_configs(brokers, [_BROKERS_TIMESTAMP_TYPE])
    _raise_first(answers)
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


def _server(kafka: KafkaSettings) -> str:
    return kafka.bootstrap_servers.split(",")[0]


def _agents(settings: Settings, brokers: dict[int, str]) -> Iterator[Finding]:
    urls = settings.collector.agent_urls(brokers)
    try:
        access = settings.collector.access_files().load()
    except AccessError as error:
        yield Finding(
            "access to the JMX agents", Verdict.FAILED, str(error), "correct it: without it the collector does not start"
        )  # fmt: skip
        return

    def names_at(url: str) -> set[str] | Exception:
        try:
            return {sample.name for sample in jmx.scrape(url, settings.collector.timeout_s, access)}
        except (OSError, ValueError) as error:
            return error

    nodes = sorted(urls)
    with ThreadPoolExecutor(settings.collector.scrapes_at_once) as pool:
        answers = pool.map(names_at, [urls[node] for node in nodes])
        for node, names in zip(nodes, answers, strict=True):
            yield _agent(node, urls[node], names, is_broker=node in brokers)
    without = sorted(brokers.keys() - urls.keys())
    if without:
        yield Finding(
            "JMX agents", Verdict.ADVICE, f"none configured for brokers {', '.join(map(str, without))}",
            "set collector.jmx_port or collector.endpoints: without it latency and throttled bytes are not known, and a stall is "
            "raised only where the throttle cannot carry the writes",
        )  # fmt: skip


def _agent(node: int, url: str, names: set[str] | Exception, *, is_broker: bool) -> Finding:
    check = f"JMX agent of node {node}"
    if isinstance(names, ScrapeError) and names.cause in (Cause.TLS, Cause.AUTH):
        return Finding(check, Verdict.FAILED, f"{url}: {names}", "compare the agent's own settings with collector's")
    if isinstance(names, Exception):
        return Finding(
            check, Verdict.FAILED, f"{url}: {names}",
            "start the node with the JMX agent and conf/collectors/jmx-exporter.yaml, or correct collector.endpoints",
        )  # fmt: skip
    if is_broker and Metric.CLIENT_IN not in names:
        return Finding(
            check, Verdict.FAILED, f"{url} answers, but without {Metric.CLIENT_IN}",
            "let the agent use conf/collectors/jmx-exporter.yaml",
        )  # fmt: skip
    return Finding(check, Verdict.OK, f"{len(names)} metrics at {url}")


def _raise_first(answers: dict[Any, Any]) -> None:
    for answer in answers.values():
        if isinstance(answer, ClusterError):
            raise answer
