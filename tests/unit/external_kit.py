"""A service outside rheostat for tests: a real HTTP server that answers well, or behaves badly."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ELSEWHERE = "/elsewhere"
_CHUNK = b" " * 65_536
_CHUNKS_OF_A_GB = 16_384


class ExternalService:
    """Answers each request with ``body`` and ``status``.

    Attributes:
        mode: "answer", "hang", "drip", "endless" (a body of 1 GB) or "redirect".
        requests: the path, the headers and the body of each request.
        sent_bytes: bytes of endless bodies that the client has taken.
    """

    def __init__(self, body: bytes = b"{}", mode: str = "answer", status: int = 200) -> None:
        self.body, self.mode, self.status = body, mode, status
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.content_type = "application/json"
        self.sent_bytes = 0
        self.url = ""
        self._released = threading.Event()

    @contextmanager
    def serving(self) -> Iterator[ExternalService]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer._handle(self)

            def do_POST(self) -> None:
                outer._handle(self)

            def log_message(self, *args: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            server.block_on_close = False
            self.url = f"http://127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                self._released.set()
                server.shutdown()
                thread.join(timeout=10)

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length") or 0))
        self.requests.append((request.path, {k.lower(): v for k, v in request.headers.items()}, body))
        # The client closes the connection if the answer takes too long or is too large.
        with suppress(OSError):
            self._answer(request)

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        if self.mode == "hang":
            self._released.wait(60)
        elif self.mode == "redirect" and request.path != ELSEWHERE:
            request.send_response(302)
            request.send_header("location", f"{self.url}{ELSEWHERE}")
            request.end_headers()
        elif self.mode == "drip":
            request.send_response(200)
            request.end_headers()
            while not self._released.wait(0.02):
                request.wfile.write(b" ")
        elif self.mode == "endless":
            request.send_response(200)
            request.end_headers()
            for _ in range(_CHUNKS_OF_A_GB):
                request.wfile.write(_CHUNK)
                self.sent_bytes += len(_CHUNK)
        else:
            request.send_response(self.status)
            request.send_header("content-type", self.content_type)
            request.send_header("content-length", str(len(self.body)))
            request.end_headers()
            request.wfile.write(self.body)
