"""Certificates and keys reach Java as text; other content of the files is left out, and unusable files are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.errors import StreamError
from streaming.shared.kafka import KafkaSettings
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
