"""How far one gets: against sockets that behave as what stands in the way does. Logins are in test_rights_live, on real brokers."""

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
    """Servers of one test; each connection is handed to a function of the test's, in a thread."""
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
    """Certificate and key in one file, for 127.0.0.1, signed by nobody but itself."""
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(file), "-out", str(file) + ".crt"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    file.write_text(file.read_text() + Path(str(file) + ".crt").read_text())
    return file


def tls(certificate: Path, *, asks_for_ours: bool = False) -> Behave:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if asks_for_ours:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate)

    def behave(connection: socket.socket) -> None:
        try:
            with context.wrap_socket(connection, server_side=True) as inner:
                hang_up(inner)
        except OSError:
            pass  # The other side did not like it; which is what is tested.

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


def test_a_closed_port_and_an_unknown_name_are_no_route() -> None:
    port, name = only(closed_port()), only("broker-1.invalid:9092")
    assert (port.way, name.way) == (ProbeOutcome.NO_ROUTE, ProbeOutcome.NO_ROUTE)
    assert port.said.endswith("cannot be reached: Connection refused")
    assert name.said.startswith("broker-1.invalid:9092 cannot be reached: ")


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_port_that_says_nothing_is_slow(serve: Callable[[Behave], str], protocol: str) -> None:
    found = only(serve(say_nothing), security_protocol=protocol)
    assert found.way is ProbeOutcome.SLOW
    assert found.said.endswith("took the connection, and did not answer within 1 s")
    assert 1 <= found.took_s < 5


@pytest.mark.parametrize("behave", [hang_up, speak_http])
def test_another_service_is_not_kafka(serve: Callable[[Behave], str], behave: Behave) -> None:
    assert only(serve(behave)).way is ProbeOutcome.NOT_KAFKA


@pytest.mark.parametrize("behave", [hang_up, speak_http])
def test_tls_where_there_is_none(serve: Callable[[Behave], str], behave: Behave) -> None:
    found = only(serve(behave), security_protocol="SSL")
    assert found.way is ProbeOutcome.TLS
    assert "does not speak TLS with us" in found.said


def test_no_tls_where_there_is_some(serve: Callable[[Behave], str], certificate: Path) -> None:
    found = only(serve(tls(certificate)))
    assert found.way is ProbeOutcome.TLS
    assert found.said.endswith("speaks TLS on this port, and kafka.security_protocol PLAINTEXT has none")


def test_a_certificate_that_nobody_we_trust_has_signed(serve: Callable[[Behave], str], certificate: Path) -> None:
    found = only(serve(tls(certificate)), security_protocol="SSL")
    assert found.way is ProbeOutcome.TLS
    assert "shows a certificate we do not accept: self-signed certificate" in found.said


def test_a_certificate_of_another_host(serve: Callable[[Behave], str], certificate: Path) -> None:
    port = serve(tls(certificate)).rpartition(":")[2]
    found = only(f"localhost:{port}", security_protocol="SSL", ssl_cafile=str(certificate))
    assert found.way is ProbeOutcome.TLS
    assert "certificate is not valid for 'localhost'" in found.said


def test_a_certificate_of_ours_that_is_asked_for(serve: Callable[[Behave], str], certificate: Path) -> None:
    found = only(serve(tls(certificate, asks_for_ours=True)), security_protocol="SSL", ssl_cafile=str(certificate))
    assert found.way is ProbeOutcome.TLS
    assert "ended TLS" in found.said
    assert found.said.endswith("wants another certificate of ours: kafka.ssl_certfile")


def test_behind_a_good_certificate_it_is_not_tls_that_fails(serve: Callable[[Behave], str], certificate: Path) -> None:
    found = only(serve(tls(certificate)), security_protocol="SSL", ssl_cafile=str(certificate))
    assert found.way is ProbeOutcome.NOT_KAFKA


def test_a_file_that_cannot_be_read_is_named(serve: Callable[[Behave], str]) -> None:
    found = only(serve(say_nothing), security_protocol="SSL", ssl_cafile="/nonexistent/ca.pem")
    assert found.way is ProbeOutcome.TLS
    assert "kafka.ssl_cafile" in found.said


def test_every_server_that_fails_is_told_and_what_to_do_about_each(serve: Callable[[Behave], str]) -> None:
    closed, other = closed_port(), serve(speak_http)
    (finding,) = connection(KafkaSettings(bootstrap_servers=f"{closed}, {other}"), "reachability", "kafka")
    assert finding.verdict is FindingVerdict.FAILED
    assert f"no route: {closed} cannot be reached" in finding.found
    assert f"not Kafka: {other} answers, but not as Kafka does" in finding.found
    assert "check kafka.bootstrap_servers" in finding.do
    assert "check the port in kafka.bootstrap_servers" in finding.do
