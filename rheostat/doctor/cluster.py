"""Checks the cluster: connection, rheostat's own topics, rights, and Kafka's quota window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from kafka.errors import KafkaError

from rheostat.config.settings import Settings
from rheostat.connectivity.advice import failure_text, is_connected, remedies
from rheostat.connectivity.probe import probe_servers
from rheostat.doctor.findings import Finding, FindingVerdict, grant, raise_first
from rheostat.errors import CommandError
from rheostat.orders import send
from streaming.shared import kafka_names
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, MissingPermission
from streaming.shared.kafka.controller_ping import ControllerPing
from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.topics import create_topics, missing_topics, topic_complaints, topic_specs
from tuner.runtime.lease import group_of
from tuner.runtime.mutation_quota.creation_probe import BROKERS_MAX

_OWN_TOPICS = "own topics"


class _Try(NamedTuple):
    """One right, and how it is tried.

    Attributes:
        right: such as ``Alter on Cluster``.
        purpose: what rheostat needs it for.
        attempt: a call that needs the right and changes nothing of what is there.
        creates: the internal topic that Kafka creates for the call where it is missing.
    """

    right: str
    purpose: str
    attempt: Callable[[], object]
    creates: str | None = None


def connection(kafka: KafkaSettings, check: str, key: str) -> list[Finding]:
    """Returns why no connection is possible, or that it is slow; empty when all is well.

    Args:
        key: the key of ``kafka`` in the settings file.
    """
    reached = probe_servers(kafka)
    if not is_connected(reached):
        return [Finding(check, FindingVerdict.FAILED, failure_text(reached), remedies(reached, key))]
    server, took_s = reached[-1].server, reached[-1].duration_s
    if took_s <= kafka.request_timeout_s:
        return []
    return [
        Finding(
            check,
            FindingVerdict.ADVICE,
            f"{server} answered after {took_s:.1f} s; rheostat gives up after {key}.request_timeout_s, "
            f"{kafka.request_timeout_s:g} s",
            f"see what keeps the broker busy, or raise {key}.request_timeout_s",
        )
    ]


def rights(client: ReassignmentClient, brokers: list[int], settings: Settings, *, create: bool) -> Iterator[Finding]:
    """Tries each right that the settings need.

    Args:
        create: also those for which Kafka may have to create an internal topic of its own.
    """
    anywhere = {broker: {kafka_names.LEADER_RATE: "1000000"} for broker in brokers}
    own, lease = settings.topic_names().metrics, group_of(settings.cluster)

    def sizes() -> None:
        raise_first(client.log_sizes(brokers, [(own, 0)]))

    def settings_of_brokers() -> None:
        raise_first(client.broker_configs(brokers, [kafka_names.LEADER_RATE]))

    def alter_brokers() -> None:
        raise_first(client.alter_broker_configs(anywhere, validate_only=True))

    def alter_topics() -> None:
        there = sorted(state.topic for state in client.partitions() if not state.topic.startswith("__"))
        topic = there[0] if there else own
        answers = client.alter_topic_configs({topic: {kafka_names.LEADER_REPLICAS: None}}, validate_only=True)
        # Kafka checks the right first: any other error about a missing topic means that the right is there.
        raise_first(answers if there else {t: a for t, a in answers.items() if isinstance(a, MissingPermission)})

    def settings_of_topics() -> None:
        client.topic_configs({state.topic for state in client.partitions()} | {own}, [kafka_names.LEADER_REPLICAS])

    groups, transactions = kafka_names.GROUPS_TOPIC, kafka_names.TRANSACTIONS_TOPIC
    reads = [
        _Try("Describe on Cluster", "see reassignments", client.reassignments),
        _Try("Describe on Cluster (log dirs)", "see log sizes", sizes),
        _Try("DescribeConfigs on Cluster", "see brokers' throttles", settings_of_brokers),
        _Try("DescribeConfigs on Topic", "see topics' throttles", settings_of_topics),
    ]
    writes = [
        _Try("AlterConfigs on Cluster", "change brokers' throttles", alter_brokers),
        _Try("AlterConfigs on Topic", "clear topics' throttles", alter_topics),
        _Try(f"Read on Group {lease}", "take part in the lease", lambda: client.may_join(lease), groups),
        _Try(
            f"Write on TransactionalId {lease}",
            "write the journal alone",
            lambda: client.may_transact(lease),
            transactions,
        ),
    ]
    if settings.tuner.reassign.enabled:
        plans = "carry out plans of reassignments (tuner.reassign.enabled)"
        writes += [
            _Try("Alter on Cluster", plans, client.may_alter),
            _Try(f"Describe on Group {lease}", "see who carries out plans", lambda: client.may_describe(lease), groups),
        ]
    for one in reads:
        yield _try_right(one, settings.kafka)
    for one in writes:
        if one.creates is not None and not create and not _is_there(client, one.creates):
            yield Finding(
                f"right: {one.right}",
                FindingVerdict.ADVICE,
                f"not tried: Kafka would create its topic {one.creates} for it",
                "nothing, or let it be tried: rheostat doctor --create",
            )
            continue
        found = _try_right(one, settings.kafka)
        yield _advice_in_dry_run(found) if settings.tuner.dry_run else found
    quotas = settings.tuner.mutation_quota
    if quotas is not None and quotas.objective.create_probe_p90_ms_max is not None:
        yield _probe_right(brokers, settings.kafka, settings.topic_names().journal)


def _advice_in_dry_run(found: Finding) -> Finding:
    """Returns a finding about a write right for a dry run, where a missing right is only advice."""
    if found.verdict is not FindingVerdict.FAILED:
        return found
    return replace(
        found,
        verdict=FindingVerdict.ADVICE,
        found=f"{found.found}. A dry run works without it; with dry_run: false it is needed",
    )


def _probe_right(brokers: list[int], kafka: KafkaSettings, topic: str) -> Finding:
    """Sends a create probe as the tuner does; it alters nothing. A broker that does not answer is no missing right."""
    check = f"right: AlterConfigs on Topic {topic}"
    purpose = "measure how long creations wait (tuner.mutation_quota.objective.create_probe_p90_ms_max)"
    failure = "no broker is alive"
    asker = ControllerPing(kafka, "rheostat-doctor", topic)
    try:
        for broker in brokers[:BROKERS_MAX]:
            failed = asker.connect(broker) or asker.ping(broker)
            if failed is None:
                return Finding(check, FindingVerdict.OK, f"may {purpose}")
            if isinstance(failed, MissingPermission):
                return _missing_right(check, purpose, failed, kafka)
            failure = str(failed)
    finally:
        asker.close()
    return Finding(
        check, FindingVerdict.ADVICE, f"could not {purpose}: {failure}", "try again when the controller is less busy"
    )


def _is_there(client: ClusterClient, topic: str) -> bool:
    """Whether a topic surely exists; False also if the right to see it is missing, which another check reports."""
    try:
        return bool(client.partitions([topic]))
    except ClusterError:
        return False


def _try_right(one: _Try, kafka: KafkaSettings) -> Finding:
    check = f"right: {one.right}"
    try:
        one.attempt()
        return Finding(check, FindingVerdict.OK, f"may {one.purpose}")
    except MissingPermission as error:
        return _missing_right(check, one.purpose, error, kafka)
    except ClusterError as error:
        return Finding(check, FindingVerdict.FAILED, f"cannot {one.purpose}: {error}", "see the brokers' logs")


def _missing_right(check: str, purpose: str, error: MissingPermission, kafka: KafkaSettings) -> Finding:
    return Finding(
        check, FindingVerdict.FAILED, f"may not {purpose}: missing right: {error.right}", grant(error.right, kafka)
    )


def topics(client: ClusterClient, settings: Settings, *, create: bool) -> Iterator[Finding]:
    """Checks rheostat's own topics and the rights on those that are there.

    Args:
        create: missing topics are created; otherwise only the right to create them is tried, and nothing changes.
    """
    names = settings.topic_names()
    specs = topic_specs(names)
    try:
        missing = missing_topics(client, specs)
        create_topics(client, names, missing, validate_only=not create)
        complaints = topic_complaints(client, names, [spec for spec in specs if spec not in missing])
    except MissingPermission as error:
        yield Finding(_OWN_TOPICS, FindingVerdict.FAILED, str(error), grant(error.right, settings.kafka))
        return
    except ClusterError as error:
        yield Finding(_OWN_TOPICS, FindingVerdict.FAILED, str(error), "see the brokers' logs")
        return
    for complaint in complaints:
        found, _, command = complaint.partition(": ")
        yield Finding(_OWN_TOPICS, FindingVerdict.FAILED, found, command)
    present = [spec.name for spec in specs if create or spec not in missing]
    absent = ", ".join(spec.name for spec in missing)
    if missing and create:
        yield Finding(_OWN_TOPICS, FindingVerdict.OK, f"created: {absent}")
    elif missing:
        yield Finding(
            _OWN_TOPICS,
            FindingVerdict.ADVICE,
            f"missing, made at the first start: {absent}",
            "nothing, or make them now: rheostat doctor --create. The rights to read and write them can be checked then",
        )
    elif not complaints:
        yield Finding(_OWN_TOPICS, FindingVerdict.OK, ", ".join(present))
    for topic, operations in sorted(client.missing_operations(present).items()):
        for operation in operations:
            right = f"{operation} on Topic {topic}"
            yield Finding(
                f"right: {right}", FindingVerdict.FAILED, f"missing right: {right}", grant(right, settings.kafka)
            )


def names_on_record(settings: Settings, brokers: list[int]) -> Iterator[Finding]:
    """Checks the journal for what keeps a tuner from acting: an unreadable record, or records under another cluster name.

    Args:
        brokers: the brokers that are alive.
    """
    try:
        known = send.read_orders(settings, brokers)
    except (CommandError, KafkaError) as error:
        yield Finding(
            "cluster name",
            FindingVerdict.FAILED,
            f"the journal cannot be read: {error}",
            "see the findings about own topics and their rights, and the brokers' logs",
        )
        return
    if known.blocked is not None:
        yield Finding(
            "journal", FindingVerdict.FAILED, known.blocked, "rheostat journal check, then rheostat journal repair"
        )
    others = ", ".join(f"{name!r} has {what}" for name, what in known.holdings_by_alias.items())
    if not others:
        yield Finding(
            "cluster name", FindingVerdict.OK, f"nothing is on record under another name than {settings.cluster!r}"
        )
    elif known.holdings:
        yield Finding(
            "cluster name",
            FindingVerdict.ADVICE,
            f"of this Kafka cluster {others}, besides {settings.cluster!r} with {known.holdings}",
            "take back what a tuner of that name left: `rheostat release` with `cluster` set to that name",
        )
    else:
        yield Finding(
            "cluster name",
            FindingVerdict.FAILED,
            f"{settings.cluster!r} has nothing on record on this Kafka cluster, {others}: a tuner of this name waits for it",
            f"set cluster: {next(iter(known.holdings_by_alias))}, or run `rheostat release` with it once",
        )


def quota_window(client: ClusterClient, brokers: list[int]) -> Iterator[Finding]:
    """Advises a shorter quota window where brokers have Kafka's default of 11 samples."""
    key = kafka_names.QUOTA_SAMPLES
    answers = client.broker_configs(brokers, [key])
    at_default = [b for b, found in sorted(answers.items()) if not isinstance(found, ClusterError) and key not in found]
    if at_default:
        yield Finding(
            "quota window",
            FindingVerdict.ADVICE,
            f"{key} is at its default of 11 on brokers {', '.join(map(str, at_default))}",
            f"{key}=3 in the brokers' files (a restart) calms every change of a throttle: after 5 → 20 MB/s the peak "
            "falls from 8 × to 1.9 × the new rate, after 20 → 5 MB/s the silence from 8–10 s to 2.4 s (measured on Kafka 4.2)",
        )
