"""A small HTTP server for the metrics of a process that has no other. Every path is answered with the page.

Other machines may be able to reach it, so they need the token, and what they can take up is bounded: connections at a time,
in all and of one address, and the time of each. Some places are kept for this machine.
"""

from __future__ import annotations

import hmac
import socket
import sys
import threading
import time
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import structlog
from prometheus_client import CollectorRegistry, make_wsgi_app

from streaming.shared.addresses import is_loopback
from streaming.shared.connection_limits import ConnectionSlots, SlotLimits
from streaming.shared.thread_watch import VitalThread

log = structlog.get_logger("metrics")

STOP_S_MAX = 5.0
CONNECTION_S_MAX = 10.0  # From its first byte to the end of the answer; a scrape takes milliseconds.
CONNECTIONS = SlotLimits(total_max=32, network_max=24, per_address_max=6)
_TELL_EVERY_S = 60.0  # Clients of other machines can cause errors: a line for each would fill the disk.


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


def serve(registry: CollectorRegistry, host: str, port: int, token: str | None = None) -> MetricsServer:
    """
    Args:
        token: that other machines must send (``Authorization: Bearer``); this machine needs none.

    Raises:
        OSError: the address cannot be listened on.
    """
    kind = _ThreadedV6 if ":" in host else _Threaded
    return MetricsServer(make_server(host, port, _guarded(make_wsgi_app(registry), token), kind, _Quiet))


def _guarded(page: WSGIApplication, token: str | None) -> WSGIApplication:
    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if token is None or is_loopback(environ["REMOTE_ADDR"]):
            return page(environ, start_response)
        scheme, _, secret = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(secret.encode(), token.encode()):
            return page(environ, start_response)
        start_response("401 Unauthorized", [("content-type", "text/plain"), ("www-authenticate", "Bearer")])
        return [b"a token is needed: send `Authorization: Bearer ...`\n"]

    return answer


class _Threaded(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 2 * CONNECTIONS.total_max  # Those without a place are closed, and do not wait.

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._places = ConnectionSlots(CONNECTIONS)
        self._told_s = float("-inf")

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(client_address[0]):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except Exception:
            self._places.release(client_address[0])  # The thread that would release it did not start.
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # A client that sends a byte now and then keeps its place no longer than one that sends none.
        deadline = threading.Timer(CONNECTION_S_MAX, _cut, (request,))
        deadline.daemon = True
        try:
            deadline.start()
            super().process_request_thread(request, client_address)
        except Exception:  # noqa: BLE001 - ``handle_error`` logs it: the deadline is a thread too, and may not start
            self.handle_error(request, client_address)
            self.shutdown_request(request)
        finally:
            deadline.cancel()
            self._places.release(client_address[0])

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - socketserver's signature
        """Logs the error that is being handled, at most one a minute. A connection that breaks off (OSError) is no news."""
        error, now_s = sys.exception(), time.monotonic()
        if isinstance(error, OSError) or now_s < self._told_s + _TELL_EVERY_S:
            return
        self._told_s = now_s
        log.error(
            "a request for the metrics was not answered; the next one is tried anew",
            client=str(client_address[0]),
            error=f"{type(error).__name__}: {error}",
        )


def _cut(request: socket.socket) -> None:
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:  # It has ended meanwhile.
        return


class _ThreadedV6(_Threaded):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    timeout = CONNECTION_S_MAX

    def log_message(self, *args: Any) -> None:
        """A scrape every few seconds is no news."""
