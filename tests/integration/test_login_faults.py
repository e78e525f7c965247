"""A login that the brokers refuse ends each process with exit code 3 and one sentence, which names the cause."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_parts import rheostat
from tls_kit import Papers, papers

from rheostat.errors import EXIT_UNREACHABLE
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config

USER, PASSWORD = "mover", "right-geheim"
# The listener of broker 1 has a valid certificate, that of broker 2 an expired one.
EXPIRED_BROKER = 2

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def strict_lab(signed: Papers) -> Iterator[Lab]:
    client = "listener.name.client"
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENT:SASL_SSL",
        f"{client}.ssl.keystore.type": "PEM",
        f"{client}.ssl.keystore.location": str(signed.broker),
        f"{client}.ssl.truststore.type": "PEM",
        f"{client}.ssl.truststore.location": str(signed.authority),
        f"{client}.ssl.client.auth": "required",
        "super.users": f"User:ANONYMOUS;User:{USER}",
    }
    expired = {EXPIRED_BROKER: {f"{client}.ssl.keystore.location": str(signed.expired_broker)}}
    with Lab(LabSpec(brokers=2, users={USER: PASSWORD}, settings=settings, settings_by_node=expired)) as lab:
        yield lab


def login_of(fault: str, lab: Lab, signed: Papers) -> dict[str, Any]:
    """Returns the section `kafka` with one fault."""
    valid, expired = lab.sasl_bootstrap_servers.split(",")
    login = {
        "bootstrap_servers": valid, "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN",
        "sasl_username": USER, "sasl_password": PASSWORD, "ssl_cafile": str(signed.authority),
        "ssl_certfile": str(signed.our_certificate), "ssl_keyfile": str(signed.our_key),
    }  # fmt: skip
    changes: dict[str, dict[str, Any]] = {
        "wrong password": {"sasl_password": "wrong-geheim"},
        "unknown user": {"sasl_username": "stranger"},
        "mechanism that is not offered": {"sasl_mechanism": "SCRAM-SHA-512"},
        "expired certificate of the broker": {"bootstrap_servers": expired},
        "certificate for another host": {"bootstrap_servers": valid.replace("127.0.0.1", "localhost")},
        "unknown authority": {"ssl_cafile": None},
        "expired certificate of rheostat": {
            "ssl_certfile": str(signed.our_expired_certificate), "ssl_keyfile": str(signed.our_expired_key),
        },
        "no certificate of rheostat": {"ssl_certfile": None, "ssl_keyfile": None},
    }  # fmt: skip
    return login | changes[fault]


@pytest.mark.parametrize("part", ["collect", "stream", "tune"])
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("wrong password", "refused the login: SaslAuthenticationFailedError"),
        ("unknown user", "refused the login: SaslAuthenticationFailedError"),
        ("mechanism that is not offered", "does not support kafka.sasl_mechanism SCRAM-SHA-512; it offers PLAIN"),
        ("expired certificate of the broker", "is not accepted: certificate has expired"),
        (
            "certificate for another host",
            "is not accepted: Hostname mismatch, certificate is not valid for 'localhost'",
        ),
        ("unknown authority", "is not accepted: "),
        ("expired certificate of rheostat", "see kafka.ssl_certfile"),
        ("no certificate of rheostat", "see kafka.ssl_certfile"),
    ],
)
def test_process_ends_with_one_sentence(
    strict_lab: Lab, signed: Papers, tmp_path: Path, part: str, fault: str, why: str
) -> None:
    settings = yaml.safe_load(lab_config(strict_lab))
    settings["stream"]["checkpoint_dir"] = str(tmp_path / "checkpoint")
    settings["kafka"] = login_of(fault, strict_lab, signed)
    config = tmp_path / "rheostat.yaml"
    config.write_text(yaml.safe_dump(settings))
    ended = rheostat(part, "--config", config)
    assert ended.returncode == EXIT_UNREACHABLE, ended.stderr
    *logged, sentence = ended.stderr.strip().splitlines()
    assert all(line.startswith("{") for line in logged), "only the log comes before the sentence"
    assert why in sentence
    assert "To do: " in sentence
    assert "Traceback" not in ended.stdout + ended.stderr
    assert "geheim" not in ended.stdout + ended.stderr
