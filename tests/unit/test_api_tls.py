"""The page over TLS, with the certificate that the settings name."""

from __future__ import annotations

import http.client
import ssl
import subprocess
from pathlib import Path

from api_rig import READ_TOKEN, Rig, bearer

from tuner.api.server import HttpServer, make_app


def test_over_tls_a_token_is_safe_and_the_browser_is_told_to_come_back_that_way(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    rig = Rig()
    app = make_app(rig.board, rig.quotas, rig.registry, 5.0, rig.clock, watched=rig.watched, tls=True)
    server = HttpServer(app, "127.0.0.1", 0, tls=(str(certificate), str(key)))
    server.start()
    try:
        trusted = ssl.create_default_context(cafile=str(certificate))
        asked = http.client.HTTPSConnection("localhost", server.port, timeout=10, context=trusted)
        asked.request("GET", "/api/v1/status", headers=bearer(READ_TOKEN))
        answer = asked.getresponse()
        assert answer.status == 200
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
        asked.close()
    finally:
        server.stop()
    assert "strict-transport-security" not in rig.get("/api/v1/status").headers
