"""Hostile HTTP clients during a move."""

from __future__ import annotations

import signal
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from slow_clients import SlowClients, status_of
from stage import MakeStage
from tls_kit import papers
from tuner_process import Tuner

Tell = Callable[[str, object], None]

ATTACKED_S = 30.0  # Three times as long as the head of a request may take.
HEAD_S_MAX, HANDSHAKE_S_MAX, SEEN_S = 10.0, 5.0, 4.0
DESCRIPTORS_MAX, LOG_BYTES_MAX = 400, 200_000

pytestmark = [pytest.mark.campaign]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_slow_http_connections_do_not_delay_the_tuner(
    tls: bool, make_stage: MakeStage, tmp_path: Path, record_property: Tell
) -> None:
    """Every slow connection is closed in time, every health check is answered, and the tuner keeps controlling."""
    both = papers(tmp_path).broker
    http = {"port": 0, **({"tls_certfile": str(both), "tls_keyfile": str(both)} if tls else {})}
    stage = make_stage(f"slow-{'tls' if tls else 'plain'}", megabytes=60, http=http)
    tuner = stage.start_tuner()
    stage.until("the tuner acts", tuner.acts, 45)
    port = port_of(tuner)
    stage.move()
    stage.wait_until_raised()
    written, process = tuner.log.stat().st_size, psutil.Process(tuner.process.pid)
    changes, checks, slowest_s, descriptors = len(tuner.changes()), 0, 0.0, 0
    with SlowClients(port, tls=tls) as clients:
        ends_s = time.monotonic() + ATTACKED_S
        while time.monotonic() < ends_s:
            for path in ("/healthz", "/readyz", "/metrics"):
                began_s = time.monotonic()
                assert status_of(path, port, tls=tls) == 200, path
                slowest_s = max(slowest_s, time.monotonic() - began_s)
                checks += 1
            descriptors = max(descriptors, process.num_fds())
            time.sleep(0.5)
        assert clients.failure is None
        assert clients.made > 320, "no connection has lost its place"
    assert clients.lived_s_max <= (HANDSHAKE_S_MAX if tls else HEAD_S_MAX) + SEEN_S
    assert stage.moving(), "the move ended meanwhile: give it more data"
    assert len(tuner.changes()) > changes, "the tuner turned nothing while it was attacked"
    assert descriptors < DESCRIPTORS_MAX
    grown = tuner.log.stat().st_size - written
    assert grown < LOG_BYTES_MAX
    if tls:
        (tmp_path / "new").mkdir()
        before = shown(port)
        both.write_bytes(papers(tmp_path / "new").broker.read_bytes())
        tuner.process.send_signal(signal.SIGHUP)
        stage.until("the new certificate is shown", lambda: shown(port) != before, 20)
    stage.cancel()  # The rest would only take time.
    stage.end()
    record_property(
        "told",
        f"{checks} health checks answered, the slowest in {slowest_s:.2f} s; of {clients.made} slow connections the longest lived "
        f"{clients.lived_s_max:.0f} s; {descriptors} descriptors, {grown / 1000:.0f} kB of log",
    )


def shown(port: int) -> str:
    """Returns the certificate that a new connection gets."""
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=10)


def port_of(tuner: Tuner) -> int:
    (port,) = {line["http_port"] for line in tuner.lines() if "http_port" in line}
    return int(port)
