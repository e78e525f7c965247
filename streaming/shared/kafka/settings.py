"""Connection settings of a Kafka cluster, and their translation for kafka-python (collector, tuner) and the Java client (Spark)."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from streaming.shared.unit_settings import Seconds


class PemError(ValueError):
    """A certificate or key file cannot be used; the message names the setting, the file and the remedy."""


class KafkaSettings(BaseModel):
    """Connection to a Kafka cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bootstrap_servers: str = Field(description="host:port of one or more brokers, separated by commas")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="as in Kafka's own client settings"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="needed with SASL_PLAINTEXT and SASL_SSL"
    )
    sasl_username: str | None = Field(default=None, description="user of SASL")
    sasl_password: SecretStr | None = Field(
        default=None, description="password of SASL; better given as environment variable RHEOSTAT_KAFKA__SASL_PASSWORD"
    )
    ssl_cafile: str | None = Field(
        default=None, description="PEM file with the authorities that sign the brokers' certificates"
    )
    ssl_certfile: str | None = Field(default=None, description="PEM file with rheostat's certificate, for mutual TLS")
    ssl_keyfile: str | None = Field(
        default=None,
        description="PEM file with rheostat's key, for mutual TLS: PKCS#8 (BEGIN PRIVATE KEY) without passphrase, as Java requires",
    )
    request_timeout_s: Seconds = Field(
        default=10.0, gt=0, le=120, description="longest wait for one answer, in seconds"
    )

    @field_validator("bootstrap_servers")
    @classmethod
    def _hosts_and_ports(cls, value: str) -> str:
        for server in value.split(","):
            host, _, port = server.strip().rpartition(":")
            if not host or not port.isdigit() or not 0 < int(port) < 65536:
                raise ValueError(f"expected host:port, or several separated by commas, found {server.strip()!r}")
        return value

    @model_validator(mode="after")
    def _sasl_is_complete(self) -> KafkaSettings:
        if self.security_protocol.startswith("SASL"):
            missing = [
                name for name in ("sasl_mechanism", "sasl_username", "sasl_password") if getattr(self, name) is None
            ]
            if missing:
                raise ValueError(f"security_protocol {self.security_protocol} also needs {', '.join(missing)}")
        if (self.ssl_certfile is None) != (self.ssl_keyfile is None):
            raise ValueError("ssl_certfile and ssl_keyfile go together")
        return self

    def kafka_python_arguments(self) -> dict[str, Any]:
        """Returns the keyword arguments of every kafka-python client."""
        timeout_ms = int(self.request_timeout_s * 1000)
        config: dict[str, Any] = {
            "bootstrap_servers": [server.strip() for server in self.bootstrap_servers.split(",")],
            "security_protocol": self.security_protocol,
            "request_timeout_ms": timeout_ms,
            "bootstrap_timeout_ms": timeout_ms,
            # Reconnect to a restarted broker within one control cycle; kafka-python's default is half a minute.
            "reconnect_backoff_max_ms": 2000,
        }
        if self.sasl_mechanism is not None and self.sasl_password is not None:
            config["sasl_mechanism"] = self.sasl_mechanism
            config["sasl_plain_username"] = self.sasl_username
            config["sasl_plain_password"] = self.sasl_password.get_secret_value()
        for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
            if getattr(self, name) is not None:
                config[name] = getattr(self, name)
        return config

    def for_java(self) -> dict[str, str]:
        """Returns the settings under the Java client's names; Spark needs the prefix ``kafka.`` before each.

        They contain the certificates and keys themselves, because executors on other machines do not have the files.

        Raises:
            PemError: one of the files cannot be used.
        """
        config = {"bootstrap.servers": self.bootstrap_servers, "security.protocol": self.security_protocol}
        if self.sasl_mechanism is not None and self.sasl_password is not None:
            module = "plain.PlainLoginModule" if self.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
            user, password = _quoted(self.sasl_username or ""), _quoted(self.sasl_password.get_secret_value())
            config["sasl.mechanism"] = self.sasl_mechanism
            config["sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.{module} required username={user} password={password};"
            )
        if self.ssl_cafile is not None:
            config |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": _pem("ssl_cafile", self.ssl_cafile, "CERTIFICATE"),
            }
        if self.ssl_certfile is not None and self.ssl_keyfile is not None:
            config |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": _pem("ssl_certfile", self.ssl_certfile, "CERTIFICATE"),
                "ssl.keystore.key": _pem("ssl_keyfile", self.ssl_keyfile, "PRIVATE KEY"),
            }
        return config


def _quoted(text: str) -> str:
    """Returns the text quoted and escaped for a JAAS line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _pem(setting: str, path: str, kind: str) -> str:
    """Returns the PEM blocks of one kind, joined. Text between the blocks is dropped, because it may not be ASCII."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError as error:
        raise PemError(f"kafka.{setting}: {path} cannot be read: {error.strerror}") from error
    blocks = re.findall(rf"-----BEGIN {kind}-----.*?-----END {kind}-----", text, re.DOTALL)
    if blocks:
        return "\n".join(blocks)
    other_kinds = ", ".join(dict.fromkeys(re.findall(r"-----BEGIN ([A-Z0-9 ]+)-----", text)))
    convert = (
        f": openssl pkcs8 -topk8 -nocrypt -in {path} -out NEW_FILE" if other_kinds and kind == "PRIVATE KEY" else ""
    )
    raise PemError(
        f"kafka.{setting}: {path} holds {other_kinds or 'nothing'} in PEM form, but the Kafka client of Spark needs a block of "
        f"type {kind}{convert}"
    )
