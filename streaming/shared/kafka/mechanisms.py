"""Changes SASL mechanisms of kafka-python, whose table of mechanisms is public.

PLAIN, SCRAM   read the password from a file at each login. kafka-python itself keeps the password of a client for its life.
GSSAPI         explains a login that the Kerberos library refuses. kafka-python itself would only time out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.net.sasl import get_sasl_mechanism, register_sasl_mechanism

from streaming.shared.kafka.secrets import LoginError, SecretFile

WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def register_mechanisms() -> None:
    """Makes kafka-python accept a ``SecretFile`` as ``sasl_plain_password``, and raise LoginError if Kerberos fails."""
    register_sasl_mechanism("GSSAPI", _with_explanation(get_sasl_mechanism("GSSAPI")), overwrite=True)
    for name in WITH_PASSWORD:
        register_sasl_mechanism(name, _with_password_file(get_sasl_mechanism(name)), overwrite=True)


def _with_password_file(mechanism: Callable[..., Any]) -> Callable[..., Any]:
    def create(**config: Any) -> Any:
        password = config.get("sasl_plain_password")
        if isinstance(password, SecretFile):
            config["sasl_plain_password"] = password.read()
        return mechanism(**config)

    return create


def _with_explanation(mechanism: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **config: ExplainedKerberos(mechanism, config)


class ExplainedKerberos:
    """A GSSAPI login whose errors of the Kerberos library become LoginError."""

    def __init__(self, mechanism: Callable[..., Any], config: dict[str, Any]) -> None:
        self._login = _explained(lambda: mechanism(**config))

    def receive(self, auth_bytes: bytes) -> None:
        _explained(lambda: self._login.receive(auth_bytes))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._login, name)


def _explained(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except RuntimeError as error:
        raise LoginError(
            "kafka.sasl_mechanism GSSAPI needs the Python package gssapi and the library libgssapi_krb5: install rheostat "
            "with the extra kerberos"
        ) from error
    except Exception as error:
        raise LoginError(
            f"kafka.sasl_mechanism GSSAPI: the Kerberos login failed: {' '.join(str(error).split())}"
        ) from error
