"""A small HTTP server for the metrics and the health of collector, stream and learn.

/healthz     200 while the work of the process goes on, else 503 and why
/readyz      200 once the process does its work, else 503: "starting", or why the work has stopped
other paths  the metrics page

/healthz and /readyz need no token, because the health checks of a container platform send none. They show no names of hosts.

Other machines may reach the server, so they need a token, and their use of resources is bounded: connections in total and per
address, and the time of each connection. Some connections are reserved for this machine.
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
from streaming.shared.heartbeat import Heartbeat
from streaming.shared.thread_watch import VitalThread

log = structlog.get_logger("metrics")

STOP_S_MAX = 5.0
# Maximum time of a connection, from its first byte to the end of the answer. A scrape takes milliseconds.
CONNECTION_S_MAX = 10.0
CONNECTIONS = SlotLimits(total_max=32, network_max=24, per_address_max=6)
_LOG_INTERVAL_S = 60.0  # Remote clients can cause errors; a line for each could fill the disk.


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


def serve(
    registry: CollectorRegistry, host: str, port: int, token: str | None = None, heartbeat: Heartbeat | None = None
) -> MetricsServer:
    """Starts the server.

    Args:
        token: bearer token that other machines must send for the metrics; this machine needs none.
        heartbeat: the heartbeat of this process's work, for the health checks; None if there are no health checks.

    Raises:
        OSError: the server cannot listen on the address.
    """
    page = _guarded(make_wsgi_app(registry), token)
    if heartbeat is not None:
        page = _with_health(page, heartbeat)
    server_class = _ThreadedV6 if ":" in host else _Threaded
    return MetricsServer(make_server(host, port, page, server_class=server_class, handler_class=_Quiet))


def _guarded(page: WSGIApplication, token: str | None) -> WSGIApplication:
    """Returns an application that serves the page to this machine, and to other machines that send the token."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if token is None or is_loopback(environ["REMOTE_ADDR"]):
            return page(environ, start_response)
        scheme, _, secret = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(secret.encode(), token.encode()):
            return page(environ, start_response)
        start_response("401 Unauthorized", [("content-type", "text/plain"), ("www-authenticate", "Bearer")])
        return [b"a token is needed: send `Authorization: Bearer ...`\n"]

    return answer


def _with_health(page: WSGIApplication, heartbeat: Heartbeat) -> WSGIApplication:
    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path, fault = environ.get("PATH_INFO", ""), heartbeat.fault()
        if path == "/healthz":
            is_well, text = fault is None, fault or "ok"
        elif path == "/readyz":
            is_well = fault is None and heartbeat.is_ready
            text = fault or ("ready" if is_well else "starting")
        else:
            return page(environ, start_response)
        start_response("200 OK" if is_well else "503 Service Unavailable", [("content-type", "text/plain")])
        return [f"{text}\n".encode()]

    return answer


class _Threaded(ThreadingMixIn, WSGIServer):
    """A WSGI server with a thread per connection, and limits for connections."""

    daemon_threads = True
    request_queue_size = 2 * CONNECTIONS.total_max  # Connections without a slot are closed at once.

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._slots = ConnectionSlots(CONNECTIONS)
        self._logged_s = float("-inf")

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(client_address[0]):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except Exception:
            self._slots.release(client_address[0])  # The thread that would release the slot did not start.
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # The deadline holds for the whole connection, so that a slow sender cannot keep its slot.
        deadline = threading.Timer(CONNECTION_S_MAX, _shut_down, (request,))
        deadline.daemon = True
        try:
            deadline.start()
            super().process_request_thread(request, client_address)
        except Exception:  # noqa: BLE001 - ``handle_error`` logs it: the deadline is a thread too, and may not start
            self.handle_error(request, client_address)
            self.shutdown_request(request)
        finally:
            deadline.cancel()
            self._slots.release(client_address[0])

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - socketserver's signature
        """Logs the current error, at most one per minute. A broken connection (OSError) is normal and not logged."""
        error, now_s = sys.exception(), time.monotonic()
        if isinstance(error, OSError) or now_s < self._logged_s + _LOG_INTERVAL_S:
            return
        self._logged_s = now_s
        log.error(
            "a metrics request failed; later requests are not affected",
            client=str(client_address[0]),
            error=f"{type(error).__name__}: {error}",
        )


def _shut_down(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # The connection has ended meanwhile.
        return


class _ThreadedV6(_Threaded):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    timeout = CONNECTION_S_MAX

    def log_message(self, *args: Any) -> None:
        """Logs nothing, because scrapes arrive every few seconds."""
