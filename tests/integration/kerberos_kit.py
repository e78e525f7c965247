"""A Kerberos server (MIT's KDC) for tests, and a lab whose brokers accept its tickets."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.node import NodeAddress, free_ports
from streaming.shared.kafka import KafkaSettings

REALM, SERVICE, PRINCIPAL = "TEST", "kafka/localhost@TEST", "rheostat@TEST"
ANOTHER = "another@TEST"  # The first principal of the keytab.
STRANGER = "stranger@TEST"  # The KDC knows it, and no keytab has its key.
# A broker asks for a new login this often, and a ticket for the broker lives this long.
LOGIN_AGAIN_S, TICKET_S = 5, 20
_TOOLS = "/usr/sbin"  # Not on the PATH of every user.
_VARIABLES = ("KRB5_CONFIG", "KRB5CCNAME")

needs_kerberos = pytest.mark.skipif(
    shutil.which("krb5kdc", path=_TOOLS) is None or shutil.which("kinit") is None,
    reason="needs Debian's krb5-kdc, krb5-admin-server and krb5-user",
)


@dataclass(slots=True)
class Kerberos:
    """A key distribution centre.

    Attributes:
        conf: krb5.conf of its clients.
        service_keytab: the key of the brokers.
        keytab: the keys of two clients; that of ``PRINCIPAL`` is the second.
    """

    folder: Path
    port: int
    conf: Path = field(init=False)
    service_keytab: Path = field(init=False)
    keytab: Path = field(init=False)
    _process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.conf = self.folder / "krb5.conf"
        self.service_keytab, self.keytab = self.folder / "kafka.keytab", self.folder / "rheostat.keytab"
        self.conf.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_canonicalize_hostname = false\n rdns = false\n"
            " udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n[domain_realm]\n localhost = {REALM}\n"
        )
        folder = self.folder
        (folder / "kdc.conf").write_text(
            f'[kdcdefaults]\n kdc_listen = ""\n kdc_tcp_listen = 127.0.0.1:{self.port}\n'
            f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n"
            f"  acl_file = {folder}/acl\n }}\n"
        )
        self._run(f"{_TOOLS}/kdb5_util", "create", "-s", "-r", REALM, "-P", "unused")
        self._administer(f'addprinc -randkey -maxlife "{TICKET_S} seconds" {SERVICE}', f"addprinc -randkey {STRANGER}")
        self._administer(f"ktadd -k {self.service_keytab} {SERVICE}")
        for name in (ANOTHER, PRINCIPAL):
            self._administer(f"addprinc -randkey {name}", f"ktadd -k {self.keytab} {name}")

    @property
    def environ(self) -> dict[str, str]:
        return {"KRB5_CONFIG": str(self.conf), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}

    def start(self) -> None:
        self._process = subprocess.Popen(
            [f"{_TOOLS}/krb5kdc", "-n", "-r", REALM], env={**os.environ, **self.environ}, stdin=subprocess.DEVNULL
        )

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=10)
            self._process = None

    def write_ticket_cache(self, file: Path) -> None:
        """Writes a ticket of ``PRINCIPAL``, as an operator does with kinit."""
        self._run("kinit", "-k", "-t", str(self.keytab), "-c", f"FILE:{file}", PRINCIPAL)

    def _administer(self, *commands: str) -> None:
        for command in commands:
            self._run(f"{_TOOLS}/kadmin.local", "-r", REALM, "-q", command)

    def _run(self, *command: str) -> None:
        subprocess.run(command, env={**os.environ, **self.environ}, check=True, capture_output=True, timeout=60)


@contextmanager
def kerberos_in(folder: Path) -> Iterator[Kerberos]:
    """Yields a running KDC, whose krb5.conf all processes of this test find."""
    pytest.importorskip("gssapi")
    kerberos = Kerberos(folder, free_ports(1)[0])
    previous = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ["KRB5_CONFIG"] = str(kerberos.conf)
    kerberos.start()
    try:
        yield kerberos
    finally:
        kerberos.stop()
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def kerberos_spec(kerberos: Kerberos) -> LabSpec:
    """Returns a lab of a broker with a listener for GSSAPI."""
    login = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true doNotPrompt=true "
        f'keyTab="{kerberos.service_keytab}" principal="{SERVICE}";'
    )
    settings = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.client.gssapi.sasl.jaas.config": login,
        "listener.name.client.gssapi.connections.max.reauth.ms": str(LOGIN_AGAIN_S * 1000),
        "super.users": "User:ANONYMOUS;User:rheostat",
    }
    return LabSpec(
        brokers=1, users={"unused": "unused"}, settings=settings, places={1: NodeAddress(host="localhost")},
        java_options=(f"-Djava.security.krb5.conf={kerberos.conf}",),
    )  # fmt: skip


def kerberos_settings(lab: Lab, kerberos: Kerberos, **other: Any) -> KafkaSettings:
    """Returns a connection that logs in with the keytab, unless ``other`` has other settings."""
    values = {"sasl_kerberos_principal": PRINCIPAL, "sasl_kerberos_keytab": str(kerberos.keytab), **other}
    return KafkaSettings(
        bootstrap_servers=lab.sasl_bootstrap_servers, security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI", **values
    )  # fmt: skip
