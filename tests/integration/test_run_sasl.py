"""All of rheostat on a broker that requires TLS, a client certificate and a login: from metric to signal."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion
from lab_parts import RHEOSTAT, rheostat, running, until
from tls_kit import Papers, papers

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports

USER, PASSWORD = "mover", 'a "quoted" \\ secret, it\'s'
SCRAM = "SCRAM-SHA-512"
READY_S_MAX = 240.0


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def strict_lab(signed: Papers) -> Iterator[Lab]:
    """A lab whose CLIENT listener requires a certificate of the authority and a login."""
    client = "listener.name.client"
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENT:SASL_SSL",
        "sasl.enabled.mechanisms": SCRAM,
        f"{client}.{SCRAM.lower()}.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        f"{client}.ssl.keystore.type": "PEM",
        f"{client}.ssl.keystore.location": str(signed.broker),
        f"{client}.ssl.truststore.type": "PEM",
        f"{client}.ssl.truststore.location": str(signed.authority),
        f"{client}.ssl.client.auth": "required",
        "super.users": f"User:ANONYMOUS;User:{USER}",
    }
    with Lab(LabSpec(brokers=1, users={"nobody": "unused"}, settings=settings)) as lab:
        with lab.admin() as admin:
            admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_512, password=PASSWORD)]
            )
        yield lab


def config_of(lab: Lab, signed: Papers, folder: Path, **kafka: Any) -> tuple[Path, int]:
    """A settings file without the password, and the tuner's port."""
    port = free_ports(1)[0]
    body = yaml.safe_load(lab_config(lab, http={"port": port}))
    body["stream"]["checkpoint_dir"] = str(folder / "checkpoint")
    body["kafka"] = {
        "bootstrap_servers": lab.sasl_bootstrap_servers, "security_protocol": "SASL_SSL",
        "sasl_mechanism": SCRAM, "sasl_username": USER,
        "request_timeout_s": 30,  # A login takes several round trips, and all parts log in at once.
        "ssl_cafile": str(signed.authority), "ssl_certfile": str(signed.our_certificate), "ssl_keyfile": str(signed.our_key),
    } | kafka  # fmt: skip
    file = folder / "rheostat.yaml"
    file.write_text(yaml.safe_dump(body))
    return file, port


def with_password(password: str) -> dict[str, str]:
    return {"RHEOSTAT_KAFKA__SASL_PASSWORD": password}


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as got:
            return bool(got.status == 200)
    except OSError:
        return False


def test_metrics_become_signals_over_tls_and_sasl(strict_lab: Lab, signed: Papers, tmp_path: Path) -> None:
    """The tuner is ready only with the lease, the journal and fresh signals."""
    config, port = config_of(strict_lab, signed, tmp_path)
    with running(
        *RHEOSTAT, "run", "--config", config, log=tmp_path / "run.log", env=with_password(PASSWORD)
    ) as run:  # fmt: skip
        until(lambda: is_ready(port) or not run.alive(), READY_S_MAX, "/readyz answers 200")
        assert run.alive()

        def signals() -> subprocess.CompletedProcess[str] | None:
            """Returns what the command prints; None if signals are late, as on a busy machine."""
            done = rheostat("signals", "--config", config, "--json", env=with_password(PASSWORD))
            return done if done.returncode == 0 else None

        shown = until(signals, 60, "the command shows fresh signals")
        assert shown is not None
        assert '"node"' in shown.stdout or '"broker"' in shown.stdout
        assert run.end(signal.SIGTERM) == 0
        said = run.said()
    assert PASSWORD not in said
    assert json.dumps(PASSWORD)[1:-1] not in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("kafka", "password", "why"),
    [
        ({}, "another", r"refuse[sd].*[Aa]uthentication|SaslAuthenticationFailedError"),
        ({"ssl_cafile": None}, PASSWORD, r"[Cc]ertificate|TLS|SSL"),
    ],
    ids=["wrong-password", "unknown-authority"],
)
def test_stream_refused_by_broker_says_why(
    strict_lab: Lab, signed: Papers, tmp_path: Path, kafka: dict[str, Any], password: str, why: str
) -> None:
    config, _ = config_of(strict_lab, signed, tmp_path, **kafka)
    with running(
        *RHEOSTAT, "stream", "--config", config, log=tmp_path / "stream.log", env=with_password(password)
    ) as stream:  # fmt: skip
        until(lambda: re.search(why, stream.said()) or not stream.alive(), 90, "it says why")
        stream.end(signal.SIGTERM)
        said = stream.said()
    assert re.search(why, said), said
    assert password not in said
