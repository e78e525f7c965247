"""SASL OAUTHBEARER on a real broker that checks signatures: both Kafka clients, renewed tokens, and each fault by its name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_parts import RHEOSTAT, rheostat, running, until
from tls_kit import Papers, papers

from rheostat.connectivity.probe import ProbeOutcome, probe_servers
from rheostat.errors import EXIT_UNREACHABLE
from rheostat.jvm.kernel import stream_jars
from rheostat.lab.cluster import Lab
from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings, consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from oauth_kit import CLIENT, SECRET, TokenServer
from oauth_lab import oauth_spec

LIFETIME_S = 8.0


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def server(signed: Papers) -> Iterator[TokenServer]:
    with TokenServer(lifetime_s=LIFETIME_S).serving(signed.broker) as serving:
        yield serving


@pytest.fixture(scope="module")
def oauth_lab(signed: Papers, server: TokenServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("keys")
    with Lab(oauth_spec(signed, server, folder, brokers=1, super_users=f";User:{CLIENT}")) as lab:
        yield lab


@pytest.fixture(autouse=True)
def well(server: TokenServer) -> Iterator[None]:
    yield
    server.mode, server.lifetime_s = "ok", LIFETIME_S


def settings_of(lab: Lab, signed: Papers, **login: Any) -> KafkaSettings:
    return KafkaSettings(
        bootstrap_servers=lab.sasl_bootstrap_servers, security_protocol="SASL_SSL", ssl_cafile=str(signed.authority),
        sasl_mechanism="OAUTHBEARER", **login,
    )  # fmt: skip


def endpoint(server: TokenServer, signed: Papers, **other: Any) -> dict[str, Any]:
    return {
        "sasl_oauth_token_endpoint": f"{server.url}/token", "sasl_oauth_client_id": CLIENT,
        "sasl_oauth_client_secret": SECRET, "sasl_oauth_cafile": str(signed.authority), **other,
    }  # fmt: skip


def test_python_clients_log_in_again_before_the_token_expires(
    oauth_lab: Lab, signed: Papers, server: TokenServer
) -> None:
    """One connection outlives three tokens; the broker would end a session whose token has expired."""
    settings = settings_of(oauth_lab, signed, **endpoint(server, signed))
    (found,) = probe_servers(settings)
    assert found.outcome is ProbeOutcome.OPEN, found
    issued = server.issued
    with ClusterClient(settings, "test") as client:
        ensure_topics(client, Topics.with_prefix("own"))
        sender, reader = producer(settings, "test"), consumer(settings, "test", auto_offset_reset="earliest")
        reader.subscribe(["own.metrics"])
        sent = 0

        def outlived() -> bool:
            nonlocal sent
            sender.send("own.metrics", value=b"x").get(timeout=10)
            sent += 1
            assert [e.node for e in client.brokers()] == [1]
            return server.issued >= issued + 3

        until(outlived, 60, "three further tokens", every_s=0.5)
        got = 0

        def read() -> bool:
            nonlocal got
            got += sum(len(records) for records in reader.poll(timeout_ms=200).values())
            return got == sent

        until(read, 20, "all records are read")
        sender.close(timeout=5)
        reader.close()


@pytest.mark.parametrize("origin", ["endpoint", "file", "function"])
def test_java_client_logs_in_by_the_token_file(
    oauth_lab: Lab, signed: Papers, server: TokenServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: str
) -> None:
    """Kafka's own Java client with the settings that Spark gets, and with the class of the kernel's jar."""
    login: dict[str, Any] = endpoint(server, signed)
    if origin == "file":
        (tmp_path / "token").write_text(server.key.token() + "\n")
        login = {"sasl_oauth_token_file": str(tmp_path / "token")}
    elif origin == "function":
        (tmp_path / "signer.py").write_text(
            f"import time\ndef sign():\n    return {server.key.token()!r}, (time.time() + 50) * 1000\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        login = {"sasl_oauth_token_provider": "signer:sign"}
    settings = settings_of(oauth_lab, signed, **login)
    properties = tmp_path / "client.properties"
    lines = {name: value.replace("\\", "\\\\").replace("\n", "\\n") for name, value in settings.for_java().items()}
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    class_path = os.pathsep.join([oauth_lab.artifacts.kafka_class_path, *map(str, stream_jars(oauth_lab.artifacts))])
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path, "org.apache.kafka.tools.TopicCommand", "--list",
         "--bootstrap-server", oauth_lab.sasl_bootstrap_servers, "--command-config", str(properties)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"aud": "another"}, "refused the login: SaslAuthenticationFailedError"),
        ({"iss": "https://other.test"}, "refused the login: SaslAuthenticationFailedError"),
        ({"lifetime_s": -5.0}, "gives a token that expired"),
    ],
)
def test_token_that_brokers_do_not_accept_is_reported(
    oauth_lab: Lab, signed: Papers, server: TokenServer, tmp_path: Path, claims: dict[str, Any], why: str
) -> None:
    file = tmp_path / "token"
    file.write_text(server.key.token(**claims))
    (found,) = probe_servers(settings_of(oauth_lab, signed, sasl_oauth_token_file=str(file)))
    expected = ProbeOutcome.LOGIN if "aud" in claims or "iss" in claims else ProbeOutcome.NO_CREDENTIALS
    assert found.outcome is expected, found
    assert why in found.text
    assert file.read_text() not in found.text


def config_of(lab: Lab, signed: Papers, folder: Path, **login: Any) -> Path:
    file = folder / "rheostat.yaml"
    kafka = {
        "bootstrap_servers": lab.sasl_bootstrap_servers, "security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER",
        "ssl_cafile": str(signed.authority), "request_timeout_s": 5, **login,
    }  # fmt: skip
    body = {
        "cluster": "lab", "kafka": kafka, "collector": {"endpoints": lab.jmx_urls(), "http": {"port": None}},
        "stream": {"checkpoint_dir": str(folder / "checkpoint")}, "tuner": {"rate_bytes_per_s_max": 50_000_000},
    }  # fmt: skip
    file.write_text(yaml.safe_dump(body))
    return file


CAMPAIGN = pytest.mark.campaign  # The unit tests of tokens have the same faults.


@pytest.mark.parametrize(
    ("mode", "login", "why"),
    [
        pytest.param("500", {}, "answers with the status 500", id="500"),
        pytest.param("hang", {}, "did not answer within 10 s", id="hang", marks=CAMPAIGN),
        pytest.param(
            "ok", {"sasl_oauth_cafile": None}, "its certificate is not accepted", id="unknown-authority", marks=CAMPAIGN
        ),
        pytest.param(
            "ok", {"sasl_oauth_client_secret": None, "sasl_oauth_client_secret_file": "/missing"},
            "/missing cannot be read", id="no-secret", marks=CAMPAIGN,
        ),
        pytest.param(
            "ok", {"sasl_oauth_client_secret": "wrong"}, "answers with the status 401 (invalid_client)",
            id="wrong-secret", marks=CAMPAIGN,
        ),
    ],
)  # fmt: skip
def test_process_without_token_ends_with_one_sentence(
    oauth_lab: Lab, signed: Papers, server: TokenServer, tmp_path: Path, mode: str, login: dict[str, Any], why: str
) -> None:
    server.mode = mode
    config = config_of(oauth_lab, signed, tmp_path, **{**endpoint(server, signed), **login})
    done = rheostat("collect", "--config", config)
    assert done.returncode == EXIT_UNREACHABLE, done.stderr
    assert "no password or token: kafka.sasl_oauth_" in done.stderr
    assert why in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert SECRET not in done.stderr + done.stdout


def test_collector_survives_an_outage_of_the_token_endpoint(
    oauth_lab: Lab, signed: Papers, server: TokenServer, tmp_path: Path
) -> None:
    """The broker ends its sessions when the token has expired. The collector says why, and goes on once there are tokens."""
    config = config_of(oauth_lab, signed, tmp_path, **endpoint(server, signed))
    reader = consumer(oauth_lab.kafka_settings(), "test", auto_offset_reset="latest")
    with running(*RHEOSTAT, "collect", "--config", config, log=tmp_path / "collect.log") as collect:
        until(lambda: "collector started" in collect.said(), 30, collect.said)
        reader.subscribe(["rheostat.metrics"])

        def arrives() -> bool:
            return bool(reader.poll(timeout_ms=500))

        until(arrives, 30, "records arrive")
        server.mode = "500"
        until(lambda: "no new token for Kafka could be fetched" in collect.said(), 30, collect.said)
        until(lambda: '"current_token_is_valid_s": 0' in collect.said(), 30, collect.said)
        server.mode = "ok"
        until(lambda: "a token for Kafka was fetched again" in collect.said(), 60, collect.said)
        arrives()  # What was sent before the end of the outage.
        until(arrives, 30, "records arrive again")
        assert collect.end(signal.SIGTERM) == 0
        said = collect.said()
    reader.close()
    assert "answers with the status 500" in said
    assert "Traceback" not in said


@pytest.mark.campaign
def test_stream_logs_in_with_renewed_tokens(
    oauth_lab: Lab, signed: Papers, server: TokenServer, tmp_path: Path
) -> None:
    """Spark's source and sink outlive several tokens, and an outage of the endpoint."""
    server.lifetime_s = 30.0  # With less, a busy machine is too slow for Spark's logins.
    config = config_of(oauth_lab, signed, tmp_path, **endpoint(server, signed))
    reader = consumer(oauth_lab.kafka_settings(), "test", auto_offset_reset="latest")
    with (
        running(*RHEOSTAT, "collect", "--config", config, log=tmp_path / "collect.log") as collect,
        running(*RHEOSTAT, "stream", "--config", config, log=tmp_path / "stream.log") as stream,
    ):
        until(lambda: "first batch" in stream.said() or not stream.alive(), 240, stream.said)
        reader.subscribe(["rheostat.signals"])

        def arrives() -> bool:
            assert stream.alive()
            return bool(reader.poll(timeout_ms=500))

        until(arrives, 60, "signals arrive")
        issued = server.issued
        until(lambda: arrives() and server.issued >= issued + 6, 180, "signals outlive three tokens of each process")
        server.mode = "500"
        until(lambda: '"current_token_is_valid_s": 0' in stream.said(), 90, stream.said)
        server.mode = "ok"
        until(lambda: "a token for Kafka was fetched again" in stream.said(), 60, stream.said)
        arrives()
        until(arrives, 120, "signals arrive again")
        for run in (stream, collect):
            assert run.end(signal.SIGTERM) == 0
            assert "Traceback" not in run.said()
    reader.close()
