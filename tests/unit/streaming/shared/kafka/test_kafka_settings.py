"""Certificates and keys reach Java as text; other content of the files is left out, and unusable files are refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from kafka.net.sasl import get_sasl_mechanism
from oauth_kit import SigningKey
from pydantic import ValidationError

from streaming.errors import StreamError
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import Unreachable
from streaming.shared.kafka.mechanisms import KeytabLogin
from streaming.shared.kafka.secrets import LoginError
from streaming.shared.kafka.settings import PemError
from streaming.sources import kafka_options


def block(kind: str, text: str) -> str:
    return f"-----BEGIN {kind}-----\n{text}\n-----END {kind}-----"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A bundle of several certificates with names between them that are not ASCII."""
    contents = {
        "ssl_cafile": f"# Zürich root\n{block('CERTIFICATE', 'one')}\n# Genève root\n{block('CERTIFICATE', 'two')}\n",
        "ssl_certfile": block("CERTIFICATE", "ours"),
        "ssl_keyfile": block("PRIVATE KEY", "secret"),
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return {name: str(tmp_path / name) for name in contents}


def settings(files: dict[str, str]) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers="h:9093", security_protocol="SSL", **files)  # type: ignore[arg-type]


def test_java_options_contain_pem_blocks_instead_of_files(files: dict[str, str], tmp_path: Path) -> None:
    config = settings(files).for_java()
    assert config == {
        "bootstrap.servers": "h:9093",
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": f"{block('CERTIFICATE', 'one')}\n{block('CERTIFICATE', 'two')}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": block("CERTIFICATE", "ours"),
        "ssl.keystore.key": block("PRIVATE KEY", "secret"),
    }
    assert str(tmp_path) not in str(config), "an executor on another machine has no such file"


def test_java_options_split_file_with_key_and_certificate(files: dict[str, str]) -> None:
    both = Path(files["ssl_keyfile"])
    both.write_text(f"{block('PRIVATE KEY', 'secret')}\n{block('CERTIFICATE', 'ours')}")
    config = settings({**files, "ssl_certfile": str(both)}).for_java()
    assert config["ssl.keystore.key"] == block("PRIVATE KEY", "secret")
    assert config["ssl.keystore.certificate.chain"] == block("CERTIFICATE", "ours")


@pytest.mark.parametrize("kind", ["EC PRIVATE KEY", "RSA PRIVATE KEY", "ENCRYPTED PRIVATE KEY"])
def test_java_options_refuse_unreadable_key_with_remedy(files: dict[str, str], kind: str) -> None:
    Path(files["ssl_keyfile"]).write_text(block(kind, "secret"))
    with pytest.raises(PemError) as told:
        settings(files).for_java()
    said = str(told.value)
    assert said.startswith(f"kafka.ssl_keyfile: {files['ssl_keyfile']} holds {kind} in PEM form")
    assert "openssl pkcs8 -topk8 -nocrypt -in" in said
    assert "secret" not in said


def test_java_options_name_missing_or_empty_file(files: dict[str, str]) -> None:
    Path(files["ssl_cafile"]).write_text("")
    with pytest.raises(PemError, match=r"ssl_cafile: .* holds nothing in PEM form"):
        settings(files).for_java()
    Path(files["ssl_cafile"]).unlink()
    with pytest.raises(PemError, match=r"ssl_cafile: .* cannot be read: No such file"):
        settings(files).for_java()


def test_kafka_options_report_pem_errors_as_stream_errors(files: dict[str, str]) -> None:
    Path(files["ssl_certfile"]).unlink()
    with pytest.raises(StreamError, match="ssl_certfile"):
        kafka_options(settings(files))


def login(mechanism: str, **other: Any) -> KafkaSettings:
    return KafkaSettings(
        bootstrap_servers="h:9093", security_protocol="SASL_SSL", sasl_mechanism=mechanism, **other
    )  # fmt: skip


ENDPOINT = {"sasl_oauth_token_endpoint": "https://idp/token", "sasl_oauth_client_id": "us"}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"mechanism": "PLAIN"}, "sasl_mechanism PLAIN also needs sasl_username"),
        ({"mechanism": "PLAIN", "sasl_username": "u"}, "needs exactly one of sasl_password, sasl_password_file, and has none"),
        (
            {"mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "p", "sasl_password_file": "f"},
            "and has sasl_password and sasl_password_file",
        ),
        ({"mechanism": "OAUTHBEARER"}, "exactly one of sasl_oauth_token_endpoint, sasl_oauth_token_file, sasl_oauth_token_prov"),
        ({"mechanism": "OAUTHBEARER", "sasl_oauth_token_endpoint": "https://idp"}, "also needs sasl_oauth_client_id"),
        ({"mechanism": "OAUTHBEARER", **ENDPOINT}, "exactly one of sasl_oauth_client_secret, sasl_oauth_client_secret_file"),
        (
            {"mechanism": "OAUTHBEARER", **ENDPOINT, "sasl_oauth_client_secret": "s", "sasl_oauth_token_endpoint": "idp/token"},
            "must be a URL that begins with https://",
        ),
        (
            {"mechanism": "OAUTHBEARER", **ENDPOINT, "sasl_oauth_client_secret": "s", "sasl_oauth_token_endpoint": "http://idp/token"},
            "http:// only for a host like 127.0.0.1",
        ),
        ({"mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": "module.function"}, "String should match pattern"),
        ({"mechanism": "GSSAPI", "sasl_kerberos_keytab": "k"}, "sasl_kerberos_principal and sasl_kerberos_keytab: set both, or neither"),
        ({"mechanism": "KERBEROS"}, "Input should be 'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512', 'OAUTHBEARER' or 'GSSAPI'"),
    ],
)  # fmt: skip
def test_incomplete_login_names_the_missing_key(values: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError) as raised:
        login(**values)
    assert why in str(raised.value)


def test_password_file_is_read_for_each_login(tmp_path: Path) -> None:
    """kafka-python creates a new mechanism for each connection."""
    file = tmp_path / "password"
    file.write_text("first\n")
    arguments = login("PLAIN", sasl_username="u", sasl_password_file=str(file)).kafka_python_arguments()

    def sent() -> bytes:
        return bytes(get_sasl_mechanism("PLAIN")(host="h", **arguments).auth_bytes())

    assert sent().endswith(b"first")
    file.write_text("second")
    assert sent().endswith(b"second")
    file.unlink()
    with pytest.raises(LoginError, match=r"kafka\.sasl_password_file: .* cannot be read: No such file or directory"):
        sent()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_java_gets_the_password_of_the_file(tmp_path: Path, mechanism: str) -> None:
    file = tmp_path / "password"
    file.write_text('a "quoted" one\n')
    settings = login(mechanism, sasl_username="u", sasl_password_file=str(file))
    assert r'username="u" password="a \"quoted\" one";' in settings.for_java()["sasl.jaas.config"]
    file.write_text("")
    with pytest.raises(Unreachable, match=r"cannot log in at h:9093: kafka\.sasl_password_file: .* must have one line"):
        kafka_options(settings)


def test_java_reads_the_operators_token_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    settings = login("OAUTHBEARER", sasl_oauth_token_file=str(file))
    with pytest.raises(LoginError, match="cannot be read"):
        settings.for_java()
    file.write_text(SigningKey("one").token())
    config = settings.for_java()
    assert f'tokenFile="{file}"' in config["sasl.jaas.config"]
    assert config["sasl.login.callback.handler.class"] == "rheostat.stream.TokenLogin"
    assert file.read_text() not in str(config)


def test_keytab_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "keytab"
    settings = login("GSSAPI", sasl_kerberos_principal="rheostat@TEST", sasl_kerberos_keytab=str(file))
    with pytest.raises(LoginError, match=r"kafka\.sasl_kerberos_keytab: .*/keytab cannot be read: No such file"):
        settings.check_login()
    file.touch()
    settings.check_login()


def test_java_gets_the_keytab_or_the_ticket_cache() -> None:
    keytab = login("GSSAPI", sasl_kerberos_principal="rheostat@TEST", sasl_kerberos_keytab="/k")
    assert 'keyTab="/k" principal="rheostat@TEST"' in keytab.for_java()["sasl.jaas.config"]
    assert "useTicketCache=true" in login("GSSAPI").for_java()["sasl.jaas.config"]
    assert login("GSSAPI").for_java()["sasl.kerberos.service.name"] == "kafka"


def test_kerberos_error_becomes_a_login_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package gssapi, with it, and without a ticket."""
    monkeypatch.setenv("KRB5CCNAME", "/missing")
    with_keytab = login("GSSAPI", sasl_kerberos_principal="rheostat@TEST", sasl_kerberos_keytab="/missing")
    for settings in (with_keytab, login("GSSAPI")):
        with pytest.raises(LoginError, match=r"kafka\.sasl_mechanism GSSAPI") as raised:
            get_sasl_mechanism("GSSAPI")(host="h", **settings.kafka_python_arguments())
        assert "\n" not in str(raised.value)
        assert "Major" not in str(raised.value)


def test_keytab_login_uses_the_given_principal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A keytab may have keys of several principals. kafka-python logs in as the one of the ticket cache."""

    class Library:
        NameType = SimpleNamespace(kerberos_principal="principal")
        Name = staticmethod(lambda text, kind: (text, kind))
        acquired: ClassVar[list[tuple[Any, dict[str, str]]]] = []

        @classmethod
        def Credentials(cls, *, name: Any, usage: str, store: dict[str, str]) -> None:  # noqa: N802 - the library's name
            assert usage == "initiate"
            cls.acquired.append((name, store))

    monkeypatch.setitem(sys.modules, "gssapi", Library)
    monkeypatch.setenv("KRB5CCNAME", "other")
    KeytabLogin("kafka", "rheostat@TEST", "/k").get_ticket()
    ((name, store),) = Library.acquired
    assert name == ("rheostat@TEST", "principal")
    assert store == {"client_keytab": "/k", "ccache": os.environ["KRB5CCNAME"]}


def test_secrets_are_hidden_in_texts() -> None:
    settings = login("OAUTHBEARER", **ENDPOINT, sasl_oauth_client_secret="hush")
    assert "hush" not in f"{settings!r} {settings} {settings.model_dump_json()}"
