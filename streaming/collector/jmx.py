"""Reads the metrics of one node's JMX agent over HTTP.

One deadline covers the whole exchange: each wait is limited to the time that is left, and the body's size is limited too. So a slow
sender, an endless header or a compressed body of gigabytes costs at most ``timeout_s`` and ``BODY_BYTES_MAX``.

Invariants: ``read`` returns or raises within ``timeout_s``, plus the time of a DNS lookup if the host is given by name. Every
failure names a remedy. Redirects are not followed, because they would send the password to another server.
"""

from __future__ import annotations

import base64
import http.client
import io
import os
import socket
import ssl
import time
import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from streaming.collector.exposition import Reading, parse
from streaming.shared.contract import Sample

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BODY_BYTES_MAX = 64 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_GZIP = 16 + zlib.MAX_WBITS


class Cause(StrEnum):
    """The cause of a failed scrape, as the label of a metric."""

    TIMEOUT = "timeout"
    CONNECT = "connect"
    TLS = "tls"
    AUTH = "auth"
    HTTP = "http"
    TOO_LARGE = "too_large"
    NOT_METRICS = "not_metrics"
    NO_SLOT = "no_slot"  # No scrape slot became free in the round: the collector is overloaded.
    INTERNAL = "internal"  # An error of rheostat itself.


class ScrapeError(OSError):
    def __init__(self, cause: Cause, text: str) -> None:
        super().__init__(text)
        self.cause = cause


class AgentAccessError(ValueError):
    """A certificate, key or password file cannot be used; the message names the setting."""


@dataclass(frozen=True, slots=True)
class Access:
    """Credentials for the agents, shared by all of them."""

    tls: ssl.SSLContext | None = None
    authorization: str | None = None


@dataclass(frozen=True, slots=True)
class AccessFiles:
    """The paths of the credential files; ``load`` reads them and returns an ``Access``."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify_host: bool = True
    username: str | None = None
    password: str | None = None

    def stamp(self) -> tuple[int, ...]:
        """Returns a value that changes with the files, because certificates and passwords are renewed at run time."""
        return tuple(_changed_ns(path) for path in (self.ca, self.cert, self.key, self.password) if path is not None)

    def load(self) -> Access:
        """Reads the files.

        Raises:
            AgentAccessError: a file is missing or has the wrong content.
        """
        try:
            tls = ssl.create_default_context(cafile=self.ca)
        except (OSError, ValueError) as error:
            raise AgentAccessError(f"collector.tls_ca_file {self.ca}: {_why(error)}; it must be a PEM file") from error
        tls.check_hostname = self.verify_host
        if self.cert is not None and self.key is not None:
            try:
                # Without this, OpenSSL would ask for a passphrase on the terminal.
                tls.load_cert_chain(self.cert, self.key, password=lambda: b"")
            except (OSError, ValueError) as error:
                raise AgentAccessError(
                    f"collector.tls_cert_file {self.cert} and tls_key_file {self.key}: {_why(error)}; they must be PEM files "
                    "that belong together, the key without a passphrase"
                ) from error
        return Access(tls, self._authorization())

    def _authorization(self) -> str | None:
        if self.username is None or self.password is None:
            return None
        try:
            with open(self.password, encoding="utf-8") as file:
                password = file.readline().rstrip("\r\n")
        except (OSError, ValueError) as error:
            raise AgentAccessError(f"collector.password_file {self.password}: {_why(error)}") from error
        if not password:
            raise AgentAccessError(
                f"collector.password_file {self.password}: its first line is empty, and must be the password"
            )
        return "Basic " + base64.b64encode(f"{self.username}:{password}".encode()).decode()


NO_ACCESS = Access()


def read_samples(url: str, timeout_s: float, access: Access = NO_ACCESS) -> list[Sample]:
    """Returns the samples of one node, without the lags. Raises the errors of ``read``."""
    return read(url, timeout_s, access).samples


def read(url: str, timeout_s: float, access: Access = NO_ACCESS, *, body_bytes_max: int = BODY_BYTES_MAX) -> Reading:
    """Scrapes one node: returns its samples and lags.

    Raises:
        ScrapeError: there is no answer within ``timeout_s``, or the answer does not come from a JMX agent.
    """
    until_s = time.monotonic() + timeout_s
    try:
        body = _fetch(url, until_s, access, body_bytes_max)
    except ScrapeError:
        raise
    except TimeoutError as error:
        raise ScrapeError(Cause.TIMEOUT, f"no complete answer within {timeout_s:g} s") from error
    except ssl.SSLError as error:
        raise ScrapeError(Cause.TLS, _tls_advice(error)) from error
    except (http.client.HTTPException, ConnectionResetError, BrokenPipeError) as error:
        if isinstance(error, ConnectionError) and url.startswith("https:"):
            raise ScrapeError(Cause.TLS, _CONNECTION_ENDED.format(_why(error))) from error
        raise ScrapeError(
            Cause.HTTP,
            f"the answer is not valid HTTP ({_why(error)}): check that this is the agent's port, and http or https",
        ) from error
    except OSError as error:
        raise ScrapeError(Cause.CONNECT, f"cannot connect: {_why(error)}") from error
    try:
        return parse(body.decode("utf-8", errors="replace"))
    except ValueError as error:
        raise ScrapeError(Cause.NOT_METRICS, str(error)) from error


def _fetch(url: str, until_s: float, access: Access, body_bytes_max: int) -> bytes:
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    connection = _connect(host, parts.port or (443 if secure else 80), until_s)
    with connection as sock:
        if secure:
            tls = access.tls or ssl.create_default_context()
            sock.settimeout(_left(until_s))
            with tls.wrap_socket(sock, server_hostname=host) as wrapped:
                return _exchange(wrapped, url, until_s, access, body_bytes_max)
        return _exchange(sock, url, until_s, access, body_bytes_max)


def _connect(host: str, port: int, until_s: float) -> socket.socket:
    """Connects like ``socket.create_connection``, but with one deadline for all addresses of a name."""
    failure: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_left(until_s))
            sock.connect(address)
            return sock
        except OSError as error:
            sock.close()
            failure = error
    raise failure or OSError(f"{host} has no address")


def _exchange(sock: socket.socket, url: str, until_s: float, access: Access, body_bytes_max: int) -> bytes:
    parts = urlsplit(url)
    head = [
        f"GET {parts.path or '/'}{'?' + parts.query if parts.query else ''} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Accept: text/plain",
        "Accept-Encoding: gzip",  # 16 KB instead of half a megabyte for a broker that follows thousands of partitions.
        "Connection: close",
    ]
    if access.authorization is not None:
        head.append(f"Authorization: {access.authorization}")
    sock.settimeout(_left(until_s))
    sock.sendall("\r\n".join([*head, "", ""]).encode("latin-1"))
    answer = http.client.HTTPResponse(_Reader(sock, until_s), method="GET")  # type: ignore[arg-type]  # HTTPResponse calls only makefile
    try:
        answer.begin()
        if answer.status != http.client.OK:
            raise _status_error(answer.status, access)
        return _body(answer, body_bytes_max)
    finally:
        answer.close()


def _body(answer: http.client.HTTPResponse, body_bytes_max: int) -> bytes:
    is_gzip = (answer.getheader("Content-Encoding") or "").strip().lower() == "gzip"
    decompressor = zlib.decompressobj(_GZIP) if is_gzip else None
    body = bytearray()
    while chunk := answer.read1(_CHUNK_BYTES):
        try:
            # One byte more than allowed, so that an excess is noticed below.
            bytes_left = body_bytes_max + 1 - len(body)
            body += chunk if decompressor is None else decompressor.decompress(chunk, bytes_left)
        except zlib.error as error:
            raise ScrapeError(
                Cause.HTTP, f"the answer is not valid gzip in spite of its Content-Encoding ({error})"
            ) from error
        if len(body) > body_bytes_max:
            raise ScrapeError(
                Cause.TOO_LARGE,
                f"the answer is longer than {body_bytes_max / 1e6:.0f} MB: use conf/collectors/jmx-exporter.yaml for the agent",
            )
    if answer.length or (decompressor is not None and not decompressor.eof):
        raise http.client.IncompleteRead(bytes(body), answer.length)
    return bytes(body)


class _Reader(io.RawIOBase):
    """Reads a socket; each wait is limited to the time left until the deadline."""

    def __init__(self, sock: socket.socket, until_s: float) -> None:
        self._sock = sock
        self._until_s = until_s

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - the signature of a socket's
        return io.BufferedReader(self, _CHUNK_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        self._sock.settimeout(_left(self._until_s))
        return self._sock.recv_into(buffer)


def _left(until_s: float) -> float:
    """Returns the seconds left until the deadline. Raises TimeoutError if none is left."""
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _status_error(status: int, access: Access) -> ScrapeError:
    if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
        remedy = (
            "check collector.username and the password in collector.password_file"
            if access.authorization is not None
            else "the agent requires a user: set collector.username and collector.password_file"
        )
        return ScrapeError(Cause.AUTH, f"HTTP {status}: {remedy}")
    return ScrapeError(Cause.HTTP, f"HTTP {status}: check the path of the node's URL in collector.endpoints")


# OpenSSL's X509_V_ERR_… codes; Python's ssl has no names for them.
_EXPIRED, _NOT_YET_VALID = 10, 9
_UNKNOWN_AUTHORITY = {2, 18, 19, 20, 21}
_OTHER_HOST = {62, 64}
# With TLS 1.3 a server checks the client's certificate after the handshake, and its alert may be lost with the connection.
_CONNECTION_ENDED = (
    "the agent ended the connection ({}); it may refuse or require a certificate: check collector.tls_cert_file"
)


def _tls_advice(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        detail = error.verify_message
        if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
            return f"the agent's certificate is not valid now ({detail}): renew it on the node, and compare the clocks"
        if error.verify_code in _UNKNOWN_AUTHORITY:
            return (
                f"the agent's certificate is not signed by a known authority ({detail}): name the right authority in "
                "collector.tls_ca_file"
            )
        if error.verify_code in _OTHER_HOST:
            return (
                f"the agent's certificate is for another host ({detail}): use a name of the certificate in collector.endpoints, "
                "or set collector.tls_verify_host: false"
            )
        return f"the agent's certificate is refused ({detail}): renew it on the node"
    reason = error.reason or str(error)
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason or "BAD_CERTIFICATE" in reason:
        return f"the agent refuses or requires a certificate ({reason}): set collector.tls_cert_file and collector.tls_key_file"
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return _CONNECTION_ENDED.format(reason)
    if "UNKNOWN_CA" in reason:
        return f"the agent does not trust the authority of collector.tls_cert_file ({reason}): add that authority to the agent"
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER" in reason:
        return f"the agent does not use TLS ({reason}): use http in the node's URL, or enable TLS in the agent"
    return f"TLS fails ({reason}): compare the agent's TLS settings with collector.tls_*"


def _why(error: BaseException) -> str:
    """Returns the operating system's text for an error, else its message, else the name of its class."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1
