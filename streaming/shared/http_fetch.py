"""Fetches a document over HTTP or HTTPS, in limited time and size, and only from the address that the settings name."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from streaming.shared.addresses import is_local_host

BODY_BYTES_MAX = 1 << 20


def fetch(request: urllib.request.Request | str, context: ssl.SSLContext, timeout_s: float) -> bytes:
    """Returns the body of the answer, of which not much more than ``BODY_BYTES_MAX`` is read.

    A redirect is not followed, because it could carry a secret to another host, or return an answer over plain HTTP. No proxy
    is used for a server on this machine, because a secret may go to this server over plain HTTP.

    Raises:
        TimeoutError: the whole answer did not come within about ``timeout_s``.
        urllib.error.HTTPError: the status of the answer is not a success, for example because it is a redirect.
        urllib.error.URLError: the server cannot be reached.
        OSError, http.client.HTTPException: the answer is broken off, or it is not HTTP.
    """
    deadline_s = time.monotonic() + timeout_s
    host = urlsplit(request if isinstance(request, str) else request.full_url).hostname or ""
    proxies = urllib.request.ProxyHandler({} if is_local_host(host) else None)
    with _Deadline(timeout_s) as deadline:
        opener = urllib.request.build_opener(proxies, _Http(deadline), _Https(deadline, context), _NoRedirects)
        try:
            with opener.open(request, timeout=timeout_s) as answer:
                body = read_body(answer, deadline_s)
        except urllib.error.HTTPError:
            raise
        except (OSError, http.client.HTTPException) as error:
            if deadline.is_over or isinstance(getattr(error, "reason", None), TimeoutError):
                raise TimeoutError from error
            raise
        if deadline.is_over:  # The body may be cut off.
            raise TimeoutError
        return body


def read_body(answer: Any, deadline_s: float) -> bytes:
    """Returns the body of an answer or of an ``HTTPError``; raises TimeoutError for a body that is sent too slowly."""
    body = bytearray()
    while len(body) < BODY_BYTES_MAX and (chunk := answer.read1(65536)):
        body += chunk
        if time.monotonic() > deadline_s:
            raise TimeoutError
    return bytes(body)


class _Deadline:
    """Closes the connections of a request once the time of the request is over.

    The timeout of a socket begins again with each byte. So a server that sends its certificate or its headers one byte at a time
    could hold a request for hours.

    Attributes:
        is_over: whether the time is over and the connections are closed.
    """

    def __init__(self, timeout_s: float) -> None:
        self.is_over = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(timeout_s, self._cut_off)
        self._timer.daemon = True

    def __enter__(self) -> _Deadline:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            for copy in self._sockets:
                copy.close()
            self._sockets.clear()

    def watch(self, connection: socket.socket) -> None:
        """Closes this connection too when the time is over. Keeps a copy of the socket, because TLS takes over the socket
        itself."""
        with self._lock:
            if self.is_over:
                raise TimeoutError
            self._sockets.append(connection.dup())

    def _cut_off(self) -> None:
        with self._lock:
            self.is_over = True
            for copy in self._sockets:
                with suppress(OSError):  # The server has closed the connection.
                    copy.shutdown(socket.SHUT_RDWR)


class _Connection(http.client.HTTPConnection):
    deadline: _Deadline

    def connect(self) -> None:
        super().connect()
        self.deadline.watch(self.sock)


class _TlsConnection(http.client.HTTPSConnection, _Connection):
    """Its base classes connect in this order: TCP, then the deadline watches the connection, then TLS."""


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_watched(_Connection, self._deadline), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: _Deadline, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._deadline, self._tls = deadline, context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_watched(_TlsConnection, self._deadline), req, context=self._tls)


def _watched(kind: type[_Connection], deadline: _Deadline) -> Callable[..., _Connection]:
    """Returns a function that makes connections of this kind with the deadline."""

    def make(host: str, **options: Any) -> _Connection:
        connection = kind(host, **options)
        connection.deadline = deadline
        return connection

    return make


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - the base class's signature
        return None
