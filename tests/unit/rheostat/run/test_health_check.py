"""The image's health check command: it finds the tuner by the settings, at any port, with and without TLS."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from api_rig import Rig

from rheostat.run.address_file import FILE, write_address
from tuner.api.server import HttpServer
from tuner.settings.http import HttpSettings

DOCKERFILE = Path(__file__).parents[4] / "Dockerfile"


def run_health_check(state: Path) -> int:
    line = re.search(r"^HEALTHCHECK .*\\\n  CMD (\[.*\])$", DOCKERFILE.read_text(), re.M)
    assert line is not None
    command = json.loads(line[1])
    assert command[:2] == ["/usr/bin/python3", "-IS"]
    environ = {"RHEOSTAT_STATE_DIR": str(state), "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, *command[1:]], env=environ, capture_output=True, timeout=60, check=False)
    return done.returncode


@pytest.mark.parametrize("tls", [False, True])
def test_health_check_passes_only_while_the_tuner_answers(
    tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    if tls:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
             "2", "-keyout", key, "-out", certificate, "-subj", "/CN=tuner.example"],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
    monkeypatch.setenv("RHEOSTAT_STATE_DIR", str(tmp_path))
    http = HttpSettings(port=0, **({"tls_certfile": certificate, "tls_keyfile": key} if tls else {}))
    assert run_health_check(tmp_path) != 0, "no tuner has been here yet"
    rig = Rig()
    server = HttpServer(rig.app, http.host, http.port, tls=(certificate, key) if tls else None)
    server.start()
    try:
        write_address(http, server.port)
        assert run_health_check(tmp_path) == 0
        rig.cycle()
        rig.clock.now_s += 3600  # No cycle has ended for an hour.
        assert run_health_check(tmp_path) != 0
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("127.0.0.1", "http://127.0.0.1:1"), ("0.0.0.0", "http://127.0.0.1:1"), ("::", "http://[::1]:1"),
        ("10.1.2.3", "http://10.1.2.3:1"), ("localhost", "http://localhost:1"),
    ],
)  # fmt: skip
def test_http_address_is_reachable_from_this_machine(host: str, reached: str) -> None:
    assert HttpSettings(host=host, read_token="x" * 24).address(1) == reached


def test_write_address_ignores_missing_or_unwritable_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RHEOSTAT_STATE_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    write_address(HttpSettings(), 9464)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RHEOSTAT_STATE_DIR", str(tmp_path / "file"))
    write_address(HttpSettings(), 9464)
    monkeypatch.setenv("RHEOSTAT_STATE_DIR", str(tmp_path / "new"))
    write_address(HttpSettings(), 9464)
    assert (tmp_path / "new" / FILE).read_text() == "http://127.0.0.1:9464\n"
