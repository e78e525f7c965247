"""A real broker with TLS and SCRAM or PLAIN logins: correct settings connect, and each wrong one is explained."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from rheostat.connectivity.probe import ProbeOutcome, ProbeResult, probe_servers
from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient

USER, PASSWORD = "mover", "pw-mover"
SCRAM = "SCRAM-SHA-512"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate and key in one PEM file: the broker is its own authority."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "certificate.pem"],
        cwd=folder, check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "certificate.pem").read_text())
    return both


@pytest.fixture(scope="module")
def tls_lab(authority: Path) -> Iterator[Lab]:
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENT:SASL_SSL",
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        f"listener.name.client.{SCRAM.lower()}.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "listener.name.client.ssl.keystore.type": "PEM",
        "listener.name.client.ssl.keystore.location": str(authority),
    }
    with Lab(LabSpec(brokers=1, users={USER: PASSWORD}, settings=settings)) as lab:
        with lab.admin() as admin:
            admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_512, password=PASSWORD)]
            )
        yield lab


def settings_of(lab: Lab, authority: Path, **other: Any) -> KafkaSettings:
    values = {
        "bootstrap_servers": lab.sasl_bootstrap_servers, "security_protocol": "SASL_SSL", "ssl_cafile": str(authority),
        "sasl_mechanism": SCRAM, "sasl_username": USER, "sasl_password": PASSWORD,
    }  # fmt: skip
    return KafkaSettings(**{**values, **other})


@pytest.mark.parametrize("mechanism", ["PLAIN", SCRAM])
def test_complete_tls_settings_connect(tls_lab: Lab, authority: Path, mechanism: str) -> None:
    settings = settings_of(tls_lab, authority, sasl_mechanism=mechanism)
    (found,) = probe_servers(settings)
    assert found.outcome is ProbeOutcome.OPEN, found
    with ClusterClient(settings, "test") as client:
        assert [e.node for e in client.brokers()] == [1]


def only(settings: KafkaSettings) -> ProbeResult:
    (found,) = probe_servers(settings)
    return found


@pytest.mark.parametrize("mechanism", ["PLAIN", SCRAM])
def test_wrong_password_is_reported_as_failed_login(tls_lab: Lab, authority: Path, mechanism: str) -> None:
    found = only(settings_of(tls_lab, authority, sasl_mechanism=mechanism, sasl_password="another"))
    assert found.outcome is ProbeOutcome.LOGIN
    assert "refused the login: SaslAuthenticationFailedError" in found.text
    assert "another" not in found.text


def test_unsupported_sasl_mechanism_is_named(tls_lab: Lab, authority: Path) -> None:
    found = only(settings_of(tls_lab, authority, sasl_mechanism="SCRAM-SHA-256"))
    assert found.outcome is ProbeOutcome.LOGIN
    assert "does not support kafka.sasl_mechanism SCRAM-SHA-256; it offers " in found.text


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_plain_protocol_on_tls_port_is_named(tls_lab: Lab, authority: Path, protocol: str) -> None:
    found = only(settings_of(tls_lab, authority, security_protocol=protocol))
    assert found.outcome is ProbeOutcome.TLS
    assert f"requires TLS on this port, and kafka.security_protocol {protocol} has none" in found.text


def test_unknown_ca_is_refused(tls_lab: Lab, authority: Path) -> None:
    found = only(settings_of(tls_lab, authority, ssl_cafile=None))
    assert found.outcome is ProbeOutcome.TLS
    assert "is not accepted" in found.text


def test_tls_without_login_is_reported_as_failed_login(tls_lab: Lab, authority: Path) -> None:
    found = only(settings_of(tls_lab, authority, security_protocol="SSL"))
    assert found.outcome is ProbeOutcome.LOGIN
    assert "which happens if a listener requires a login, and kafka.security_protocol SSL has none" in found.text
