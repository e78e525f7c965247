"""Settings from systemd's credentials: a file's name is the key, its content the value."""

from __future__ import annotations

from pathlib import Path

import pytest

from rheostat.config.settings import Settings, parse_settings
from rheostat.errors import BadInputError

TEXT = (
    "cluster: main\nkafka: {bootstrap_servers: 'x:1', security_protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: r}\n"
    "stream: {checkpoint_dir: /x}\ntuner: {rate_bytes_per_s_max: 50000000}\n"
)


def settings_with(folder: Path, **variables: str) -> Settings:
    return parse_settings(TEXT, "f.yaml", {"CREDENTIALS_DIRECTORY": str(folder), **variables})


def test_credential_sets_its_key_before_a_variable(tmp_path: Path) -> None:
    (tmp_path / "kafka.sasl_password").write_text("from a credential\n")
    settings = settings_with(tmp_path, RHEOSTAT_KAFKA__SASL_PASSWORD="from a variable")
    assert settings.kafka.sasl_password is not None
    assert settings.kafka.sasl_password.get_secret_value() == "from a credential"


def test_credential_of_a_deeper_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "kafka.sasl_password").write_text("p")
    (tmp_path / "tuner.http.read_token").write_text("f" * 24)
    assert settings_with(tmp_path).tuner.http.has_tokens


def test_credential_that_is_no_setting_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kafka.sasl_password").write_text("p")
    (tmp_path / "tls.key").write_bytes(b"\xff")
    (tmp_path / "kafka").write_text("x")
    settings_with(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("kafka.sasl_pasword", b"p", r"^credential kafka\.sasl_pasword: kafka\.sasl_pasword: unknown key"),
        ("kafka.sasl_password", b"", r"^credential kafka\.sasl_password: .* is empty: write the value of the setting"),
        ("kafka.sasl_password", b"\xff", r"^credential kafka\.sasl_password: .* is not UTF-8 text"),
        ("tuner.http.read_token", b"short", r"read_token has fewer than 16 characters"),
    ],
)
def test_bad_credential_is_named_without_its_value(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInputError, match=message) as refused:
        settings_with(tmp_path, **({} if name == "kafka.sasl_password" else {"RHEOSTAT_KAFKA__SASL_PASSWORD": "p"}))
    assert "short" not in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_unreadable_credential_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "kafka.sasl_password").mkdir()
    with pytest.raises(BadInputError, match=r"^credential kafka\.sasl_password: .* cannot be read: Is a directory$"):
        settings_with(tmp_path)


def test_missing_folder_of_credentials_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"^CREDENTIALS_DIRECTORY: .* cannot be read: No such file or directory$"):
        settings_with(tmp_path / "none")
