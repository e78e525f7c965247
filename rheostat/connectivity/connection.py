"""One connection to a server: questions and answers, and where the way into the cluster ended."""

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
# With TLS 1.3 a certificate of ours that is missing is noticed only after the handshake, with the first bytes.
_WANTS_OURS = " on our first words, as one does that wants another certificate of ours: kafka.ssl_certfile"


class ProbeOutcome(StrEnum):
    """Where it ended."""

    OPEN = "open"
    NO_ROUTE = "no route"
    TLS = "TLS"
    LOGIN = "refused login"
    NOT_KAFKA = "not Kafka"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    server: str
    way: ProbeOutcome
    said: str
    took_s: float


class ProbeFailed(Exception):
    def __init__(self, way: ProbeOutcome, said: str) -> None:
        super().__init__(said)
        self.way = way


class KafkaExchange:
    """Questions and answers over one connection, all of them before ``until_s``."""

    def __init__(self, sock: socket.socket, until_s: float, server: str) -> None:
        self.server = server
        self.knows: BrokerVersionData | None = None
        self._sock = sock
        self._until_s = until_s
        self._words = KafkaProtocol(client_id="rheostat-doctor")

    def ask(self, request: Any, way: ProbeOutcome, closed: str) -> Any:
        """
        Raises:
            Ended: with ``way`` and ``closed`` when the connection is closed in place of an answer.
            TimeoutError: no answer before ``until_s``.
        """
        if request.API_VERSION is None:
            assert self.knows is not None  # Only what asks for the versions brings its own.
            request.API_VERSION = self.knows.api_version(request)
        self._words.send_request(request)
        try:
            set_deadline(self._sock, self._until_s)
            self._sock.sendall(self._words.send_bytes())
            return self._answer(way, closed)
        except ssl.SSLError as error:
            raise ProbeFailed(
                ProbeOutcome.TLS, f"{self.server} ended TLS ({error.reason or error}){_WANTS_OURS}"
            ) from error
        except ConnectionError as error:
            if isinstance(self._sock, ssl.SSLSocket) and self.knows is None:
                raise ProbeFailed(
                    ProbeOutcome.TLS, f"{self.server} ended TLS ({error.strerror}){_WANTS_OURS}"
                ) from error
            raise ProbeFailed(way, f"{self.server} {closed}") from error
        except errors.KafkaError as error:
            raise ProbeFailed(
                ProbeOutcome.NOT_KAFKA, f"{self.server} answers, but not as Kafka does: {error}"
            ) from error

    def _answer(self, way: ProbeOutcome, closed: str) -> Any:
        while True:
            set_deadline(self._sock, self._until_s)
            data = self._sock.recv(_READ_BYTES)
            if not data:
                raise ProbeFailed(way, f"{self.server} {closed}")
            for _, answer in self._words.receive_bytes(data):
                return answer


def set_deadline(sock: socket.socket, until_s: float) -> None:
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    sock.settimeout(left_s)
