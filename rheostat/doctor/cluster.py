"""Checks the cluster: connection, rheostat's own topics, rights, and Kafka's quota window."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
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
from streaming.shared.lease import lease_group
from streaming.shared.short_lists import join_names
from streaming.shared.topics import create_topics, missing_topics, topic_complaints, topic_specs
from tuner.runtime.mutation_quota.creation_probe import BROKERS_MAX

_OWN_TOPICS = "own topics"


class _RightTest(NamedTuple):
    """A right, and the call that tests whether rheostat has it.

    Attributes:
        right: the name of the right, such as ``Alter on Cluster``.
        purpose: the purpose for which rheostat needs the right.
        attempt: a call that needs the right and changes nothing that exists.
        creates: an internal topic that Kafka creates for the call if the topic is missing; None if Kafka creates no topic.
    """

    right: str
    purpose: str
    attempt: Callable[[], object]
    creates: str | None = None


def connection(kafka: KafkaSettings, check: str, key: str) -> list[Finding]:
    """Returns a finding if no connection is possible or the connection is slow; empty if all is well.

    Args:
        check: the name of the finding.
        key: the key of ``kafka`` in the settings file.
    """
    results = probe_servers(kafka)
    if not is_connected(results):
        return [Finding(check, FindingVerdict.FAILED, failure_text(results), remedies(results, key))]
    server, duration_s = results[-1].server, results[-1].duration_s
    if duration_s <= kafka.request_timeout_s:
        return []
    return [
        Finding(
            check,
            FindingVerdict.ADVICE,
            f"{server} answered after {duration_s:.1f} s; rheostat gives up after {key}.request_timeout_s, "
            f"{kafka.request_timeout_s:g} s",
            f"find out what keeps the broker busy, or raise {key}.request_timeout_s",
        )
    ]


_ONE_HOST = (
    "Without this right rheostat works on one host. On two hosts, the processes of both hosts would do the same work"
)


def rights(client: ReassignmentClient, brokers: list[int], settings: Settings, *, create: bool) -> Iterator[Finding]:
    """Tests each right that the settings need.

    Args:
        create: also test rights whose test may let Kafka create an internal topic.
    """
    example_rates = {broker: {kafka_names.LEADER_RATE: "1000000"} for broker in brokers}
    names, lease = settings.topic_names(), lease_group(settings.cluster)
    own_topic = names.journal if settings.has_own_metrics_cluster else names.metrics
    groups, transactions = kafka_names.GROUPS_TOPIC, kafka_names.TRANSACTIONS_TOPIC

    def read_log_sizes() -> None:
        raise_first(client.log_sizes(brokers, [(own_topic, 0)]))

    def read_broker_configs() -> None:
        raise_first(client.broker_configs(brokers, [kafka_names.LEADER_RATE]))

    def alter_broker_configs() -> None:
        raise_first(client.alter_broker_configs(example_rates, validate_only=True))

    def alter_topic_configs() -> None:
        existing = sorted(state.topic for state in client.partitions() if not state.topic.startswith("__"))
        topic = existing[0] if existing else own_topic
        answers = client.alter_topic_configs({topic: {kafka_names.LEADER_REPLICAS: None}}, validate_only=True)
        if not existing:
            # Kafka checks the right before the topic: for a missing topic, any other error shows that the right is present.
            answers = {topic: answer for topic, answer in answers.items() if isinstance(answer, MissingPermission)}
        raise_first(answers)

    def read_topic_configs() -> None:
        topics = {state.topic for state in client.partitions()} | {own_topic}
        client.topic_configs(topics, [kafka_names.LEADER_REPLICAS])

    reads = [
        _RightTest("Describe on Cluster", "see reassignments", client.reassignments),
        _RightTest("Describe on Cluster (log dirs)", "see log sizes", read_log_sizes),
        _RightTest("DescribeConfigs on Cluster", "see brokers' throttles", read_broker_configs),
        _RightTest("DescribeConfigs on Topic", "see topics' throttles", read_topic_configs),
    ]
    writes = [
        _RightTest("AlterConfigs on Cluster", "change brokers' throttles", alter_broker_configs),
        _RightTest("AlterConfigs on Topic", "clear topics' throttles", alter_topic_configs),
        _RightTest(f"Read on Group {lease}", "take part in the lease", lambda: client.may_join(lease), groups),
        _RightTest(
            f"Write on TransactionalId {lease}",
            "write the journal as the only tuner",
            lambda: client.may_transact(lease),
            transactions,
        ),
    ]
    if settings.tuner.reassign.enabled:
        plans = "execute reassignment plans (tuner.reassign.enabled)"
        writes += [
            _RightTest("Alter on Cluster", plans, client.may_alter),
            _RightTest(
                f"Describe on Group {lease}",
                "see which tuner executes plans",
                lambda: client.may_describe(lease),
                groups,
            ),
        ]
    elif settings.tuner.leadership == "act":
        writes.append(_RightTest("Alter on Cluster", "elect leaders (tuner.leadership: act)", client.may_alter))
    for test in reads:
        yield _test_right(test, settings.kafka)

    def is_skipped(test: _RightTest) -> bool:
        return test.creates is not None and not create and not _exists(client, test.creates)

    for test in writes:
        if is_skipped(test):
            yield _not_tested(test)
            continue
        finding = _test_right(test, settings.kafka)
        yield _advice_in_dry_run(finding) if settings.tuner.dry_run else finding
    if not settings.has_own_metrics_cluster:
        yield from leases_of_shared_parts(client, settings, create=create)
    quotas = settings.tuner.mutation_quota
    if quotas is not None and quotas.objective.create_probe_p90_ms_max is not None:
        yield _probe_right(brokers, settings.kafka, settings.topic_names().journal)


def leases_of_shared_parts(client: ClusterClient, settings: Settings, *, create: bool) -> Iterator[Finding]:
    """Tests the rights on the leases of collector and stream, which are in the metrics cluster.

    Args:
        client: a client of the metrics cluster.
        create: also test the rights if Kafka creates an internal topic for the test.
    """
    groups = kafka_names.GROUPS_TOPIC
    for part in ("collect", "stream"):
        group = lease_group(settings.metrics_cluster, part)
        purpose = f"run `rheostat {part}` on two hosts, one of them on standby"
        test = _RightTest(f"Read on Group {group}", purpose, partial(client.may_join, group), groups)
        if not create and not _exists(client, groups):
            yield _not_tested(test)
        else:
            yield _as_advice(_test_right(test, settings.metrics_kafka), _ONE_HOST)


def _advice_in_dry_run(finding: Finding) -> Finding:
    """Returns the finding for a dry run: a missing right to write is only advice then."""
    return _as_advice(finding, "A dry run works without this right; with dry_run: false it is needed")


def _as_advice(finding: Finding, reason: str) -> Finding:
    """Returns the finding with a missing right as advice, for this reason."""
    if finding.verdict is not FindingVerdict.FAILED:
        return finding
    return replace(finding, verdict=FindingVerdict.ADVICE, found=f"{finding.found}. {reason}")


def _not_tested(test: _RightTest) -> Finding:
    return Finding(
        f"right: {test.right}",
        FindingVerdict.ADVICE,
        f"not tested, because the test would make Kafka create the topic {test.creates}",
        "nothing is needed; `rheostat doctor --create` tests this right as well",
    )


def _probe_right(brokers: list[int], kafka: KafkaSettings, topic: str) -> Finding:
    """Sends a create probe as the tuner does, which alters nothing. Returns advice if no broker answers."""
    check = f"right: AlterConfigs on Topic {topic}"
    purpose = "measure how long creations wait (tuner.mutation_quota.objective.create_probe_p90_ms_max)"
    failure = "no broker is alive"
    client = ControllerPing(kafka, "rheostat-doctor", topic)
    try:
        for broker in brokers[:BROKERS_MAX]:
            error = client.connect(broker) or client.ping(broker)
            if error is None:
                return Finding(check, FindingVerdict.OK, f"may {purpose}")
            if isinstance(error, MissingPermission):
                return _missing_right(check, purpose, error, kafka)
            failure = str(error)
    finally:
        client.close()
    return Finding(
        check, FindingVerdict.ADVICE, f"could not {purpose}: {failure}", "try again when the controller is less busy"
    )


def _exists(client: ClusterClient, topic: str) -> bool:
    """Returns whether a topic is known to exist; False also if the right to see it is missing, which another check reports."""
    try:
        return bool(client.partitions([topic]))
    except ClusterError:
        return False


def _test_right(test: _RightTest, kafka: KafkaSettings) -> Finding:
    check = f"right: {test.right}"
    try:
        test.attempt()
        return Finding(check, FindingVerdict.OK, f"may {test.purpose}")
    except MissingPermission as error:
        return _missing_right(check, test.purpose, error, kafka)
    except ClusterError as error:
        return Finding(check, FindingVerdict.FAILED, f"cannot {test.purpose}: {error}", "see the brokers' logs")


def _missing_right(check: str, purpose: str, error: MissingPermission, kafka: KafkaSettings) -> Finding:
    return Finding(
        check, FindingVerdict.FAILED, f"may not {purpose}: missing right: {error.right}", grant(error.right, kafka)
    )


def topics(
    client: ClusterClient, settings: Settings, kafka: KafkaSettings, used: Collection[str], *, create: bool
) -> Iterator[Finding]:
    """Checks rheostat's own topics in one cluster, and the rights on the existing topics.

    Args:
        kafka: the connection of ``client``.
        used: the topics that this cluster has.
        create: missing topics are created; otherwise only the right to create them is tested, and nothing changes.
    """
    names = settings.topic_names()
    specs = [spec for spec in topic_specs(names) if spec.name in used]
    try:
        missing = missing_topics(client, specs)
        create_topics(client, names, missing, validate_only=not create)
        complaints = topic_complaints(client, names, [spec for spec in specs if spec not in missing])
    except MissingPermission as error:
        yield Finding(_OWN_TOPICS, FindingVerdict.FAILED, str(error), grant(error.right, kafka))
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
            f"missing; the first start creates them: {absent}",
            "nothing is needed; `rheostat doctor --create` creates them now, and then checks the rights on them",
        )
    elif not complaints:
        yield Finding(_OWN_TOPICS, FindingVerdict.OK, ", ".join(present))
    optional_reads = {
        names.inputs: "Only `rheostat replay` needs it",
        names.rejects: "It is only needed to look at records that the stream refused",
    }
    for topic, operations in sorted(client.missing_operations(present).items()):
        for operation in operations:
            right = f"{operation} on Topic {topic}"
            finding = Finding(f"right: {right}", FindingVerdict.FAILED, f"missing right: {right}", grant(right, kafka))
            only_for = optional_reads.get(topic) if operation == "Read" else None
            yield finding if only_for is None else _as_advice(finding, only_for)


def names_on_record(settings: Settings, brokers: list[int]) -> Iterator[Finding]:
    """Checks the journal for records that keep a tuner from acting: unreadable records, and records of another cluster name.

    Args:
        brokers: the brokers that are alive.
    """
    try:
        recorded = send.read_orders(settings, brokers)
    except (CommandError, KafkaError) as error:
        yield Finding(
            "cluster name",
            FindingVerdict.FAILED,
            f"the journal cannot be read: {error}",
            "see the findings about rheostat's topics and rights, and the brokers' logs",
        )
        return
    if recorded.blocked is not None:
        yield Finding(
            "journal",
            FindingVerdict.FAILED,
            recorded.blocked,
            "run `rheostat journal check`, then `rheostat journal repair`",
        )
    other_names = ", ".join(f"{name!r} has {holdings}" for name, holdings in recorded.holdings_by_alias.items())
    if not other_names:
        yield Finding(
            "cluster name", FindingVerdict.OK, f"no settings are managed under a name other than {settings.cluster!r}"
        )
    elif recorded.holdings:
        yield Finding(
            "cluster name",
            FindingVerdict.ADVICE,
            f"the journal of this Kafka cluster also has settings under other names: {other_names}. The name "
            f"{settings.cluster!r} has {recorded.holdings}",
            "run `rheostat release` with `cluster` set to the other name: it restores the settings of that name",
        )
    else:
        yield Finding(
            "cluster name",
            FindingVerdict.FAILED,
            f"{settings.cluster!r} has nothing on record on this Kafka cluster, and {other_names}: a tuner named "
            f"{settings.cluster!r} waits until these settings are restored",
            f"set cluster: {next(iter(recorded.holdings_by_alias))}, or run `rheostat release` once with that name",
        )


def quota_window(client: ClusterClient, brokers: list[int]) -> Iterator[Finding]:
    """Advises samples of one second, and a shorter quota window if brokers have Kafka's default of 11 samples."""
    key, sample_key = kafka_names.QUOTA_SAMPLES, kafka_names.QUOTA_SAMPLE_S
    answers = client.broker_configs(brokers, [key, sample_key])
    long_samples = [
        f"broker {b}: {configs[sample_key].value} s"
        for b, configs in sorted(answers.items())
        if not isinstance(configs, ClusterError) and sample_key in configs and configs[sample_key].value != "1"
    ]
    if long_samples:
        yield Finding(
            "quota samples",
            FindingVerdict.ADVICE,
            f"{sample_key} is not 1 ({join_names(long_samples, 5)}): with tuner.objective the tuner only raises the throttles of "
            "stalled moves there",
            f"set {sample_key}=1 in the brokers' files and restart them; {key} sets the length of the window",
        )
    at_default = [
        b for b, configs in sorted(answers.items()) if not isinstance(configs, ClusterError) and key not in configs
    ]
    if at_default:
        yield Finding(
            "quota window",
            FindingVerdict.ADVICE,
            f"{key} is at its default of 11 on brokers {', '.join(map(str, at_default))}",
            f"set {key}=3 in the brokers' files and restart the brokers: replication then follows a new throttle sooner. "
            "Measured on Kafka 4.2: when a throttle rises from 5 to 20 MB/s, the traffic peaks at 1.9 × the new rate, not at 8 ×; "
            "when it falls from 20 to 5 MB/s, replication pauses for 2.4 s instead of 8 to 10 s",
        )
