"""Changes SASL mechanisms of kafka-python, whose table of mechanisms is public.

PLAIN, SCRAM   read the password from a file at each login. kafka-python itself keeps the first password as long as a client lives.
GSSAPI         uses the key of a given principal, and explains a login that the Kerberos library refuses. kafka-python itself would
               use the first key of the keytab, and would only time out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.net.sasl import get_sasl_mechanism, register_sasl_mechanism

from streaming.shared.kafka.secrets import LoginError, SecretFile

WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# The Kerberos library begins each text with the codes of the error.
_CODES = re.compile(r"^Major \(\d+\): .*Minor \(\d+\): ")


@dataclass(frozen=True, slots=True)
class KeytabLogin:
    """The Kerberos service name of the brokers, and the key with which rheostat logs in."""

    service_name: str
    principal: str
    keytab: str

    def get_ticket(self) -> None:
        """Gets a ticket for the next login of this process, unless a valid one is in its memory.

        Raises:
            LoginError: there is no ticket; the text names principal and keytab.
        """
        cache = f"MEMORY:{self.principal}"

        def acquire() -> None:
            import gssapi

            name = gssapi.Name(self.principal, gssapi.NameType.kerberos_principal)
            gssapi.Credentials(name=name, usage="initiate", store={"client_keytab": self.keytab, "ccache": cache})

        _explained(acquire, f"the Kerberos login as {self.principal}, whose key must be in {self.keytab},")
        # kafka-python has no other way to name a ticket cache.
        os.environ["KRB5CCNAME"] = cache


def register_mechanisms() -> None:
    """Makes kafka-python accept a ``SecretFile`` and a ``KeytabLogin``, and raise LoginError if Kerberos fails.

    A ``SecretFile`` is a value of ``sasl_plain_password``. A ``KeytabLogin`` is a value of ``sasl_kerberos_service_name``.
    """
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
        self._login = _explained(lambda: _create_kerberos(mechanism, config))

    def receive(self, auth_bytes: bytes) -> None:
        _explained(lambda: self._login.receive(auth_bytes))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._login, name)


def _create_kerberos(mechanism: Callable[..., Any], config: dict[str, Any]) -> Any:
    login = config.get("sasl_kerberos_service_name")
    if isinstance(login, KeytabLogin):
        login.get_ticket()
        config = {**config, "sasl_kerberos_service_name": login.service_name}
    return mechanism(**config)


def _explained(call: Callable[[], Any], login: str = "the Kerberos login") -> Any:
    """Returns the result of a call of the Kerberos library.

    Args:
        login: the login with its principal and keytab, for the message.

    Raises:
        LoginError: the call failed.
    """
    try:
        return call()
    except LoginError:
        raise
    except (RuntimeError, ImportError) as error:
        raise LoginError(
            "kafka.sasl_mechanism GSSAPI needs the Python package gssapi and the library libgssapi_krb5: install rheostat "
            "with the extra kerberos"
        ) from error
    except Exception as error:
        text = _CODES.sub("", " ".join(str(error).split()))
        raise LoginError(f"kafka.sasl_mechanism GSSAPI: {login} failed: {text}") from error
