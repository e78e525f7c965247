"""A cluster with an authorizer: each missing right is named, and none is taken for "nothing exists"."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    NewTopic,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from lab_parts import RHEOSTAT, rheostat, running, until

from rheostat.config.settings import load_settings
from rheostat.connectivity.probe import ProbeOutcome, probe_servers
from rheostat.doctor.examine import Finding, FindingVerdict, examine
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.tools import tool_command
from streaming.shared import kafka_names
from streaming.shared.contract import Topics
from streaming.shared.contract.quotas import QuotaEntity
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient, MissingPermission
from streaming.shared.kafka.quotas import QuotaClient
from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.kafka.values import TopicCreation
from streaming.shared.lease import lease_group
from streaming.shared.topics import topic_specs

NOBODY, ADVISED, MINIMAL, OBSERVER, TOPICLESS, PRINTED = (
    "nobody",
    "advised",
    "minimal",
    "observer",
    "topicless",
    "printed",
)
USERS = (NOBODY, ADVISED, MINIMAL, OBSERVER, TOPICLESS, PRINTED)
PASSWORD = "a secret with \\ and '"
TOPIC = "orders"
# One broker: a right is then effective everywhere as soon as it is anywhere.
LAB = LabSpec(brokers=1, users={name: f"pw-{name}" for name in USERS})

# The least that lets rheostat work, as the README says ...
ON_CLUSTER = ("Describe", "DescribeConfigs", "AlterConfigs", "Alter")
ON_TOPICS = ("Describe", "DescribeConfigs", "AlterConfigs")
# ... and what its own topics need besides.
ON_OWN_TOPICS = ("Create", "Read", "Write")
LEASE = lease_group("lab")
PART_LEASES = tuple(lease_group("lab", part) for part in ("collect", "stream"))


@pytest.fixture(scope="module", autouse=True)
def orders(lab: Lab) -> None:
    with lab.admin() as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1)])


def grant(
    lab: Lab, user: str, operation: str, *, topic: str | None = None, prefixed: bool = False,
    other: tuple[ResourceType, str] = (ResourceType.CLUSTER, "kafka-cluster"),
) -> None:  # fmt: skip
    """Grants a right, by default on the cluster, and waits until Kafka applies it."""
    kind, name = other if topic is None else (ResourceType.TOPIC, topic)
    pattern = ACLResourcePatternType.PREFIXED if prefixed else ACLResourcePatternType.LITERAL
    operation_of = getattr(ACLOperation, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper())
    acl = ACL(
        f"User:{user}", "*", operation_of, ACLPermissionType.ALLOW, ResourcePattern(kind, name, pattern)
    )  # fmt: skip
    wanted = ACLFilter(
        f"User:{user}", "*", operation_of, ACLPermissionType.ALLOW, ResourcePatternFilter(kind, name, pattern)
    )  # fmt: skip
    with lab.admin() as admin:
        admin.create_acls([acl])
        until(lambda: admin.describe_acls(wanted)[0], 10, f"{operation} is granted to {user}")


def grant_minimal(lab: Lab, user: str) -> None:
    for operation in ON_CLUSTER:
        grant(lab, user, operation)
    for operation in ON_TOPICS:
        grant(lab, user, operation, topic="*")
    for operation in ON_OWN_TOPICS:
        grant(lab, user, operation, topic=f"{user}.", prefixed=True)
    for group in (LEASE, *PART_LEASES):
        grant(lab, user, "Read", other=(ResourceType.GROUP, group))
    grant(lab, user, "Write", other=(ResourceType.TRANSACTIONAL_ID, LEASE))


def kafka_of(lab: Lab, user: str, **other: Any) -> KafkaSettings:
    values = {"sasl_username": user, "sasl_password": f"pw-{user}", "request_timeout_s": 5.0, **other}
    return KafkaSettings(
        bootstrap_servers=lab.sasl_bootstrap_servers, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", **values
    )  # fmt: skip


def config_of(lab: Lab, user: str, folder: Path, **tuner: Any) -> Path:
    file = folder / f"{user}.yaml"
    kafka = kafka_of(lab, user).model_dump(mode="json", exclude_none=True) | {"sasl_password": f"pw-{user}"}
    body = {
        "cluster": "lab", "kafka": kafka, "topics": {"prefix": user},
        "collector": {"endpoints": lab.jmx_urls(), "timeout_s": 5},
        "stream": {"checkpoint_dir": str(folder / "checkpoint")},
        "tuner": {"dry_run": False, "rate_bytes_per_s_max": 50_000_000, "http": {"port": 0}, **tuner},
    }  # fmt: skip
    file.write_text(yaml.safe_dump(body))
    return file


@pytest.fixture
def client_of(lab: Lab) -> Iterator[Callable[[str], ClusterClient]]:
    made: list[ClusterClient] = []

    def make(user: str) -> ClusterClient:
        made.append(ClusterClient(kafka_of(lab, user), "test"))
        return made[-1]

    yield make
    for client in made:
        client.close()


def right_of(call: Callable[[], Any]) -> str:
    with pytest.raises(MissingPermission) as raised:
        call()
    return raised.value.right


def test_quota_calls_without_rights_name_the_missing_right(lab: Lab) -> None:
    client = QuotaClient(kafka_of(lab, NOBODY), "test")
    alice = QuotaEntity(user="alice")
    try:
        assert right_of(client.mutation_quotas) == "DescribeConfigs on Cluster"
        refused = client.alter_mutation_quotas({alice: 5.0})[alice]
    finally:
        client.close()
    assert isinstance(refused, MissingPermission)
    assert refused.right == "AlterConfigs on Cluster"


def test_every_call_without_rights_names_the_missing_right(client_of: Callable[[str], ClusterClient]) -> None:
    client = client_of(NOBODY)

    assert [e.node for e in client.brokers()] == [1]  # Needs no right; so the address and the password are good.
    assert right_of(client.reassignments) == "Describe on Cluster"
    assert right_of(lambda: client.partitions([TOPIC])) == f"Describe on Topic {TOPIC}"
    assert right_of(lambda: client.topic_configs([TOPIC], [kafka_names.LEADER_REPLICAS])) == "DescribeConfigs on Topic"
    with pytest.raises(MissingPermission, match=f"refused to describe the configs of {TOPIC!r}"):
        client.topic_configs([TOPIC], [kafka_names.LEADER_REPLICAS])
    assert right_of(lambda: client.create_topics([TopicCreation("new", 1, 1, {})])) == "Create on Topic new"
    for right, answers in (
        ("DescribeConfigs on Cluster", client.broker_configs([1], [kafka_names.LEADER_RATE])),
        ("Describe on Cluster", client.log_sizes([1], [(TOPIC, 0)])),
        ("AlterConfigs on Cluster", client.alter_broker_configs({1: {kafka_names.LEADER_RATE: "1"}})),
        ("AlterConfigs on Topic", client.alter_topic_configs({TOPIC: {kafka_names.LEADER_REPLICAS: "*"}})),
    ):
        for answer in answers.values():
            assert isinstance(answer, MissingPermission)
            assert answer.right == right


def test_sizes_of_unauthorised_topic_are_unknown_not_zero(lab: Lab, client_of: Callable[[str], ClusterClient]) -> None:
    """Asked for all topics, Kafka silently omits unauthorised ones; asked by name, it reports them."""
    grant(lab, TOPICLESS, "Describe")
    client = client_of(TOPICLESS)
    until(lambda: not refused(client.reassignments), 10, "the right is effective")

    for answer in client.log_sizes([1], [(TOPIC, 0)]).values():
        assert isinstance(answer, MissingPermission) or answer == {(TOPIC, 0): 0}


def refused(call: Callable[[], Any]) -> bool:
    try:
        call()
    except MissingPermission:
        return True
    return False


def failed(findings: list[Finding]) -> list[Finding]:
    return [f for f in findings if f.verdict is FindingVerdict.FAILED]


KINDS = {
    "cluster": ("Cluster", ResourceType.CLUSTER), "topic": ("Topic", ResourceType.TOPIC),
    "group": ("Group", ResourceType.GROUP), "transactional-id": ("TransactionalId", ResourceType.TRANSACTIONAL_ID),
}  # fmt: skip


def test_following_doctor_grants_exactly_the_minimal_rights(lab: Lab, tmp_path: Path) -> None:
    settings = load_settings(config_of(lab, ADVISED, tmp_path), {})
    granted: list[tuple[str, str, str]] = []

    def failures() -> list[Finding]:
        return failed(list(examine(settings, create=True)))

    def failures_without(helped: Collection[Finding]) -> list[Finding] | None:
        """Returns the failures of a new examination; None if one that was helped is still among them."""
        left = failures()
        before = {(f.check, f.found) for f in helped}
        return None if any((f.check, f.found) in before for f in left) else left

    open_findings = failures()
    while open_findings:
        advice = {finding: advised for finding in open_findings if (advised := advice_of(finding)) is not None}
        assert advice, f"nothing says what to do: {open_findings}"
        assert not set(advice.values()) & set(granted), f"granted, and still asked for: {open_findings}"
        # The rights on topics are many. Any other right is granted alone, as it may imply the next one.
        on_topics = {finding: advised for finding, advised in advice.items() if advised[1] == "topic"}
        helped = on_topics or dict([next(iter(advice.items()))])
        for operation, kind, name in dict.fromkeys(helped.values()):
            if kind == "topic":
                grant(lab, ADVISED, operation, topic=name)
            else:
                grant(lab, ADVISED, operation, other=(KINDS[kind][1], name or "kafka-cluster"))
            granted.append((operation, kind, name))
        (open_findings,) = until(
            lambda helped=helped: None if (left := failures_without(helped)) is None else (left,),  # type: ignore[misc]
            30,
            f"granting helps: {granted}",
        )

    assert failures() == []
    on_cluster = {operation for operation, kind, _ in granted if kind == "cluster"}
    on_any_topic = {operation for operation, kind, name in granted if (kind, name) == ("topic", "*")}
    own = {(operation, name) for operation, kind, name in granted if kind == "topic" and name != "*"}
    assert {one for one in granted if one[1] not in ("cluster", "topic")} == {
        ("Read", "group", LEASE), ("Write", "transactional-id", LEASE),
    }  # fmt: skip
    assert on_cluster == {"Describe", "DescribeConfigs", "AlterConfigs", "Alter"}
    assert on_any_topic <= {"Describe", "DescribeConfigs", "AlterConfigs"}
    assert {"DescribeConfigs", "AlterConfigs"} <= on_any_topic
    assert {topic for _, topic in own} <= {spec.name for spec in topic_specs(Topics.with_prefix(ADVISED))}


def advice_of(finding: Finding) -> tuple[str, str, str] | None:
    """Returns operation, resource type and resource name of the command that grants a right.

    None: the finding refers to others. The name is empty for the cluster.
    """
    if finding.do.startswith("see the findings about"):
        return None
    command = re.search(
        r"--allow-principal User:advised --operation (\w+) (--cluster|--(topic|group|transactional-id) '?([^' ]+)'?)$",
        finding.do,
    )
    assert command is not None, finding
    operation, kind, name = command[1], command[3] or "cluster", command[4] or ""
    assert f"{operation} on {KINDS[kind][0]}" in finding.found
    return operation, kind, name


def test_doctor_passes_with_minimal_rights(lab: Lab, tmp_path: Path) -> None:
    grant_minimal(lab, MINIMAL)
    config = config_of(lab, MINIMAL, tmp_path)
    until(lambda: failed(list(examine(load_settings(config, {})))) == [], 10, "the rights are effective")
    own = [spec.name for spec in topic_specs(Topics.with_prefix(MINIMAL))]

    def doctor(*more: str) -> dict[str, dict[str, str]]:
        done = rheostat("doctor", "--config", config, "--json", *more)
        assert done.returncode == 0, done.stderr
        return {f["check"]: f for f in json.loads(done.stdout)}

    with lab.admin() as admin:
        before = set(admin.list_topics())
    found = doctor()["own topics"]
    assert (found["verdict"], found["found"]) == ("advice", f"missing; the first start creates them: {', '.join(own)}")
    with lab.admin() as admin:
        assert set(admin.list_topics()) == before, "the doctor changes nothing unless it is asked to"
    assert not before & set(own)
    assert doctor("--create")["own topics"]["found"] == f"created: {', '.join(own)}"

    findings = doctor()
    assert {f["verdict"] for check, f in findings.items() if check != "quota window"} == {"ok"}
    assert len([check for check in findings if check.startswith("right: ")]) == 12
    assert findings["quota window"]["verdict"] == "advice"
    assert "replication.quota.window.num=3" in findings["quota window"]["do"]
    assert {f"JMX agent of node {n}" for n in (1, 100)} <= findings.keys()


@pytest.mark.campaign
def test_doctor_is_content_after_its_printed_commands(lab: Lab, tmp_path: Path) -> None:
    """Kafka's own tool runs the script that `doctor --print-acls` prints, for one user with all roles."""
    config = config_of(lab, PRINTED, tmp_path)
    body = yaml.safe_load(config.read_text())
    administrator = tmp_path / "administrator.yaml"
    administrator.write_text(yaml.safe_dump(body | {"kafka": {"bootstrap_servers": lab.bootstrap_servers}}))
    printed = rheostat("doctor", "--config", administrator, "--print-acls", "--principal", f"User:{PRINTED}")
    assert printed.returncode == 0, printed.stderr
    tool = tmp_path / "bin" / "kafka-acls"
    tool.parent.mkdir()
    tool.write_text(
        f'#!/bin/sh\nexec {shlex.join(tool_command(lab.artifacts, "org.apache.kafka.tools.AclCommand"))} "$@"\n'
    )
    tool.chmod(0o755)
    settings = load_settings(config, {})
    assert failed(list(examine(settings))) != []

    def run(script: str) -> None:
        environment = {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["sh"], input=script, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run(printed.stdout)
    until(lambda: failed(list(examine(settings, create=True))) == [], 10, "the printed rights are all that is needed")

    # The removal of docs/how-to/uninstall.md, for one of the commands.
    (on_cluster,) = (line for line in printed.stdout.splitlines() if line.endswith(" --cluster"))
    run(on_cluster.replace(" --add ", " --remove --force "))
    until(lambda: failed(list(examine(settings, create=True))) != [], 10, "a right is taken away")


def test_every_call_works_with_minimal_rights(lab: Lab, client_of: Callable[[str], ClusterClient]) -> None:
    grant_minimal(lab, MINIMAL)
    client = client_of(MINIMAL)
    until(lambda: not refused(lambda: client.partitions([TOPIC])), 10, "the rights are effective")
    until(lambda: not refused(client.reassignments), 10, "the rights are effective")

    assert client.alter_broker_configs({1: {kafka_names.LEADER_RATE: "1000000"}}) == {1: None}
    assert client.alter_topic_configs({TOPIC: {kafka_names.LEADER_REPLICAS: "0:1"}}) == {TOPIC: None}

    def configured() -> bool:
        found = client.broker_configs([1], [kafka_names.LEADER_RATE])[1]
        assert isinstance(found, dict)
        return kafka_names.LEADER_RATE in found and found[kafka_names.LEADER_RATE].value == "1000000"

    def listed() -> bool:
        return client.topic_configs([TOPIC], [kafka_names.LEADER_REPLICAS]) == {
            TOPIC: {kafka_names.LEADER_REPLICAS: "0:1"}
        }

    # Two records of the controller's, and a broker that applied the first may not yet have the second.
    until(configured, 10, "what was written to the broker's settings is read")
    until(listed, 10, "what was written to the topic's settings is read")
    assert client.log_sizes([1], [(TOPIC, 0)]) == {1: {(TOPIC, 0): 0}}
    assert client.end_offsets(client.partitions([TOPIC])) == {(TOPIC, 0): 0}


def test_dry_run_needs_no_alter_rights(lab: Lab, tmp_path: Path) -> None:
    for operation in ("Describe", "DescribeConfigs"):
        grant(lab, OBSERVER, operation)
        grant(lab, OBSERVER, operation, topic="*")
    for operation in ON_OWN_TOPICS:
        grant(lab, OBSERVER, operation, topic=f"{OBSERVER}.", prefixed=True)
    for group in PART_LEASES:
        grant(lab, OBSERVER, "Read", other=(ResourceType.GROUP, group))
    dry = load_settings(config_of(lab, OBSERVER, tmp_path, dry_run=True), {})
    until(lambda: failed(list(examine(dry, create=True))) == [], 10, "a dry run is content")
    advised = {
        f.check: f.found
        for f in examine(dry, create=True)
        if f.verdict is FindingVerdict.ADVICE and f.check.startswith("right: ")
    }
    assert advised.keys() == {
        "right: AlterConfigs on Cluster", "right: AlterConfigs on Topic", f"right: Read on Group {LEASE}",
        f"right: Write on TransactionalId {LEASE}", "right: Alter on Cluster", f"right: Describe on Group {LEASE}",
    }  # fmt: skip
    assert all(
        found.endswith("A dry run works without this right; with dry_run: false it is needed")
        for found in advised.values()
    )

    active = load_settings(config_of(lab, OBSERVER, tmp_path), {})
    assert [f.found.split("missing right: ")[1] for f in failed(list(examine(active, create=True)))] == [
        "AlterConfigs on Cluster",
        "AlterConfigs on Topic",
        f"Read on Group {LEASE}",
        f"Write on TransactionalId {LEASE}",
        "Alter on Cluster",
        f"Describe on Group {LEASE}",
    ]


def test_creation_probe_needs_create_right(lab: Lab, tmp_path: Path) -> None:
    feels = {"mutation_quota": {"objective": {"create_probe_p90_ms_max": 40}}}
    settings = load_settings(config_of(lab, NOBODY, tmp_path, **feels), {})
    (found,) = (f for f in examine(settings) if "measure how long creations wait" in f.found)
    assert (found.check, found.verdict) == (f"right: AlterConfigs on Topic {NOBODY}.journal", FindingVerdict.FAILED)
    assert "--operation AlterConfigs --topic" in found.do

    grant_minimal(lab, MINIMAL)
    settings = load_settings(config_of(lab, MINIMAL, tmp_path, **feels), {})

    def may() -> bool:
        findings = examine(settings, create=True)
        return any("may measure how long creations wait" in f.found for f in findings if f.verdict is FindingVerdict.OK)

    until(may, 10, "with the minimal set it may ask")


def test_tuner_without_plans_needs_no_plan_rights(lab: Lab, tmp_path: Path) -> None:
    no_plans = load_settings(config_of(lab, NOBODY, tmp_path, reassign={"enabled": False}), {})
    asked = {f.check for f in examine(no_plans)}
    assert f"right: Read on Group {LEASE}" in asked
    assert not {"right: Alter on Cluster", f"right: Describe on Group {LEASE}"} & asked


def test_missing_plan_rights_are_named(lab: Lab) -> None:
    with ReassignmentClient(kafka_of(lab, NOBODY), "test") as client:
        assert right_of(client.may_alter) == "Alter on Cluster"
        assert right_of(lambda: client.may_describe(LEASE)) == f"Describe on Group {LEASE}"
        assert (
            right_of(lambda: client.alter_reassignments({(TOPIC, 0): [1]}, allow_replication_factor_change=True))
            == "Alter on Cluster"
        )
        assert client.group_members(LEASE) in (None, 0)


def test_doctor_without_rights_exits_with_1(lab: Lab, tmp_path: Path) -> None:
    done = rheostat("doctor", "--config", config_of(lab, NOBODY, tmp_path), "--json")

    assert done.returncode == 1
    findings = json.loads(done.stdout)
    missing = {
        f["found"].split("missing right: ")[1].split(" (")[0] for f in findings if "missing right: " in f["found"]
    }
    assert any(right.startswith(f"Describe on Topic {NOBODY}.") for right in missing)
    # Also of topics, although it sees none: what could not be tried must not be called well.
    assert {
        f"{right} on {on}" for right in ("DescribeConfigs", "AlterConfigs") for on in ("Cluster", "Topic")
    } <= missing
    assert "Describe on Cluster" in missing
    assert all(f["do"] for f in findings if f["verdict"] == "failed")
    assert "Traceback" not in done.stderr


def test_wrong_password_is_distinguished_from_no_answer(lab: Lab, tmp_path: Path) -> None:
    config = config_of(lab, NOBODY, tmp_path)

    done = rheostat("doctor", "--config", config, env={"RHEOSTAT_KAFKA__SASL_PASSWORD": PASSWORD})

    assert done.returncode == 3
    assert PASSWORD not in done.stdout + done.stderr
    (line,) = (line for line in done.stdout.splitlines() if "reachability" in line)
    assert re.search(r"reachability: refused login: 127\.0\.0\.1:\d+ refused the login: .*[Aa]uthentication", line), (
        line
    )
    assert "kafka.sasl_password" in done.stdout


def test_refused_login_is_reported_at_once_despite_silent_brokers(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]},{lab.sasl_bootstrap_servers}"
        wrong = kafka_of(lab, NOBODY, sasl_password=PASSWORD).model_copy(update={"bootstrap_servers": servers})
        (refused,) = probe_servers(wrong, answer_s_max=60)
    assert refused.outcome is ProbeOutcome.LOGIN
    assert refused.server == lab.sasl_bootstrap_servers
    assert refused.duration_s < 30


@pytest.mark.parametrize(
    ("other", "plain_listener", "outcome", "text"),
    [
        ({"sasl_mechanism": "SCRAM-SHA-512"}, False, ProbeOutcome.LOGIN, "does not support kafka.sasl_mechanism SCRAM-SHA-512; it offers PLAIN"),
        ({"security_protocol": "PLAINTEXT"}, False, ProbeOutcome.LOGIN, "which happens if a listener requires a login, and kafka.security_protocol PLAINTEXT has none"),
        ({"security_protocol": "SSL"}, False, ProbeOutcome.TLS, "the TLS handshake with "),
        ({"security_protocol": "SASL_SSL"}, True, ProbeOutcome.TLS, "the TLS handshake with "),
        ({}, True, ProbeOutcome.LOGIN, "supports no login on this port, and kafka.security_protocol is SASL_PLAINTEXT"),
        ({"security_protocol": "PLAINTEXT"}, True, ProbeOutcome.OPEN, "answers"),
        ({}, False, ProbeOutcome.OPEN, "answers"),
    ],
)  # fmt: skip
def test_connection_obstacle_of_real_broker_is_named(
    lab: Lab, other: dict[str, str], plain_listener: bool, outcome: ProbeOutcome, text: str
) -> None:
    server = lab.bootstrap_servers if plain_listener else lab.sasl_bootstrap_servers
    (found,) = probe_servers(kafka_of(lab, NOBODY).model_copy(update={"bootstrap_servers": server, **other}))
    assert (found.outcome, found.server) == (outcome, server)
    assert text in found.text


def test_hanging_broker_is_slow_and_its_return_is_reported(lab: Lab, tmp_path: Path) -> None:
    process = lab.nodes[1].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        (hangs,) = probe_servers(kafka_of(lab, NOBODY), answer_s_max=1)
        assert hangs.outcome is ProbeOutcome.SLOW
        threading.Timer(4.0, process.send_signal, [signal.SIGCONT]).start()
        settings = load_settings(config_of(lab, NOBODY, tmp_path), {"RHEOSTAT_KAFKA__REQUEST_TIMEOUT_S": "0.5"})
        slow = next(f for f in examine(settings) if f.check == "reachability")
    finally:
        process.send_signal(signal.SIGCONT)
    assert slow.verdict is FindingVerdict.ADVICE
    assert re.search(r"answered after \d+\.\d s; rheostat gives up after kafka.request_timeout_s, 0.5 s", slow.found)


def test_status_without_rights_names_the_missing_right(lab: Lab, tmp_path: Path) -> None:
    done = rheostat("status", "--config", config_of(lab, NOBODY, tmp_path))

    assert done.returncode == 1
    assert re.search("missing right: .*on Cluster", done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1


def test_tuner_without_rights_waits_and_names_the_right(lab: Lab, tmp_path: Path) -> None:
    """The right can be granted while the tuner runs, so the tuner keeps trying."""
    with running(
        *RHEOSTAT, "tune", "--config", config_of(lab, NOBODY, tmp_path), log=tmp_path / "tune.log"
    ) as tune:  # fmt: skip
        until(lambda: "missing right: Describe on Topic nobody." in tune.said(), 20, "it names the right")
        assert tune.alive()
        grant_minimal(lab, NOBODY)
        until(lambda: any(line["event"] == "tuner started" for line in tune.lines()), 30, "it goes on")
        assert tune.end(signal.SIGTERM) == 0
