"""Probes of servers that fail at each stage, simulated with sockets. Logins are in test_rights_live, on real brokers."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rheostat.connectivity.probe import ProbeOutcome, ProbeResult, probe_servers
from rheostat.doctor.cluster import connection
from rheostat.doctor.findings import FindingVerdict
from streaming.shared.kafka import KafkaSettings

Behave = Callable[[socket.socket], None]


@pytest.fixture
def serve() -> Iterator[Callable[[Behave], str]]:
    """Starts servers that hand each connection to the test's function, in a thread."""
    listeners: list[socket.socket] = []

    def start(behave: Behave) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    behave(connection)

        threading.Thread(target=run, daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a file with a self-signed certificate for 127.0.0.1 and its key."""
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(file), "-out", str(file) + ".crt"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    file.write_text(file.read_text() + Path(str(file) + ".crt").read_text())
    return file


def tls(certificate: Path, *, requires_client_certificate: bool = False) -> Behave:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if requires_client_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate)

    def behave(connection: socket.socket) -> None:
        try:
            with context.wrap_socket(connection, server_side=True) as inner:
                hang_up(inner)
        except OSError:
            pass  # The client may refuse the handshake; some tests expect that.

    return behave


def hang_up(connection: socket.socket) -> None:
    connection.recv(65536)


def say_nothing(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def speak_http(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def only(server: str, **kafka: str) -> ProbeResult:
    (found,) = probe_servers(KafkaSettings(bootstrap_servers=server, **kafka), connect_s_max=2, answer_s_max=1)
    assert found.server == server
    return found


def test_closed_port_and_unknown_name_are_no_route() -> None:
    port, name = only(closed_port()), only("broker-1.invalid:9092")
    assert (port.outcome, name.outcome) == (ProbeOutcome.NO_ROUTE, ProbeOutcome.NO_ROUTE)
    assert port.text.endswith("cannot be reached: Connection refused")
    assert name.text.startswith("broker-1.invalid:9092 cannot be reached: ")


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_silent_port_is_slow(serve: Callable[[Behave], str], protocol: str) -> None:
    found = only(serve(say_nothing), security_protocol=protocol)
    assert found.outcome is ProbeOutcome.SLOW
    assert found.text.endswith("accepted the connection, and did not answer within 1 s")
    assert 1 <= found.duration_s < 5


@pytest.mark.parametrize("behave", [hang_up, speak_http])
def test_another_service_is_not_kafka(serve: Callable[[Behave], str], behave: Behave) -> None:
    assert only(serve(behave)).outcome is ProbeOutcome.NOT_KAFKA


@pytest.mark.parametrize("behave", [hang_up, speak_http])
def test_tls_to_a_plain_port_fails(serve: Callable[[Behave], str], behave: Behave) -> None:
    found = only(serve(behave), security_protocol="SSL")
    assert found.outcome is ProbeOutcome.TLS
    assert "the TLS handshake with " in found.text


def test_plain_connection_to_a_tls_port_is_named(serve: Callable[[Behave], str], certificate: Path) -> None:
    found = only(serve(tls(certificate)))
    assert found.outcome is ProbeOutcome.TLS
    assert found.text.endswith("requires TLS on this port, and kafka.security_protocol PLAINTEXT has none")


def test_untrusted_certificate_is_refused(serve: Callable[[Behave], str], certificate: Path) -> None:
    found = only(serve(tls(certificate)), security_protocol="SSL")
    assert found.outcome is ProbeOutcome.TLS
    assert "is not accepted: self-signed certificate" in found.text


def test_certificate_of_another_host_is_refused(serve: Callable[[Behave], str], certificate: Path) -> None:
    port = serve(tls(certificate)).rpartition(":")[2]
    found = only(f"localhost:{port}", security_protocol="SSL", ssl_cafile=str(certificate))
    assert found.outcome is ProbeOutcome.TLS
    assert "certificate is not valid for 'localhost'" in found.text


def test_missing_client_certificate_is_named(serve: Callable[[Behave], str], certificate: Path) -> None:
    found = only(
        serve(tls(certificate, requires_client_certificate=True)), security_protocol="SSL", ssl_cafile=str(certificate)
    )
    assert found.outcome is ProbeOutcome.TLS
    assert "ended TLS" in found.text
    assert found.text.endswith("requires another client certificate: see kafka.ssl_certfile")


def test_service_behind_good_tls_is_not_kafka(serve: Callable[[Behave], str], certificate: Path) -> None:
    found = only(serve(tls(certificate)), security_protocol="SSL", ssl_cafile=str(certificate))
    assert found.outcome is ProbeOutcome.NOT_KAFKA


def test_unreadable_certificate_file_is_named(serve: Callable[[Behave], str]) -> None:
    found = only(serve(say_nothing), security_protocol="SSL", ssl_cafile="/nonexistent/ca.pem")
    assert found.outcome is ProbeOutcome.TLS
    assert found.text == "kafka.ssl_cafile: /nonexistent/ca.pem cannot be read: No such file or directory"


def test_doctor_names_each_failed_server_with_its_remedy(serve: Callable[[Behave], str]) -> None:
    other, closed = (
        serve(speak_http),
        closed_port(),
    )  # In this order: a new server may get the port that was closed last.
    (finding,) = connection(KafkaSettings(bootstrap_servers=f"{closed}, {other}"), "reachability", "kafka")
    assert finding.verdict is FindingVerdict.FAILED
    assert f"no route: {closed} cannot be reached" in finding.found
    assert f"not Kafka: {other} answers, but not with the Kafka protocol" in finding.found
    assert "check kafka.bootstrap_servers" in finding.do
    assert "check the port in kafka.bootstrap_servers" in finding.do
