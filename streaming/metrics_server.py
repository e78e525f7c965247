"""A small HTTP server for the metrics of a process that has no other. Every path is answered with the page."""

from __future__ import annotations

import socket
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from streaming.thread_watch import VitalThread

STOP_S_MAX = 5.0
_READ_S_MAX = 10.0


class MetricsServer:
    """Answers every path with the metrics, each request in a thread of its own."""

    def __init__(self, server: WSGIServer) -> None:
        self.port: int = server.server_port
        self._server = server
        self._thread = VitalThread(target=server.serve_forever, name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(timeout=STOP_S_MAX)
        self._server.server_close()


def serve(registry: CollectorRegistry, host: str, port: int) -> MetricsServer:
    """
    Raises:
        OSError: the address cannot be listened on.
    """
    kind = _ThreadedV6 if ":" in host else _Threaded
    return MetricsServer(make_server(host, port, make_wsgi_app(registry), kind, _Quiet))


class _Threaded(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _ThreadedV6(_Threaded):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    timeout = _READ_S_MAX  # A client that opens a connection and says nothing keeps no thread.

    def log_message(self, *args: Any) -> None:
        """A scrape every few seconds is no news."""
