"""Connection settings of a Kafka cluster, and their translation for kafka-python (collector, tuner) and the Java client (Spark)."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from streaming.shared.addresses import is_https_or_local
from streaming.shared.kafka.access_tokens import TokenEndpoint, TokenFile, TokenProvider
from streaming.shared.kafka.mechanisms import WITH_PASSWORD, KeytabLogin
from streaming.shared.kafka.secrets import SecretFile, check_readable
from streaming.shared.kafka.token_source import ClientTokens, java_token_file
from streaming.shared.unit_settings import Seconds

_JAVA = "org.apache.kafka.common.security"
# A class of the kernel's jar, which Spark's driver and executors load.
_TOKEN_LOGIN = "rheostat.stream.TokenLogin"
_TLS_FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
_TOKEN_ORIGINS = ("sasl_oauth_token_endpoint", "sasl_oauth_token_file", "sasl_oauth_token_provider")


class PemError(ValueError):
    """A certificate or key file cannot be used; the message names the setting, the file and the remedy."""


class KafkaSettings(BaseModel):
    """Connection to a Kafka cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bootstrap_servers: str = Field(description="host:port of one or more brokers, separated by commas")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="security.protocol of a Kafka client"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"] | None = Field(
        default=None, description="SASL mechanism; required with SASL_PLAINTEXT and SASL_SSL"
    )
    sasl_username: str | None = Field(default=None, description="user name for PLAIN and SCRAM")
    sasl_password: SecretStr | None = Field(
        default=None,
        description="password for PLAIN and SCRAM; in the section `kafka`, better set as environment variable "
        "RHEOSTAT_KAFKA__SASL_PASSWORD",
    )
    sasl_password_file: str | None = Field(
        default=None,
        description="file whose only line is the password, instead of sasl_password; rheostat reads it at each login",
    )
    sasl_oauth_token_endpoint: str | None = Field(
        default=None,
        description="for OAUTHBEARER: URL of the token endpoint of an OAuth 2.0 provider, from which rheostat gets tokens with "
        "its client id and secret",
    )
    sasl_oauth_client_id: str | None = Field(default=None, description="rheostat's client id at the token endpoint")
    sasl_oauth_client_secret: SecretStr | None = Field(
        default=None,
        description="secret of sasl_oauth_client_id; in the section `kafka`, better set as environment variable "
        "RHEOSTAT_KAFKA__SASL_OAUTH_CLIENT_SECRET",
    )
    sasl_oauth_client_secret_file: str | None = Field(
        default=None,
        description="file whose only line is the secret, instead of sasl_oauth_client_secret; rheostat reads it for each token",
    )
    sasl_oauth_scope: str | None = Field(default=None, description="scope of the tokens, if the endpoint needs one")
    sasl_oauth_cafile: str | None = Field(
        default=None,
        description="PEM file with the certificate authorities (CAs) of the token endpoint; without it, the CAs of the "
        "operating system",
    )
    sasl_oauth_token_file: str | None = Field(
        default=None,
        description="for OAUTHBEARER: file whose only line is a JSON Web Token, which another program renews; rheostat reads "
        "it at each login",
    )
    sasl_oauth_token_provider: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="for OAUTHBEARER: Python function that returns a token, written as package.module:function; for IAM of "
        "Amazon MSK, for example",
    )
    sasl_kerberos_service_name: str = Field(
        default="kafka", description="for GSSAPI: Kerberos service name of the brokers"
    )
    sasl_kerberos_principal: str | None = Field(
        default=None, description="for GSSAPI: rheostat's principal in the keytab"
    )
    sasl_kerberos_keytab: str | None = Field(
        default=None,
        description="for GSSAPI: keytab file with the key of sasl_kerberos_principal; without it, rheostat uses the tickets "
        "that kinit has got",
    )
    ssl_cafile: str | None = Field(
        default=None, description="PEM file with the certificate authorities (CAs) of the brokers"
    )
    ssl_certfile: str | None = Field(default=None, description="PEM file with rheostat's certificate, for mutual TLS")
    ssl_keyfile: str | None = Field(
        default=None,
        description="PEM file with the key of ssl_certfile: PKCS#8 (BEGIN PRIVATE KEY) without passphrase, as Java requires",
    )
    request_timeout_s: Seconds = Field(
        default=10.0, gt=0, le=120, description="longest time to wait for a broker's answer, in seconds"
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
            if self.sasl_mechanism is None:
                raise ValueError(f"security_protocol {self.security_protocol} also needs sasl_mechanism")
            if self.sasl_mechanism in WITH_PASSWORD:
                self._require("sasl_username")
                self._require_one_of("sasl_password", "sasl_password_file")
            elif self.sasl_mechanism == "OAUTHBEARER":
                self._require_one_of(*_TOKEN_ORIGINS)
        if self.sasl_oauth_token_endpoint is not None:
            self._require("sasl_oauth_client_id")
            self._require_one_of("sasl_oauth_client_secret", "sasl_oauth_client_secret_file")
            if not is_https_or_local(self.sasl_oauth_token_endpoint):
                raise ValueError(
                    "sasl_oauth_token_endpoint must be a URL that begins with https:// (http:// only for a host like 127.0.0.1)"
                )
        if (self.sasl_kerberos_principal is None) != (self.sasl_kerberos_keytab is None):
            raise ValueError("sasl_kerberos_principal and sasl_kerberos_keytab: set both, or neither")
        if (self.ssl_certfile is None) != (self.ssl_keyfile is None):
            raise ValueError("ssl_certfile and ssl_keyfile: set both, or neither")
        return self

    def _require(self, name: str) -> None:
        if getattr(self, name) is None:
            raise ValueError(f"sasl_mechanism {self.sasl_mechanism} also needs {name}")

    def _require_one_of(self, *names: str) -> None:
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            state = f"has {' and '.join(given)}" if given else "has none"
            raise ValueError(
                f"sasl_mechanism {self.sasl_mechanism} needs exactly one of {', '.join(names)}, and {state}"
            )

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    @property
    def uses_kerberos(self) -> bool:
        return self.uses_sasl and self.sasl_mechanism == "GSSAPI"

    @property
    def needs_token_service(self) -> bool:
        """Whether tokens are fetched by this process, so that a process on another machine cannot log in."""
        return self.sasl_mechanism == "OAUTHBEARER" and self.sasl_oauth_token_file is None

    def _token_origin(self) -> TokenEndpoint | TokenFile | TokenProvider:
        if self.sasl_oauth_token_file is not None:
            return TokenFile(self.sasl_oauth_token_file)
        if self.sasl_oauth_token_provider is not None:
            return TokenProvider(self.sasl_oauth_token_provider)
        assert self.sasl_oauth_token_endpoint is not None
        assert self.sasl_oauth_client_id is not None
        return TokenEndpoint(
            self.sasl_oauth_token_endpoint,
            self.sasl_oauth_client_id,
            _secret(self.sasl_oauth_client_secret, "sasl_oauth_client_secret_file", self.sasl_oauth_client_secret_file),
            self.sasl_oauth_scope,
            self.sasl_oauth_cafile,
        )

    def _password(self) -> str | SecretFile:
        return _secret(self.sasl_password, "sasl_password_file", self.sasl_password_file)

    def check_login(self) -> None:
        """Checks that the password, the token or the keytab of a login is available. The check may wait for the token endpoint.

        Raises:
            LoginError: the password, token or keytab is not available; the text names the setting.
        """
        if self.uses_sasl and self.sasl_mechanism in WITH_PASSWORD:
            password = self._password()
            if isinstance(password, SecretFile):
                password.read()
        elif self.uses_sasl and self.sasl_mechanism == "OAUTHBEARER":
            ClientTokens(self._token_origin()).token()
        elif self.uses_kerberos and self.sasl_kerberos_keytab is not None:
            # The Kerberos library does not name the file.
            check_readable("sasl_kerberos_keytab", self.sasl_kerberos_keytab)

    def check_files(self) -> None:
        """Checks that the certificates and the key can be read, because kafka-python names no file.

        Raises:
            PemError: a file cannot be read.
        """
        if self.security_protocol.endswith("SSL"):
            for name in _TLS_FILES:
                if (path := getattr(self, name)) is not None:
                    _text_of(name, path)

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
        if self.uses_sasl:
            config["sasl_mechanism"] = self.sasl_mechanism
        if self.uses_sasl and self.sasl_mechanism in WITH_PASSWORD:
            config["sasl_plain_username"] = self.sasl_username
            config["sasl_plain_password"] = self._password()
        elif self.uses_sasl and self.sasl_mechanism == "OAUTHBEARER":
            config["sasl_oauth_token_provider"] = ClientTokens(self._token_origin())
        elif self.uses_sasl:
            config["sasl_kerberos_service_name"] = self.sasl_kerberos_service_name
            if self.sasl_kerberos_principal is not None and self.sasl_kerberos_keytab is not None:
                config["sasl_kerberos_service_name"] = KeytabLogin(
                    self.sasl_kerberos_service_name, self.sasl_kerberos_principal, self.sasl_kerberos_keytab
                )
        for name in _TLS_FILES:
            if getattr(self, name) is not None:
                config[name] = getattr(self, name)
        return config

    def for_java(self) -> dict[str, str]:
        """Returns the settings under the Java client's names; Spark needs the prefix ``kafka.`` before each.

        They contain the certificates and keys themselves, because executors on other machines do not have the files.

        Raises:
            PemError: one of the files cannot be used.
            LoginError: the password's file cannot be read, or there is no token.
        """
        config = {"bootstrap.servers": self.bootstrap_servers, "security.protocol": self.security_protocol}
        if self.uses_sasl:
            config |= self._java_login()
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

    def _java_login(self) -> dict[str, str]:
        assert self.sasl_mechanism is not None
        config: dict[str, str] = {"sasl.mechanism": self.sasl_mechanism}
        if self.sasl_mechanism == "OAUTHBEARER":
            file = java_token_file(self._token_origin())
            module = f"{_JAVA}.oauthbearer.OAuthBearerLoginModule required tokenFile={_quoted(file)}"
            config["sasl.login.callback.handler.class"] = _TOKEN_LOGIN
            # Kafka's defaults suit tokens that last for hours. With a short-lived token, the client would warn at each login.
            config |= {"sasl.login.refresh.min.period.seconds": "1", "sasl.login.refresh.buffer.seconds": "0"}
        elif self.sasl_mechanism == "GSSAPI":
            module = f"com.sun.security.auth.module.Krb5LoginModule required {self._java_kerberos()}"
            config["sasl.kerberos.service.name"] = self.sasl_kerberos_service_name
        else:
            name = "plain.PlainLoginModule" if self.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
            password = self._password()
            text = password.read() if isinstance(password, SecretFile) else password
            module = f"{_JAVA}.{name} required username={_quoted(self.sasl_username or '')} password={_quoted(text)}"
        return config | {"sasl.jaas.config": f"{module};"}

    def _java_kerberos(self) -> str:
        if self.sasl_kerberos_keytab is None or self.sasl_kerberos_principal is None:
            return "useTicketCache=true renewTGT=true doNotPrompt=true"
        keytab, principal = _quoted(self.sasl_kerberos_keytab), _quoted(self.sasl_kerberos_principal)
        return f"useKeyTab=true storeKey=true doNotPrompt=true keyTab={keytab} principal={principal}"


def _secret(value: SecretStr | None, file_setting: str, file: str | None) -> str | SecretFile:
    """Returns the secret of the settings, or the file that contains it."""
    if file is not None:
        return SecretFile(file_setting, file)
    assert value is not None, "the validator requires one of them"
    return value.get_secret_value()


def _quoted(text: str) -> str:
    """Returns the text quoted and escaped for a JAAS line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text_of(setting: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise PemError(f"kafka.{setting}: {path} cannot be read: {error.strerror}") from error


def _pem(setting: str, path: str, kind: str) -> str:
    """Returns the PEM blocks of one kind, joined. Text between the blocks is dropped, because it may not be ASCII."""
    text = _text_of(setting, path)
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
