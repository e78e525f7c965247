"""tuner.http: settings that are refused at the start, by name; a token in the settings appears nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from rheostat.config.settings import Settings, parse_settings
from rheostat.errors import BadInputError
from tuner.api.auth import CredentialsError
from tuner.api.server import HttpServer
from tuner.app import run_tuner

SECRET = "hush-0123456789abcdef"
BASE = """cluster: lab
kafka:
  bootstrap_servers: 127.0.0.1:1
stream:
  checkpoint_dir: /tmp/none
tuner:
  rate_bytes_per_s_max: 50000000
"""


def settings(http: str, environ: dict[str, str] | None = None) -> Settings:
    return parse_settings(f"{BASE}  http: {http}\n", "rheostat.yaml", environ or {})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.7", "::1", "localhost"])
def test_loopback_host_needs_no_token(host: str) -> None:
    assert not settings(f"{{host: '{host}'}}").tuner.http.has_tokens


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "kafka-7.example.org"])
def test_network_host_needs_a_token(host: str) -> None:
    with pytest.raises(BadInputError) as caught:
        settings(f"{{host: '{host}'}}")
    assert caught.value.exit_code == 2
    said = str(caught.value)
    assert said.startswith(
        f"rheostat.yaml:8: tuner.http: host {host} can be reached from other machines, and no token is set"
    )
    assert "RHEOSTAT_TUNER__HTTP__READ_TOKEN" in said


@pytest.mark.parametrize("key", ["read_token", "operate_token"])
def test_token_from_file_or_environment_allows_network_host(key: str) -> None:
    assert settings(f"{{host: '::', {key}: {SECRET}}}").tuner.http.has_tokens
    given = {f"RHEOSTAT_TUNER__HTTP__{key.upper()}": SECRET, "RHEOSTAT_TUNER__HTTP__HOST": "0.0.0.0"}
    assert parse_settings(BASE, "rheostat.yaml", given).tuner.http.has_tokens


@pytest.mark.parametrize(
    ("http", "said"),
    [
        ("{read_token: hush}", "read_token has fewer than 16 characters"),
        ("{operate_token: 'hush 0123456789abcdef'}", "operate_token has spaces"),
        (f"{{read_token: {SECRET}, operate_token: {SECRET}}}", "read_token and operate_token are the same"),
        ("{tls_certfile: /x.pem}", "tls_certfile and tls_keyfile: set both, or neither"),
        (f"{{read_token: {SECRET}, tokens: 3}}", "tuner.http.tokens: unknown key"),
        (f"{{read_token: [{SECRET}]}}", "tuner.http.read_token: input should be a valid string"),
    ],
)
def test_invalid_http_setting_is_named_without_tokens(http: str, said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        settings(http)
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


def test_dumped_settings_hide_tokens() -> None:
    shown = settings(f"{{read_token: {SECRET}, operate_token: {SECRET}x}}")
    assert SECRET not in shown.model_dump_json()
    assert SECRET not in repr(shown)


def started(http: str, tmp_path: Path) -> Any:
    import threading

    found = settings(http)
    return run_tuner("lab", found.kafka, found.topic_names(), found.tuner, threading.Event())


def test_tuner_with_invalid_tokens_file_does_not_start(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("operate kim\n")
    with pytest.raises(CredentialsError, match="tokens:1: expected a role, a name and a token"):
        started(f"{{port: 0, tokens_file: {file}}}", tmp_path)


def test_tuner_with_unusable_certificate_does_not_start(tmp_path: Path) -> None:
    file = tmp_path / "cert.pem"
    with pytest.raises(CredentialsError, match=r"cert\.pem"):
        started(f"{{port: 0, tls_certfile: {file}, tls_keyfile: {file}}}", tmp_path)
    file.write_text("no certificate")
    with pytest.raises(CredentialsError, match=r"cert\.pem"):
        HttpServer(FastAPI(), "127.0.0.1", 0, tls=(str(file), str(file)))
