"""The HTTP server over TLS: the configured certificate, and its replacement when the files change."""

from __future__ import annotations

import http.client
import shutil
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_rig import READ_TOKEN, Rig, bearer
from tls_files import certificate_files

from tuner.api import uvicorn_server
from tuner.api.api_state import ApiState
from tuner.api.certificate import Certificate
from tuner.api.server import HttpServer, make_app

WAIT_S_MAX = 15.0


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    return certificate_files(tmp_path)


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def server(rig: Rig, files: tuple[str, str]) -> Iterator[HttpServer]:
    app = make_app(ApiState(rig.observers, rig.quotas), rig.registry, 5.0, rig.clock, tls=True)
    made = HttpServer(app, "127.0.0.1", 0, tls=files)
    made.start()
    yield made
    made.stop()


def shown(server: HttpServer) -> str:
    """The certificate that a new connection is shown."""
    return ssl.get_server_certificate(("127.0.0.1", server.port), timeout=10)


def replace(files: tuple[str, str], by: tuple[str, str]) -> None:
    for old, new in zip(files, by, strict=True):
        shutil.copy(new, old)


def test_tls_server_sends_strict_transport_security(rig: Rig, server: HttpServer, files: tuple[str, str]) -> None:
    trusted = ssl.create_default_context(cafile=files[0])
    asked = http.client.HTTPSConnection("localhost", server.port, timeout=10, context=trusted)
    asked.request("GET", "/api/v1/status", headers=bearer(READ_TOKEN))
    answer = asked.getresponse()
    assert answer.status == 200
    assert answer.headers["strict-transport-security"] == "max-age=31536000"
    asked.close()
    assert "strict-transport-security" not in rig.get("/api/v1/status").headers


def test_server_shows_a_new_certificate_without_a_restart(
    server: HttpServer, files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uvicorn_server, "_TICKS_PER_CERTIFICATE_CHECK", 1)
    before = shown(server)
    new = certificate_files(tmp_path, "new")
    replace(files, new)
    deadline_s = time.monotonic() + WAIT_S_MAX
    while (now := shown(server)) == before:
        assert time.monotonic() < deadline_s, "the old certificate is still shown"
        time.sleep(0.1)
    assert now == Path(new[0]).read_text()


def test_certificate_is_reloaded_at_second_check_after_change(files: tuple[str, str], tmp_path: Path) -> None:
    certificate = Certificate(*files)
    before = certificate.context()
    certificate.reload_if_changed()
    assert certificate.context() is before
    replace(files, certificate_files(tmp_path, "new"))
    certificate.reload_if_changed()
    assert certificate.context() is before, "the files may still be being written"
    certificate.reload_if_changed()
    assert certificate.context() is not before


def test_requested_certificate_reload_happens_at_once(files: tuple[str, str]) -> None:
    certificate = Certificate(*files)
    before = certificate.context()
    certificate.request_reload()
    certificate.reload_if_changed()
    assert certificate.context() is not before
    again = certificate.context()
    certificate.reload_if_changed()
    assert certificate.context() is again


@pytest.mark.parametrize("fault", ["not a certificate", "another key", "gone"])
def test_unusable_certificate_keeps_the_old_one(
    fault: str, files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate = Certificate(*files)
    before = certificate.context()
    if fault == "gone":
        Path(files[0]).unlink()
    elif fault == "another key":
        shutil.copy(certificate_files(tmp_path, "new")[1], files[1])
    else:
        Path(files[0]).write_text("-----BEGIN CERTIFICATE-----\nno\n")
    for _ in range(4):
        certificate.reload_if_changed()
    assert certificate.context() is before
    assert capsys.readouterr().out.count("cannot be used, so the previous one stays in use") == 1
    replace(files, certificate_files(tmp_path, "newest"))
    for _ in range(2):
        certificate.reload_if_changed()
    assert certificate.context() is not before
