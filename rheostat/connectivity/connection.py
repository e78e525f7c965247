"""One connection to a server: sends Kafka requests, and reports at which stage the connection fails."""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kafka import errors
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.parser import KafkaProtocol

_READ_BYTES = 65536
# With TLS 1.3 a server rejects a wrong or missing client certificate only after the handshake, on the first bytes.
_CLIENT_CERTIFICATE = (
    " on the first request, which happens if a server requires another client certificate: see kafka.ssl_certfile"
)


class ProbeOutcome(StrEnum):
    """The stage at which the probe of a server ended."""

    OPEN = "open"
    NO_ROUTE = "no route"
    TLS = "TLS"
    LOGIN = "refused login"
    NO_CREDENTIALS = "no password or token"
    NOT_KAFKA = "not Kafka"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    server: str
    outcome: ProbeOutcome
    text: str
    duration_s: float


class ProbeFailed(Exception):
    """A stage has failed; ``outcome`` names the stage, the text has the cause."""

    def __init__(self, outcome: ProbeOutcome, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


class KafkaExchange:
    """Sends requests over one connection, and reads the responses.

    Attributes:
        versions: the request versions that the server supports; None before the first response, which lists the versions.
    """

    def __init__(self, sock: socket.socket, until_s: float, server: str) -> None:
        """
        Args:
            until_s: the deadline of all requests together (``time.monotonic``).
        """
        self.server = server
        self.versions: BrokerVersionData | None = None
        self._sock = sock
        self._until_s = until_s
        self._protocol = KafkaProtocol(client_id="rheostat-doctor")

    def request(self, request: Any, closed_outcome: ProbeOutcome, closed_text: str) -> Any:
        """Sends a request, and returns the response.

        Raises:
            ProbeFailed: with ``closed_outcome`` and ``closed_text`` if the server closes the connection instead of responding; with
                TLS or NOT_KAFKA if the server violates the TLS or the Kafka protocol.
            TimeoutError: no response before the deadline.
        """
        if request.API_VERSION is None:
            assert self.versions is not None, "before the versions are known, a request must set its own version"
            request.API_VERSION = self.versions.api_version(request)
        self._protocol.send_request(request)
        try:
            set_deadline(self._sock, self._until_s)
            self._sock.sendall(self._protocol.send_bytes())
            return self._read_response(closed_outcome, closed_text)
        except ssl.SSLError as error:
            raise ProbeFailed(
                ProbeOutcome.TLS, f"{self.server} ended TLS ({error.reason or error}){_CLIENT_CERTIFICATE}"
            ) from error
        except ConnectionError as error:
            is_first_request = self.versions is None
            if isinstance(self._sock, ssl.SSLSocket) and is_first_request:
                raise ProbeFailed(
                    ProbeOutcome.TLS, f"{self.server} ended TLS ({error.strerror}){_CLIENT_CERTIFICATE}"
                ) from error
            raise ProbeFailed(closed_outcome, f"{self.server} {closed_text}") from error
        except errors.KafkaError as error:
            raise ProbeFailed(
                ProbeOutcome.NOT_KAFKA, f"{self.server} answers, but not with the Kafka protocol: {error}"
            ) from error

    def _read_response(self, closed_outcome: ProbeOutcome, closed_text: str) -> Any:
        while True:
            set_deadline(self._sock, self._until_s)
            data = self._sock.recv(_READ_BYTES)
            if not data:
                raise ProbeFailed(closed_outcome, f"{self.server} {closed_text}")
            for _, response in self._protocol.receive_bytes(data):
                return response


def set_deadline(sock: socket.socket, until_s: float) -> None:
    """Sets the socket's timeout to the time left.

    Raises:
        TimeoutError: no time is left.
    """
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    sock.settimeout(left_s)
