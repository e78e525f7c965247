"""GSSAPI on a real broker with a real Kerberos server: both Kafka clients log in with a keytab, and faults are named."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lab_parts import until

from rheostat.connectivity.probe import ProbeOutcome, probe_servers
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.node import NodeAddress, free_ports
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient

REALM, SERVICE, PRINCIPAL = "TEST", "kafka/localhost@TEST", "rheostat@TEST"
_TOOLS = "/usr/sbin"  # Not on the PATH of every user.

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(shutil.which("krb5kdc", path=_TOOLS) is None, reason="needs Debian's krb5-kdc and krb5-admin-server"),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kerberos:
    """A running key distribution centre. ``conf`` is the krb5.conf of its clients."""

    conf: Path
    service_keytab: Path
    keytab: Path


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos]:
    pytest.importorskip("gssapi")
    folder, port = tmp_path_factory.mktemp("kdc"), free_ports(1)[0]
    made = Kerberos(folder / "krb5.conf", folder / "kafka.keytab", folder / "rheostat.keytab")
    made.conf.write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
        f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n[domain_realm]\n localhost = {REALM}\n"
    )
    (folder / "kdc.conf").write_text(
        f'[kdcdefaults]\n kdc_listen = ""\n kdc_tcp_listen = 127.0.0.1:{port}\n'
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n"
        f"  acl_file = {folder}/acl\n }}\n"
    )
    environ = {**os.environ, "KRB5_CONFIG": str(made.conf), "KRB5_KDC_PROFILE": str(folder / "kdc.conf")}

    def tool(name: str, *arguments: str) -> None:
        subprocess.run([f"{_TOOLS}/{name}", *arguments], env=environ, check=True, capture_output=True, timeout=60)

    tool("kdb5_util", "create", "-s", "-r", REALM, "-P", "unused")
    for principal, keytab in ((SERVICE, made.service_keytab), (PRINCIPAL, made.keytab)):
        tool("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
        tool("kadmin.local", "-r", REALM, "-q", f"ktadd -k {keytab} {principal}")
    process = subprocess.Popen([f"{_TOOLS}/krb5kdc", "-n", "-r", REALM], env=environ, stdin=subprocess.DEVNULL)
    previous = {name: os.environ.get(name) for name in ("KRB5_CONFIG", "KRB5_CLIENT_KTNAME", "KRB5CCNAME")}
    os.environ["KRB5_CONFIG"] = str(made.conf)
    try:
        yield made
    finally:
        process.kill()
        process.wait(timeout=10)
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@pytest.fixture(scope="module")
def kerberos_lab(kerberos: Kerberos) -> Iterator[Lab]:
    login = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true doNotPrompt=true "
        f'keyTab="{kerberos.service_keytab}" principal="{SERVICE}";'
    )
    settings = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.client.gssapi.sasl.jaas.config": login,
        "super.users": "User:ANONYMOUS;User:rheostat",
    }
    spec = LabSpec(
        brokers=1, users={"unused": "unused"}, settings=settings, places={1: NodeAddress(host="localhost")},
        java_options=(f"-Djava.security.krb5.conf={kerberos.conf}",),
    )  # fmt: skip
    with Lab(spec) as lab:
        yield lab


def settings_of(lab: Lab, kerberos: Kerberos, **other: Any) -> KafkaSettings:
    values = {"sasl_kerberos_principal": PRINCIPAL, "sasl_kerberos_keytab": str(kerberos.keytab), **other}
    return KafkaSettings(
        bootstrap_servers=lab.sasl_bootstrap_servers, security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI", **values
    )  # fmt: skip


def test_python_clients_log_in_with_the_keytab(kerberos_lab: Lab, kerberos: Kerberos) -> None:
    settings = settings_of(kerberos_lab, kerberos)
    (found,) = until(lambda: probe_servers(settings), 20, "the probe ends")
    assert found.outcome is ProbeOutcome.OPEN, found
    with ClusterClient(settings, "test") as client:
        assert [e.node for e in client.brokers()] == [1]
        assert client.reassignments() == []


def test_java_client_logs_in_with_the_keytab(kerberos_lab: Lab, kerberos: Kerberos, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    java = settings_of(kerberos_lab, kerberos).for_java()
    properties.write_text("".join(f"{name}={value}\n" for name, value in java.items()))
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", f"-Djava.security.krb5.conf={kerberos.conf}", "-cp",
         kerberos_lab.artifacts.kafka_class_path, "org.apache.kafka.tools.TopicCommand", "--list",
         "--bootstrap-server", kerberos_lab.sasl_bootstrap_servers, "--command-config", str(properties)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (
            {"sasl_kerberos_service_name": "hdfs"},
            r"kafka\.sasl_mechanism GSSAPI: the Kerberos login failed: .*hdfs/localhost@TEST not found in Kerberos database",
        ),
        (
            {"sasl_kerberos_keytab": "/missing/keytab"},
            r"kafka\.sasl_kerberos_keytab: /missing/keytab cannot be read: No such file",
        ),
    ],
)
def test_kerberos_fault_is_named(kerberos_lab: Lab, kerberos: Kerberos, other: dict[str, str], why: str) -> None:
    (found,) = probe_servers(settings_of(kerberos_lab, kerberos, **other))
    assert found.outcome is ProbeOutcome.NO_CREDENTIALS, found
    assert re.search(why, found.text), found.text
