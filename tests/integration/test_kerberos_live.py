"""GSSAPI on a real broker with a real Kerberos server: both Kafka clients log in with a keytab, and faults are named."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kerberos_kit import ANOTHER, STRANGER, Kerberos, kerberos_in, kerberos_settings, kerberos_spec, needs_kerberos
from lab_parts import until

from rheostat.connectivity.probe import ProbeOutcome, probe_servers
from rheostat.lab.cluster import Lab
from streaming.shared.kafka.cluster import ClusterClient

pytestmark = [pytest.mark.campaign, needs_kerberos]


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos]:
    with kerberos_in(tmp_path_factory.mktemp("kdc")) as running:
        yield running


@pytest.fixture(scope="module")
def kerberos_lab(kerberos: Kerberos) -> Iterator[Lab]:
    with Lab(kerberos_spec(kerberos)) as lab:
        yield lab


def test_python_clients_log_in_with_the_keytab(kerberos_lab: Lab, kerberos: Kerberos) -> None:
    settings = kerberos_settings(kerberos_lab, kerberos)
    (found,) = until(lambda: probe_servers(settings), 20, "the probe ends")
    assert found.outcome is ProbeOutcome.OPEN, found
    with ClusterClient(settings, "test") as client:
        assert [e.node for e in client.brokers()] == [1]
        assert client.reassignments() == []


def test_java_client_logs_in_with_the_keytab(kerberos_lab: Lab, kerberos: Kerberos, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    java = kerberos_settings(kerberos_lab, kerberos).for_java()
    properties.write_text("".join(f"{name}={value}\n" for name, value in java.items()))
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", f"-Djava.security.krb5.conf={kerberos.conf}", "-cp",
         kerberos_lab.artifacts.kafka_class_path, "org.apache.kafka.tools.TopicCommand", "--list",
         "--bootstrap-server", kerberos_lab.sasl_bootstrap_servers, "--command-config", str(properties)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (
            {"sasl_kerberos_service_name": "hdfs"},
            r"kafka\.sasl_mechanism GSSAPI: the Kerberos login failed: Server hdfs/localhost@TEST not found in Kerberos database",
        ),
        (
            {"sasl_kerberos_keytab": "/missing/keytab"},
            r"kafka\.sasl_kerberos_keytab: /missing/keytab cannot be read: No such file",
        ),
        (
            {"sasl_kerberos_principal": STRANGER},
            r"GSSAPI: the Kerberos login as stranger@TEST, whose key must be in /.*/rheostat\.keytab, failed",
        ),
    ],
)
def test_kerberos_fault_is_named(kerberos_lab: Lab, kerberos: Kerberos, other: dict[str, str], why: str) -> None:
    (found,) = probe_servers(kerberos_settings(kerberos_lab, kerberos, **other))
    assert found.outcome is ProbeOutcome.NO_CREDENTIALS, found
    assert re.search(why, found.text), found.text


def test_absent_kdc_is_named(kerberos_lab: Lab, kerberos: Kerberos) -> None:
    kerberos.stop()
    try:
        # No earlier login of this process has a ticket for this principal.
        (found,) = probe_servers(kerberos_settings(kerberos_lab, kerberos, sasl_kerberos_principal=ANOTHER))
    finally:
        kerberos.start()
    assert found.outcome is ProbeOutcome.NO_CREDENTIALS, found
    assert re.search(r"login as another@TEST, .* failed: Cannot contact any KDC for realm 'TEST'", found.text), (
        found.text
    )
