"""The collector's HTTP side: slow, hanging, wrong and protected agents. Real sockets, real TLS, no broker."""

from __future__ import annotations

import base64
import gzip
import http.server
import json
import socket
import ssl
import statistics
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
import structlog
from lab_parts import until, within

from rheostat.lab.node import free_ports
from streaming.collector import jmx
from streaming.collector.counts import Counts
from streaming.collector.jmx import AccessFiles, AgentAccessError, Cause, ScrapeError
from streaming.collector.loop import Collector, CollectorConnections
from streaming.collector.metrics import registry_of
from streaming.collector.settings import CollectorSettings
from streaming.metrics_server import serve
from streaming.shared.contract import NodeRole, Sample, Scrape
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.metric_defs import BY_PROCESS

BODY = b"# TYPE kafka_a gauge\nkafka_a 1.0\njvm_threads_current 70.0\n"
SAMPLES = [Sample("kafka_a", "", 1.0)]
TIMEOUT_S = 0.5
LATE_S_MAX = 0.4  # Less than a second timeout would take.

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


def respond(handler: http.server.BaseHTTPRequestHandler, body: bytes = BODY, **headers: str) -> None:
    handler.send_response(200)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


class Agents:
    """A real HTTP server whose response depends on the path; closing it ends every connection."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, float]] = []
        self.over = threading.Event()
        agents = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                agents.asked.append((self.path, time.monotonic()))
                # A client that gave up is what many of these tests are about.
                try:
                    agents.answers.get(self.path, respond)(self)
                except (ConnectionError, ssl.SSLError):
                    self.close_connection = True

            def log_message(self, *args: object) -> None:
                """Logs nothing."""

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 256
            daemon_threads = True

            def finish_request(self, request: socket.socket, address: tuple[str, int]) -> None:  # type: ignore[override]  # the base class also takes other kinds of addresses
                request.settimeout(5)
                try:
                    # In the connection's own thread: a handshake that fails must not end the server.
                    super().finish_request(tls.wrap_socket(request, server_side=True) if tls else request, address)
                except (OSError, ssl.SSLError):
                    return

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_port
        self._scheme = "https" if tls else "http"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def url(self, path: str = "/metrics", host: str = "127.0.0.1") -> str:
        return f"{self._scheme}://{host}:{self.port}{path}"

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


@pytest.fixture
def agents() -> Iterator[Agents]:
    made = Agents()
    try:
        yield made
    finally:
        made.close()


def failure(url: str, access: jmx.Access = jmx.NO_ACCESS, timeout_s: float = 5.0, **options: int) -> ScrapeError:
    with pytest.raises(ScrapeError) as caught:
        jmx.read(url, timeout_s, access, **options)
    return caught.value


# -- one scrape ------------------------------------------------------------------------------------------------------


def test_plain_and_gzip_responses_are_read(agents: Agents) -> None:
    agents.answers["/gzip"] = lambda h: respond(h, gzip.compress(BODY), Content_Encoding="gzip")
    assert jmx.read_samples(agents.url(), 5) == SAMPLES
    assert jmx.read_samples(agents.url("/gzip"), 5) == SAMPLES


def respond_slowly(handler: http.server.BaseHTTPRequestHandler, head: bytes) -> None:
    handler.wfile.write(head)
    while True:  # Ends when the client hangs up, which is what is tested.
        handler.wfile.write(b"x")
        handler.wfile.flush()
        threading.Event().wait(0.02)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: ",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
        b"HTTP/1.1 200 ",
    ],
    ids=["body", "header", "chunk", "status"],
)
def test_slowly_sending_agent_costs_one_timeout(agents: Agents, head: bytes) -> None:
    agents.answers["/metrics"] = lambda h: respond_slowly(h, head)
    began = time.monotonic()
    found = within(TIMEOUT_S + LATE_S_MAX, lambda: failure(agents.url(), timeout_s=TIMEOUT_S))
    assert found.cause is Cause.TIMEOUT
    assert time.monotonic() - began > TIMEOUT_S * 0.9


def test_silent_port_costs_one_timeout(certificates: Certificates) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        for scheme in ("http", "https"):
            url = f"{scheme}://127.0.0.1:{port}/metrics"
            found = within(TIMEOUT_S + LATE_S_MAX, lambda url=url: failure(url, timeout_s=TIMEOUT_S))
            assert found.cause is Cause.TIMEOUT, found


def test_response_above_size_limit_is_refused_packed_or_not(agents: Agents) -> None:
    many = b"kafka_a 1.0\n" * 100_000
    agents.answers["/plain"] = lambda h: respond(h, many)
    agents.answers["/bomb"] = lambda h: respond(h, gzip.compress(many), Content_Encoding="gzip")
    for path in ("/plain", "/bomb"):
        found = failure(agents.url(path), body_bytes_max=1_000_000)
        assert (found.cause, "longer than 1 MB" in str(found)) == (Cause.TOO_LARGE, True)


def status(code: int, **headers: str) -> Answer:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def cut_off(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + BODY)
    handler.close_connection = True


def packed_and_cut_off(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(BODY * 100)[:-20])
    handler.close_connection = True


@pytest.mark.parametrize(
    ("answer", "cause", "said"),
    [
        (status(404), Cause.HTTP, "HTTP 404: check the path of the node's URL"),
        (status(500), Cause.HTTP, "HTTP 500"),
        (status(302, Location="http://127.0.0.1:9/"), Cause.HTTP, "HTTP 302"),
        (status(401), Cause.AUTH, "HTTP 401: the agent requires a user: set collector.username"),
        (cut_off, Cause.HTTP, "is not valid HTTP"),
        (packed_and_cut_off, Cause.HTTP, "is not valid HTTP"),
        (lambda h: respond(h, BODY, Content_Encoding="gzip"), Cause.HTTP, "is not valid gzip"),
        (lambda h: respond(h, b"<html>Sign in</html>"), Cause.NOT_METRICS, "not Prometheus text: '<html>"),
        (lambda h: respond(h, b""), Cause.NOT_METRICS, "not Prometheus text"),
        (lambda h: h.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n"), Cause.HTTP, "is not valid HTTP"),
    ],
    ids=["404", "500", "302", "401", "cut off", "gzip cut off", "not gzip", "html", "empty", "ssh"],
)
def test_invalid_response_is_reported_with_a_remedy(agents: Agents, answer: Answer, cause: Cause, said: str) -> None:
    agents.answers["/metrics"] = answer
    found = failure(agents.url())
    assert found.cause is cause
    assert said in str(found)


def test_refused_connection_is_not_a_timeout() -> None:
    assert failure(f"http://127.0.0.1:{free_ports(1)[0]}/metrics").cause is Cause.CONNECT
    assert failure("http://no-such-host.invalid:80/metrics").cause is Cause.CONNECT


# -- TLS and passwords -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Certificates:
    folder: Path

    def file(self, name: str) -> str:
        return str(self.folder / name)

    def server(self, name: str, *, client_ca: str | None = None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file(f"{name}.pem"), self.file(f"{name}.key"))
        if client_ca is not None:
            context.load_verify_locations(self.file(client_ca))
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Two authorities; the first has signed for 127.0.0.1, for another host, an expired one, and a client's."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("ca", "other-ca"):
        openssl("req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2", "-subj", f"/CN={name}",
                "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
    for name, names, days in (
        ("good", "IP:127.0.0.1,DNS:localhost", "2"),
        ("elsewhere", "DNS:broker-9.example", "2"),
        ("expired", "IP:127.0.0.1", "-1"),
        ("client", "DNS:collector", "2"),
    ):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / f"{name}.ext").write_text(f"subjectAltName={names}\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-out", f"{name}.pem", "-extfile", f"{name}.ext", "-days", days)  # fmt: skip
    return Certificates(folder)


@contextmanager
def served(tls: ssl.SSLContext | None) -> Iterator[Agents]:
    made = Agents(tls)
    try:
        yield made
    finally:
        made.close()


def test_tls_agent_is_read_with_its_ca(certificates: Certificates) -> None:
    access = AccessFiles(ca=certificates.file("ca.pem")).load()
    with served(certificates.server("good")) as agents:
        assert jmx.read_samples(agents.url(), 5, access) == SAMPLES
        assert jmx.read_samples(agents.url(host="localhost"), 5, access) == SAMPLES


@pytest.mark.parametrize(
    ("server", "ca", "said"),
    [
        ("good", "other-ca.pem", "not signed by a known authority"),
        ("good", None, "name the right authority in collector.tls_ca_file"),
        ("expired", "ca.pem", "has expired): renew it on the node"),
        ("elsewhere", "ca.pem", "certificate is for another host"),
    ],
)
def test_invalid_certificate_is_refused_with_its_reason(
    certificates: Certificates, server: str, ca: str | None, said: str
) -> None:
    access = AccessFiles(ca=certificates.file(ca) if ca else None).load()
    with served(certificates.server(server)) as agents:
        found = failure(agents.url(), access)
        assert found.cause is Cause.TLS
        assert said in str(found)
        assert agents.asked == []


def test_unverified_host_name_still_requires_the_right_ca(certificates: Certificates) -> None:
    with served(certificates.server("elsewhere")) as agents:
        lax = AccessFiles(ca=certificates.file("ca.pem"), verify_host=False).load()
        assert jmx.read_samples(agents.url(), 5, lax) == SAMPLES
        other = AccessFiles(ca=certificates.file("other-ca.pem"), verify_host=False).load()
        assert "not signed by a known authority" in str(failure(agents.url(), other))


def test_agent_that_requires_client_certificate_is_read_with_one(certificates: Certificates) -> None:
    ca = certificates.file("ca.pem")
    ours = AccessFiles(ca=ca, cert=certificates.file("client.pem"), key=certificates.file("client.key")).load()
    with served(certificates.server("good", client_ca="ca.pem")) as agents:
        assert jmx.read_samples(agents.url(), 5, ours) == SAMPLES
        found = failure(agents.url(), AccessFiles(ca=ca).load())
        assert (found.cause, "collector.tls_cert_file" in str(found)) == (Cause.TLS, True)
    with served(certificates.server("good", client_ca="other-ca.pem")) as agents:
        found = failure(agents.url(), ours)
        assert (found.cause, "collector.tls_cert_file" in str(found)) == (Cause.TLS, True)


def test_http_https_mixup_is_named(agents: Agents, certificates: Certificates) -> None:
    found = failure(agents.url().replace("http:", "https:"), timeout_s=TIMEOUT_S)
    assert found.cause in (Cause.TLS, Cause.TIMEOUT)
    with served(certificates.server("good")) as behind_tls:
        found = failure(behind_tls.url().replace("https:", "http:"))
        assert (found.cause, "check that this is the agent's port, and http or https" in str(found)) == (
            Cause.HTTP,
            True,
        )


def guarded(user: str, password: str) -> Answer:
    wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    return lambda h: respond(h) if h.headers["Authorization"] == wanted else status(401)(h)


def test_wrong_password_is_reported_without_being_shown(agents: Agents, tmp_path: Path) -> None:
    agents.answers["/metrics"] = guarded("metrics", "s3cr3t:ü ")
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text("s3cr3t:ü \n")
    wrong.write_text("guess\n")
    assert jmx.read_samples(agents.url(), 5, AccessFiles(username="metrics", password=str(right)).load()) == SAMPLES
    found = failure(agents.url(), AccessFiles(username="metrics", password=str(wrong)).load())
    assert found.cause is Cause.AUTH
    assert "check collector.username and the password in collector.password_file" in str(found)
    assert "guess" not in str(found)


def test_unfit_file_names_its_setting(certificates: Certificates, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    absent, cert, key = str(tmp_path / "absent"), certificates.file("client.pem"), certificates.file("good.key")
    for files, said in (
        (AccessFiles(ca=absent), "collector.tls_ca_file"),
        (AccessFiles(ca=str(empty)), "collector.tls_ca_file"),
        (AccessFiles(cert=cert, key=key), "collector.tls_cert_file"),
        (AccessFiles(username="me", password=absent), "collector.password_file"),
        (AccessFiles(username="me", password=str(empty)), "its first line is empty, and must be the password"),
    ):
        with pytest.raises(AgentAccessError, match=said):
            files.load()


# -- many nodes ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Watch:
    """A running collector with agents only; its Kafka cluster does not exist."""

    collector: Collector
    scrapes: list[Scrape] = field(default_factory=list)

    def of(self, node: int) -> list[Scrape]:
        return [s for s in list(self.scrapes) if s.node == node]

    def steps_s(self, node: int) -> list[float]:
        return [(b.ts_ms - a.ts_ms) / 1000 for a, b in pairwise(self.of(node))]


@contextmanager
def collecting(settings: CollectorSettings) -> Iterator[Watch]:
    nowhere = KafkaSettings(bootstrap_servers=f"127.0.0.1:{free_ports(1)[0]}", request_timeout_s=0.2)
    scrapes: list[Scrape] = []
    stop = threading.Event()
    with ExitStack() as stack:
        clients = [stack.enter_context(ClusterClient(nowhere, "test")) for _ in range(2)]
        collector = Collector(settings, "test", CollectorConnections(*clients), scrapes.append, window_s=30.0)
        thread = threading.Thread(target=collector.run, args=(stop,))
        thread.start()
        try:
            yield Watch(collector, scrapes)
        finally:
            stop.set()
            thread.join(timeout=10)
            assert not thread.is_alive()


def test_many_nodes_share_slots_and_keep_their_interval(agents: Agents) -> None:
    nodes, at_once = range(60), 8
    under_way, most, lock = 0, 0, threading.Lock()

    def slowly(handler: http.server.BaseHTTPRequestHandler) -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        agents.over.wait(0.02)
        with lock:
            under_way -= 1
        respond(handler)

    agents.answers = {f"/{node}": slowly for node in nodes}
    settings = CollectorSettings(
        interval_s=2, timeout_s=1, spread_s=1.0, scrapes_at_once=at_once, endpoints={n: agents.url(f"/{n}") for n in nodes}
    )  # fmt: skip
    with collecting(settings) as watch:
        until(lambda: len(watch.scrapes) >= 6 * len(nodes), 30, "six rounds")

    assert 1 < most <= at_once
    # A busy machine delays a round now and then, and never most of them.
    for node in nodes:
        steps_s = watch.steps_s(node)
        assert len(steps_s) >= 4
        assert abs(statistics.median(steps_s) - 2.0) < 0.5, (node, steps_s)
    rounds = [sorted(watch.of(node)[number].ts_ms for node in nodes) for number in range(5)]
    assert 700 < statistics.median(starts_ms[-1] - starts_ms[0] for starts_ms in rounds) < 1500
    assert {s.role for s in watch.scrapes} == {NodeRole.CONTROLLER}  # No cluster said otherwise.
    assert watch.collector.counts.scrape_failures == {}


def test_hanging_nodes_delay_no_others_and_recover_soon(agents: Agents) -> None:
    """Half of the nodes hang; if all were asked in every round, the slots would be three times overbooked."""
    healthy, hanging = range(20), range(100, 120)
    healed = threading.Event()

    def hang(handler: http.server.BaseHTTPRequestHandler) -> None:
        if not healed.is_set():
            agents.over.wait(5)
        respond(handler)

    agents.answers = {f"/{node}": hang for node in hanging}
    urls = {node: agents.url(f"/{node}") for node in (*healthy, *hanging)}
    settings = CollectorSettings(interval_s=1, timeout_s=0.6, scrapes_at_once=8, endpoints=urls)
    with collecting(settings) as watch:
        counts = watch.collector.counts
        # In the first rounds nobody knows yet who hangs.
        until(lambda: set(counts.scrape_failures) >= set(hanging), 15, "all that hang are known")
        known_s = time.monotonic()
        known_round = counts.rounds
        until(lambda: counts.rounds >= known_round + 12, 30, "twelve more rounds")
        asked = Counter(path for path, at_s in list(agents.asked) if at_s > known_s)
        # On a busy machine one or two may once answer too late, and are asked less often then.
        answering = sorted(asked[f"/{node}"] for node in healthy)
        assert answering[2] >= 11, f"they answer, and had to wait for those that do not: {answering}"
        for node in hanging:
            assert 1 <= asked[f"/{node}"] <= 7, asked
        assert {cause for (node, cause) in counts.scrape_failures_by_cause if node in hanging} <= {
            Cause.TIMEOUT,
            Cause.NO_SLOT,
        }

        healed.set()
        healed_ms = time.time() * 1000
        until(
            lambda: all(watch.of(n) and watch.of(n)[-1].ts_ms > healed_ms for n in hanging),
            15,
            "all are back",
            is_bound=True,
        )
        until(
            lambda: all(len([s for s in watch.of(n) if s.ts_ms > healed_ms]) >= 3 for n in hanging),
            10,
            "they are asked in each round again",
            is_bound=True,
        )


def test_collector_asks_a_cold_agent_twice_in_its_first_round(agents: Agents) -> None:
    """The first answer exceeds the timeout, as in a JVM that still compiles the agent's code."""
    cold = threading.Event()

    def slow_once(handler: http.server.BaseHTTPRequestHandler) -> None:
        if not cold.is_set():
            cold.set()
            agents.over.wait(5.0)
        respond(handler)

    agents.answers["/1"] = slow_once
    settings = CollectorSettings(interval_s=45, timeout_s=2.0, endpoints={1: agents.url("/1")})
    with collecting(settings) as watch:
        until(lambda: watch.of(1), 30, "a record of the first round")
        assert watch.collector.counts.rounds == 1
        assert watch.collector.counts.scrape_failures == {}
        [(_, first_s), (_, second_s)] = agents.asked
        [scrape] = watch.of(1)
    assert 1.8 < second_s - first_s < 5.0
    assert scrape.ts_ms / 1000 > time.time() - (time.monotonic() - first_s) + 1.8, (
        "the time is that of the second scrape"
    )


def test_changed_password_file_is_read_again(agents: Agents, tmp_path: Path) -> None:
    agents.answers["/metrics"] = guarded("metrics", "new")
    password = tmp_path / "password"
    password.write_text("old\n")
    settings = CollectorSettings(
        interval_s=1, timeout_s=0.9, endpoints={1: agents.url()}, username="metrics", password_file=str(password)
    )
    with structlog.testing.capture_logs() as said, collecting(settings) as watch:
        until(
            lambda: watch.collector.counts.scrape_failures_by_cause[(1, Cause.AUTH)] >= 2, 10, "the old one is refused"
        )
        password.write_text("new\n")
        until(lambda: watch.of(1), 10, "the new one is in use")
        password.unlink()
        until(lambda: [line for line in said if "the old ones stay in use" in line["event"]], 10, "its absence is told")
        before = len(watch.of(1))
        until(lambda: len(watch.of(1)) >= before + 2, 10, "the old one goes on")
        assert not watch.collector.counts.access_valid
    told = [line for line in said if line["event"] == "node cannot be scraped"]
    assert [(line["node"], line["url"]) for line in told] == [(1, agents.url())]
    assert "collector.password_file" in told[0]["reason"]
    assert not any(word in json.dumps(said) for word in ('"old"', '"new"', "Basic"))


# -- the collector about itself --------------------------------------------------------------------------------------


def test_collector_metrics_follow_its_counts() -> None:
    counts = Counts()
    counts.rounds, counts.late_rounds, counts.records, counts.full_scan_s = 7, 1, 40, 0.5
    for seconds in (0.02, 0.03, 99.0):
        counts.add_scrape(seconds)
    counts.add_scrape_failure(1, Cause.TIMEOUT)
    counts.add_scrape_failure(2, Cause.AUTH)
    counts.scraped_at_s |= {1: 1_700_000_000.5, 2: 1_700_000_001.0}
    counts.add_failed_record()
    server = serve(registry_of({"main": counts}), "127.0.0.1", 0)
    try:
        text = page(server.port)
        for line in (
            'rheostat_collector_scrape_seconds_bucket{cluster="main",le="0.025"} 1.0',
            'rheostat_collector_scrape_seconds_bucket{cluster="main",le="10.0"} 2.0',
            'rheostat_collector_scrape_seconds_count{cluster="main"} 3.0',
            'rheostat_collector_scrape_failures_total{cause="timeout",cluster="main",node="1"} 1.0',
            'rheostat_collector_last_scrape_timestamp_seconds{cluster="main",node="1"} 1.7000000005e+09',
            'rheostat_collector_rounds_total{cluster="main"} 7.0',
            'rheostat_collector_late_rounds_total{cluster="main"} 1.0',
            'rheostat_collector_records_total{cluster="main"} 40.0',
            'rheostat_collector_records_failed_total{cluster="main"} 1.0',
            'rheostat_collector_full_scan_seconds{cluster="main"} 0.5',
        ):
            assert line in text.splitlines(), f"{line}\n\n{text}"
        for definition in BY_PROCESS["collector"]:
            assert f"# TYPE {definition.name} {definition.kind}" in text

        counts.keep_only([2])
        text = page(server.port)
        assert 'node="1"' not in text
        assert 'node="2"' in text
    finally:
        server.close()
    with pytest.raises(OSError, match=r"."):
        page(server.port)


def page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text: str = answer.read().decode()
        return text


def test_port_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        serve(registry_of({"main": Counts()}), "127.0.0.1", taken.getsockname()[1])
